// An engine's pace and the clocks of its operations: what holds them, and when it is told.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "actors/train/rank_engine.hpp"
#include "gpu/back_end.hpp"
#include "gpu/controls/open_actuator.hpp"

namespace troupe::train {

/// ENG-14
status rank_engine::open_actuator() {
  if (options_.control.empty()) return {};
  const gpu::controls::control_owner owner{options_.job, options_.at.rank, options_.launch};
  auto at = options_.controls;
  at.agent_socket = options_.agent_socket;
  TROUPE_TRY(chosen,
             gpu::controls::open_actuator(options_.control, at, owner, compute_->host_threads(),
                                          gpu::device_uuid(options_.device)));
  actuator_ = std::move(chosen.control);
  controls_passed_ = std::move(chosen.passed);
  if (!options_.clocks_operations || !actuator_ || !actuator_->sets_clocks()) return {};
  clocks_ = std::make_unique<gpu::controls::operation_clocks>(
      actuator_,
      [tell = options_.on_notice](const error& why) {
        if (tell)
          tell(fmt::format("its operations have the highest clock from now on (power.slack): {}",
                           why.message));
      },
      gpu::controls::clock_setter_terms{},
      [tell = options_.on_notice](const std::string& note) {
        if (tell) tell(fmt::format("{} (power.slack)", note));
      });
  return {};
}

void rank_engine::tell_controls(engine_facts& out) const {
  for (const auto& why : controls_passed_) out.notes.push_back("passed over: " + why);
  out.pauses = !options_.control.empty() && !actuator_;
  out.sets_clocks = clocks_ != nullptr;
  if (out.pauses) out.notes.push_back("pace by pauses between operations");
  if (!actuator_) return;
  if (clocks_) out.clocks_mhz = actuator_->clocks_mhz();
  const auto of = actuator_->facts();
  out.saves_energy = of.saves_energy;
  out.control = of.name;
  out.notes.push_back(fmt::format("pace by {}: {:.1f} to {:.0f} %, in steps of {:.1f} %; {}",
                                  of.name, 100 * of.least, 100 * of.most, 100 * of.resolution,
                                  of.saves_energy ? "saves energy" : "saves no energy"));
  if (const auto by = actuator_->set_by(); !by.empty()) out.notes.push_back("set by " + by);
}

/// ENG-14. Told once.
bool rank_engine::has_lost_control() {
  if (!actuator_ || !actuator_->has_gone()) return false;
  if (!told_of_loss_.exchange(true) && options_.on_notice)
    options_.on_notice(fmt::format("{} is gone: pace by pauses between operations from now on",
                                   actuator_->set_by()));
  return true;
}

/// On the thread that has just set the pace: who sets a clock meanwhile may keep others waiting.
void rank_engine::note_actuation() {
  const auto of = actuator_->facts();
  actuation_p50_ns_ = of.p50_ns.value_or(-1);
  actuation_p99_ns_ = of.p99_ns.value_or(-1);
}

/// ENG-14, ENG-15. A device's stream does tasks of the host on another thread than it tells of its
/// operations, and is idle until they are done: clocks are told where operations are.
void rank_engine::set_pace(const op_order& order) {
  if (!actuator_) return;
  const int pace = order.pace.of_1024;
  const bool is_whole = pace == work_pace::whole;
  const bool is_set = clocks_ && is_whole && pace_ordered_ == pace && pace_in_force_ == pace;
  pace_ordered_ = pace;
  if (!is_set)
    compute_->host_task([this, pace]() -> status {
      const int before = pace_in_force_.exchange(0);
      const auto set = actuator_->set(pace);
      if (!set && has_lost_control()) return {};
      TROUPE_CHECK(set);
      if (before != pace) note_actuation();
      pace_in_force_ = pace;
      return {};
    });
  if (clocks_)
    compute_->notify([this, table = is_whole ? order.clocks : nullptr](const status&) {
      clocks_->begin_pass(table);
    });
}

void rank_engine::note_clock(pipeline_op kind, bool begins) {
  if (!clocks_ || (kind != pipeline_op::forward && kind != pipeline_op::backward)) return;
  begins ? clocks_->began() : clocks_->ended();
}

void rank_engine::tell_clocks(step_outcome& out) {
  out.actuation_p50_ns = actuation_p50_ns_;
  out.actuation_p99_ns = actuation_p99_ns_;
  out.pauses = has_lost_control();
  if (!clocks_) return;
  out.late_clocks = clocks_->take_late();
  out.clocks_failed = clocks_->has_failed();
  out.clocks_given_back_to = clocks_->given_back_to();
}

}  // namespace troupe::train
