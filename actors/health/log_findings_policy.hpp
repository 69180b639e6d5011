// What nodes say of lines in their logs, as findings.
//
// Pure.
//
// Invariants
//   LGF-1  A line makes a finding once, however often a node tells of it. Nodes outlive heads: of
//     what one tells a new head of, only lines are news that a finding of theirs would still stand.
//   LGF-2  Only rules of the configuration make findings, of the name that the configuration gives
//     them: a node has no say in that. What it says of the line is shortened and printable here,
//     too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/health/findings_policy.hpp"
#include "io/config/job.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

class log_findings_policy {
 public:
  log_findings_policy() = default;
  explicit log_findings_policy(const std::vector<config::log_rule_spec>& rules);

  /// What a node's heartbeat tells.
  void hear(const std::string& node, const fbs::MachineVitals& said, int64_t now_ns,
            findings_policy& findings);

 private:
  std::map<std::string, finding_name, std::less<>> rules_;
  /// By node and rule: when its last line was read, on the node's clock.
  std::map<std::pair<std::string, std::string>, int64_t> heard_;
};

}  // namespace troupe::health
