// The logs of a node under its rules: its own, where it writes to a file, and its kernel's, where
// that may be read.
//
// Why by its own descriptors: whoever starts a node says where its words go, and only the node
// itself knows. `troupe up` gives each node of this machine {output}/NODE.log; behind ssh, a
// scheduler or a container there may be a file, or a pipe that nobody can read twice.
//
// Invariants
//   LGW-1  What was in a log before this process began is not looked at.
//   LGW-2  A log that cannot be read is left out, and is not among those that are told.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/health/log_rules_policy.hpp"
#include "io/logs/log_tail.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

class log_watch {
 public:
  /// Of nothing.
  log_watch();
  /// May block; the kernel's log from now on.
  log_watch(const std::vector<config::log_rule_spec>& rules, const std::vector<io::log_place>& own);
  log_watch(log_watch&&) noexcept;
  log_watch& operator=(log_watch&&) noexcept;
  ~log_watch();

  /// Looks at what was written since, and tells what lines fitted rules so far.
  void look(fbs::MachineVitalsT& out, int64_t now_ns);

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::health
