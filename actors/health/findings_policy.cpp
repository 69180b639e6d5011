// Raising, keeping, clearing.
#include "actors/health/findings_policy.hpp"

#include <algorithm>

namespace troupe::health {

namespace {
constexpr int64_t second_ns = 1'000'000'000;
}

findings_policy::patience findings_policy::patience_for(finding_name name) {
  switch (name) {
    case finding_name::disk_slow:
    case finding_name::memory_pressure:
    case finding_name::cpu_starved:
    case finding_name::checkpoint_behind:
    case finding_name::device_hot:
      return {10 * second_ns, 30 * second_ns};  // what comes and goes with the work itself is none
    case finding_name::straggler:
    case finding_name::step_regression:
    case finding_name::slow_part:
      return {0, 30 * second_ns};  // judged by windows of many seconds, of which several must agree
    case finding_name::disk_full:
      return {0, 10 * second_ns};
    case finding_name::clock_jump:
    case finding_name::log_rule:
    case finding_name::lost_device:
    case finding_name::disk_failing:
      return {0, 600 * second_ns};  // an event, which a person should find for a while
    default:
      return {};
  }
}

findings_policy::patience findings_policy::patience_for(const subject& who) {
  return patience_for(who.rule.empty() ? who.name : finding_name::log_rule);
}

/// FDG-3.
bool findings_policy::make_room(severity matters) {
  if (kept_.size() < most_findings) return true;
  auto least = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it)
    if (least == kept_.end() ||
        facts_of(it->first.name).matters < facts_of(least->first.name).matters)
      least = it;
  ++left_out_;
  if (facts_of(least->first.name).matters >= matters) return false;
  kept_.erase(least);
  return true;
}

/// None: there is no room for it.
findings_policy::kept* findings_policy::keep(const subject& who, evidence shown, int64_t now_ns) {
  auto it = kept_.find(who);
  if (it == kept_.end()) {
    if (!make_room(facts_of(who.name).matters)) return nullptr;
    it = kept_.emplace(who, kept{{}, now_ns}).first;
  }
  auto& f = it->second;
  if (f.gone_ns >= 0 && !f.raised) f.since_ns = now_ns;  // a break before it was one (FDG-2)
  f.shown = std::move(shown);
  return &f;
}

void findings_policy::holds(const subject& who, evidence shown, int64_t now_ns) {
  if (auto* f = keep(who, std::move(shown), now_ns)) f->gone_ns = -1;
}

void findings_policy::happened(const subject& who, evidence shown, int64_t now_ns) {
  auto* f = keep(who, std::move(shown), now_ns);
  if (f == nullptr) return;
  f->event = true;
  f->gone_ns = now_ns;
}

void findings_policy::gone(const subject& who, int64_t now_ns) {
  if (const auto it = kept_.find(who); it != kept_.end()) forget(it->second, now_ns);
}

findings_policy::changes findings_policy::judge(int64_t now_ns) {
  changes out;
  for (auto it = kept_.begin(); it != kept_.end();) {
    auto& [who, f] = *it;
    const auto wait = patience_for(who);
    const bool is_there = f.gone_ns < 0;
    if (!f.raised && (f.event || (is_there && now_ns - f.since_ns >= wait.raise_after_ns))) {
      f.raised = true;
      ++raised_;
      out.raised.push_back({who, f.shown, f.since_ns});
    } else if (!is_there && (!f.raised || now_ns - f.gone_ns >= wait.clear_after_ns)) {
      if (f.raised) out.cleared.push_back({who, f.shown, f.since_ns});
      it = kept_.erase(it);
      continue;
    }
    ++it;
  }
  return out;
}

std::vector<finding> findings_policy::standing() const {
  std::vector<finding> out;
  for (const auto& [who, f] : kept_)
    if (f.raised) out.push_back({who, f.shown, f.since_ns});
  std::stable_sort(out.begin(), out.end(), [](const finding& a, const finding& b) {
    return a.matters() != b.matters() ? a.matters() > b.matters() : a.since_ns < b.since_ns;
  });
  return out;
}

bool findings_policy::stands(const subject& who) const {
  const auto it = kept_.find(who);
  return it != kept_.end() && it->second.raised;
}

}  // namespace troupe::health
