// Drawing faults.
#include "actors/sim/faults.hpp"

#include <algorithm>
#include <array>

namespace troupe::sim {

namespace {

constexpr std::array<const char*, fault_kinds> names{
    "crash_node",    "lose_node",     "freeze_node",     "crash_head",     "partition",
    "loss",          "slow_device",   "hang_device",     "fail_device",    "kill_actor",
    "pause_run",     "save_now",      "stop_run",        "set_value",      "drain_node",
    "old_message",   "tier_out",      "second_launcher", "foreign_folder", "freeze_head",
    "head_cut",      "slow_disk",     "disk_error",      "full_disk",      "meter_silent",
    "budget_cut",    "lose_governor", "freeze_governor", "lose_grant",     "late_grant",
    "actuator_lies", "actuator_late", "power_brake",     "slow_section",   "slow_all",
    "decay",         "spikes"};

constexpr int64_t one_ms = 1'000'000;

}  // namespace

const char* to_string(fault_kind kind) {
  return names[static_cast<size_t>(kind)];
}

std::vector<fault_kind> all_faults() {
  std::vector<fault_kind> out;
  for (int k = 0; k < fault_kinds; ++k) {
    const auto kind = static_cast<fault_kind>(k);
    if (!is_of_heads(kind) && !is_of_drives(kind) && !is_of_power(kind)) out.push_back(kind);
  }
  return out;
}

std::vector<fault_kind> all_power_faults() {
  auto out = all_faults();
  for (const auto kind : {fault_kind::meter_silent, fault_kind::budget_cut}) out.push_back(kind);
  return out;
}

std::vector<fault_kind> all_parent_faults() {
  auto out = all_power_faults();
  for (int k = 0; k < fault_kinds; ++k)
    if (const auto kind = static_cast<fault_kind>(k); is_of_parent(kind)) out.push_back(kind);
  return out;
}

std::vector<fault_kind> all_slack_faults() {
  auto out = all_faults();
  for (const auto kind : {fault_kind::actuator_lies, fault_kind::actuator_late})
    out.push_back(kind);
  return out;
}

std::vector<fault_kind> all_swap_faults() {
  auto out = all_faults();
  for (const auto kind : {fault_kind::slow_disk, fault_kind::disk_error, fault_kind::full_disk})
    out.push_back(kind);
  return out;
}

std::vector<fault_kind> all_head_faults() {
  return {fault_kind::crash_node, fault_kind::freeze_node, fault_kind::crash_head,
          fault_kind::freeze_head, fault_kind::head_cut, fault_kind::save_now,
          fault_kind::set_value};
}

std::vector<fault> draw_faults(rng& random, const std::vector<fault_kind>& kinds, int count,
                               int64_t span_ns) {
  std::vector<fault> out;
  if (kinds.empty() || span_ns <= 0) return out;
  for (int i = 0; i < count; ++i) {
    fault f;
    f.kind = kinds[random.below(kinds.size())];
    f.at_ns = random.between(0, span_ns - 1);
    // From a hiccup to far beyond every timeout of the cluster's members.
    const int64_t scale = one_ms << random.below(16);
    f.lasts_ns = random.between(scale, 2 * scale);
    f.random = random.next();
    out.push_back(f);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const fault& a, const fault& b) { return a.at_ns < b.at_ns; });
  return out;
}

}  // namespace troupe::sim
