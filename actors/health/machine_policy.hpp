// What of a machine's vitals is wrong: thresholds, in one table. docs/health.md has the same.
//
// Pure. MCH-1  What is not known is never a finding.
#pragma once

#include <map>
#include <string>

#include "actors/health/findings_policy.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// From where on something is a finding.
struct machine_limits {
  double memory_full_percent = 10;      ///< all processes waited for memory
  double memory_available_percent = 5;  ///< less is left
  double steal_percent = 10;
  double throttled_percent = 10;
  double disk_sync_ms = 500;
  double disk_free_percent = 2;
  double clock_set_ms = 500;
};
inline constexpr machine_limits limits{};

/// Tells the findings what holds of a node's machine now, and what does not.
void judge_machine(const std::string& node, const fbs::MachineVitals& said, int64_t now_ns,
                   findings_policy& findings);

}  // namespace troupe::health
