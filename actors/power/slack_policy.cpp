// Counts steps in a row, and aims at the plan's point.
#include "actors/power/slack_policy.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace troupe::power {

namespace {

/// Points move up only for a step that is longer by more: steps are not even.
constexpr double worth_moving = 0.01;

}  // namespace

std::string_view to_string(slack_state s) {
  switch (s) {
    case slack_state::off:
      return "off";
    case slack_state::measuring:
      return "measuring";
    case slack_state::planned:
      return "planned";
    case slack_state::held:
      return "held";
  }
  return "off";
}

std::string_view to_string(slack_reason r) {
  switch (r) {
    case slack_reason::none:
      return "none";
    case slack_reason::no_plan:
      return "no_plan";
    case slack_reason::no_saving:
      return "no_saving";
    case slack_reason::paced:
      return "paced";
    case slack_reason::unlike:
      return "unlike";
    case slack_reason::stale:
      return "stale";
    case slack_reason::late_setting:
      return "late_setting";
    case slack_reason::refused:
      return "refused";
    case slack_reason::no_clocks:
      return "no_clocks";
    case slack_reason::other_job:
      return "other_job";
    case slack_reason::unmeasured:
      return "unmeasured";
  }
  return "none";
}

std::string_view in_words(slack_reason r) {
  switch (r) {
    case slack_reason::no_saving:
      return "what holds the ranks' pace saves no energy: the same joules, later";
    case slack_reason::unlike:
      return "steps are not as long as power.profile says: measure it again";
    case slack_reason::stale:
      return "steps have become longer than planned";
    case slack_reason::late_setting:
      return "devices follow their clocks later than is planned for";
    case slack_reason::refused:
      return "a device did not take the clock of an operation";
    case slack_reason::no_clocks:
      return "not every rank has a device whose clock it alone may set";
    case slack_reason::other_job:
      return "power.profile is planned for other stages or micro-batches";
    case slack_reason::unmeasured:
      return "no plan came of what was measured";
    case slack_reason::none:
    case slack_reason::no_plan:
    case slack_reason::paced:
      break;
  }
  return "";
}

slack_policy::slack_policy(size_t replicas, const slack_terms& terms)
    : terms_(terms), replicas_(replicas) {
  assert(replicas >= 1);
}

void slack_policy::go(slack_state state, slack_reason reason) {
  state_ = state;
  reason_ = reason;
  target_s_ = 0;
  measured_ = longer_ = 0;
  for (auto& r : replicas_) r = {};
}

void slack_policy::begin(const slack_plan& plan) {
  plan_ = &plan;
  late_ = 0;
  restarted();
}

void slack_policy::restarted() {
  if (plan_ == nullptr) return;
  if (!terms_.saves_energy) return go(slack_state::off, slack_reason::no_saving);
  if (state_ == slack_state::off && reason_ == slack_reason::late_setting && late_ > 0) return;
  go(slack_state::measuring, slack_reason::none);
}

std::optional<size_t> slack_policy::point_of(size_t replica) const {
  if (state_ != slack_state::planned && state_ != slack_state::held) return std::nullopt;  // SLT-2
  return replicas_[replica].point;
}

void slack_policy::step(const slack_sample& sample) {
  assert(sample.replica_s.size() == replicas_.size());
  if (plan_ == nullptr || !terms_.saves_energy) return;
  if (state_ == slack_state::off && reason_ != slack_reason::paced) return;
  if (sample.paced) return go(slack_state::off, slack_reason::paced);
  if (state_ == slack_state::off) return go(slack_state::measuring, slack_reason::none);
  const auto most_late = static_cast<uint64_t>(terms_.most_late);
  late_ = sample.late > 0 ? late_ + sample.late : late_ - std::min(late_, most_late / 3);
  if (late_ >= most_late) return go(slack_state::off, slack_reason::late_setting);
  state_ == slack_state::measuring ? measure(sample) : judge(sample);
}

void slack_policy::measure(const slack_sample& sample) {
  for (size_t r = 0; r < replicas_.size(); ++r) replicas_[r].measured_s += sample.replica_s[r];
  if (++measured_ < terms_.measured_steps) return;
  std::vector<double> each;
  for (const auto& r : replicas_) each.push_back(r.measured_s / measured_);
  // Of two replicas the faster: one straggler is none of the profile's.
  const auto middle = each.begin() + static_cast<std::ptrdiff_t>((each.size() - 1) / 2);
  std::nth_element(each.begin(), middle, each.end());
  const double scale = *middle / plan_->highest.time_s;
  if (!(std::abs(scale - 1) <= terms_.unlike)) return go(slack_state::off, slack_reason::unlike);
  go(slack_state::planned, slack_reason::none);
  scale_ = scale;
  aim();
}

void slack_policy::judge(const slack_sample& sample) {
  size_t longer = 0;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    auto& r = replicas_[i];
    r.factor = sample.replica_s[i] / planned_s(r.point);
    if (!r.straggles && r.factor > 1 + terms_.stale) ++longer;
  }
  if (2 * longer > replicas_.size()) {  // SLT-5
    for (auto& r : replicas_) r.slow_steps = 0;
    if (++longer_ >= terms_.stale_steps) go(slack_state::off, slack_reason::stale);
    return;
  }
  longer_ = 0;
  for (auto& r : replicas_) {
    const bool slow = r.factor > 1 + terms_.straggles;
    r.slow_steps = slow ? r.slow_steps + 1 : 0;
    r.straggles = slow && (r.straggles || r.slow_steps >= terms_.held_steps);  // SLT-3
  }
  aim();
}

void slack_policy::aim() {
  const size_t unchanged = plan_->unchanged();
  const double t_min_s = planned_s(unchanged), t_star_s = planned_s(plan_->least);
  double straggler_s = 0;
  for (const auto& r : replicas_)
    if (r.straggles) straggler_s = std::max(straggler_s, r.factor * t_min_s);
  const double wanted_s = std::max(t_min_s, std::min(std::max(t_min_s, straggler_s), t_star_s));
  if (target_s_ == 0 || wanted_s < target_s_ || wanted_s > target_s_ * (1 + worth_moving))
    target_s_ = wanted_s;
  const size_t followed = std::max(unchanged, plan_->at(target_s_ / scale_));
  for (auto& r : replicas_) r.point = r.straggles ? unchanged : followed;  // SLT-4
  state_ = straggler_s > 0 ? slack_state::held : slack_state::planned;
}

}  // namespace troupe::power
