// A profile, a plan, and what befalls clocks.
#include "actors/sim/slack_job.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "actors/sim/simulation.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t ns_of_clock_ms = 1'000'000;

/// Steps of operations that are as uneven differ by less: they have several on their way.
slack_watch_terms watch_terms_of(const simulation_options& o) {
  constexpr double least = 0.02;
  return {least + o.times.jitter, !o.times.slowness.empty()};
}

}  // namespace

slack_job::slack_job(world& where, environment& room, const simulation_options& options,
                     const train::job_plan& plan)
    : where_(where),
      room_(room),
      plan_(plan),
      any_(options.slack && options.slack_by != slack_from::beside),
      measures_(options.slack_by == slack_from::measured),
      watch_(watch_terms_of(options)) {
  if (!any_) return;
  if (!measures_) plan_by(own_profile());
}

power::clock_profile slack_job::own_profile() const {
  power::clock_profile out;
  const auto stages = plan_.job.parallel.pipeline;
  for (int64_t s = 0; s < stages; ++s) {
    const auto t = room_.times.of(s);
    const auto rows = [&](int64_t ns, double watts) {
      return room_.clocks.rows(static_cast<double>(ns) / 1e9, watts);
    };
    out.stages.push_back(
        {rows(t.forward_ns, room_.draw.forward_w), rows(t.backward_ns, room_.draw.backward_w)});
  }
  return out;
}

void slack_job::plan_by(power::clock_profile profile) {
  auto out = std::make_shared<power::planned_slack>();
  out->policy = std::make_unique<power::frontier_policy>(
      std::move(profile), static_cast<int>(plan_.micro_batches), room_.draw.idle_w);
  while (out->policy->advance()) {
  }
  out->plan = power::plan_slack(*out->policy, out->policy->take(), out->set_s);
  planned_ = std::move(out);
  planned_ns_ = where_.now_ns() + planning_ns;
}

void slack_job::begin(power::pacer_options& into) {
  if (!any_) return;
  watch_.begin_head();
  into.slack = [this]() -> power::planned_slack_ptr {
    return planned_ && where_.now_ns() >= planned_ns_ ? planned_ : nullptr;
  };
  if (!measures_) return;
  into.profiles = power::profile_order{room_.draw.idle_w, [this](const power::live_profile& p) {
                                         if (!planned_) plan_by(p.profile);  // SLS-4
                                       }};
}

/// Late: by a part of a step, or more. One that lies refuses what it is to take, or takes none.
std::string slack_job::befall(const fault& f) {
  const auto rank = !f.whom.empty() ? static_cast<uint32_t>(std::stoul(f.whom))
                                    : static_cast<uint32_t>(f.random % plan_.ranks.size());
  auto& of = room_.clock_faults[rank];
  const auto heals = [&](auto heal) {
    where_.clock().call_at(where_.now_ns() + f.lasts_ns, [&of, heal] { heal(of); });
  };
  const auto lasts = fmt::format("for {} ms", f.lasts_ns / ns_of_clock_ms);
  if (f.kind == fault_kind::actuator_late) {
    watch_.ails();
    const int64_t late_ns = ns_of_clock_ms * static_cast<int64_t>(20 + f.random / 2 % 500);
    of.late_ns += late_ns;
    heals([late_ns](auto& o) { o.late_ns -= late_ns; });
    return fmt::format("of rank {}, whose clocks come {} ms later, {}", rank,
                       late_ns / ns_of_clock_ms, lasts);
  }
  const bool refuses = f.random / 2 % 2 == 0;
  if (refuses) {
    watch_.ails();
    ++of.refuses;
    heals([](auto& o) { --o.refuses; });
    return fmt::format("of rank {}, which takes no clock, {}", rank, lasts);
  }
  watch_.slows(where_.now_ns() + f.lasts_ns);
  ++of.lies;
  heals([](auto& o) { --o.lies; });
  return fmt::format("of rank {}, which runs at {} MHz whatever it says, {}", rank,
                     room_.clocks.lowest_mhz, lasts);
}

void slack_job::befalls_else(const fault& f) {
  if (!any_ || takes(f.kind)) return;
  if (is_of_pace(f.kind) || f.kind == fault_kind::slow_device)
    watch_.slows(where_.now_ns() + f.lasts_ns);
  else
    watch_.ails();
}

std::optional<std::string> slack_job::see(const any_msg& m) {
  return any_ ? watch_.see(m, room_.clocked_j, where_.now_ns()) : std::nullopt;
}

}  // namespace troupe::sim
