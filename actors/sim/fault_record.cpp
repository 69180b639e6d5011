// Why faults have no effect.
#include "actors/sim/fault_record.hpp"

#include <utility>

#include <fmt/format.h>

#include "actors/sim/named_faults.hpp"

namespace troupe::sim {

namespace {

constexpr double told_unit_ns = 1e9;

/// What is not there, of a fault that found nothing to befall; and what to do.
std::pair<const char*, const char*> nothing_for(fault_kind kind) {
  using enum fault_kind;
  if (befalls_node(kind))
    return {"its node has no process that runs at that time", "choose another node or time"};
  switch (kind) {
    case freeze_head:
    case head_cut:
      return {"the job has one head", "--heads 3 simulates several"};
    case crash_head:
      return {"no head that it could befall runs at that time", "choose another time"};
    case second_launcher:
    case foreign_folder:
      return {"the simulated job has no folders on this machine", "seeds of --fuzz have some"};
    case tier_out:
      return {"that folder of checkpoints is full or gone already", "choose another time"};
    case kill_actor:
      return {"no actor of that name lives at that time",
              "choose a time between the first step and the last one"};
    case budget_cut:
      return {"no smaller budget can be kept, or nobody runs who could hear of it",
              "raise the budget, or choose another time"};
    case lose_governor:
    case freeze_governor:
    case lose_grant:
    case late_grant:
    case power_brake:
      return {"no power budget runs at that time, or the same befalls it already",
              "choose another time"};
    default:
      return {"there is no run at that time",
              "choose a time between the first step and the last one"};
  }
}

}  // namespace

std::string missed_fault::text() const {
  return fmt::format("{} had no effect: {}; {}", what, why, hint);
}

std::string fault_record::did(const fault& f, const std::string& what, int64_t now_ns) {
  settled_ = true;
  return done_.emplace_back(fmt::format(
      "{:.3f} s {} {}", static_cast<double>(now_ns) / told_unit_ns, to_string(f.kind), what));
}

void fault_record::missed(const fault& f, std::string why, std::string hint) {
  settled_ = true;
  missed_.push_back(
      {spelled(f), static_cast<double>(f.at_ns) / told_unit_ns, std::move(why), std::move(hint)});
}

void fault_record::settle(const fault& f, const std::string& nobody) {
  if (settled_) return;
  const auto& [why, hint] = nothing_for(f.kind);
  if (nobody.empty()) return missed(f, why, hint);
  missed(f, nobody, "choose another time");
}

void fault_record::over(int64_t now_ns) {
  come_.resize(planned_.size());
  for (size_t i = 0; i < planned_.size(); ++i)
    if (!come_[i]) {
      come_[i] = true;
      missed(
          planned_[i],
          fmt::format("the run was over at {:.3f} s", static_cast<double>(now_ns) / told_unit_ns),
          "choose an earlier time, or more steps");
    }
}

}  // namespace troupe::sim
