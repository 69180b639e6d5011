// Whom faults touched, and whom a simulated cluster blames for them.
//
// Pure: it is told each fault, and handed what a person was told.
//
// Invariants of a launch
//   BLM-1  An incident names a node that a fault touched, or none (SIM-23).
//   BLM-2  Who is evicted was touched by a fault (SIM-23).
//   BLM-3  Incidents are told in turn, without a number left out, and each begins in an epoch that
//     is not older than where the one before it led to: one recovery at a time (SIM-24).
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "messages/schemas/status_generated.h"

namespace troupe::sim {

class blame_watch {
 public:
  /// A fault of this node, its ranks or its links alone.
  void touched(std::string node) { nodes_.insert(std::move(node)); }
  /// One that may look like anybody's.
  void touched_all() { all_ = true; }

  /// The first thing that does not hold of a launch: its incidents and what else a person was told.
  std::optional<std::string> judge(std::span<const fbs::IncidentT> incidents,
                                   std::span<const std::string> notices) const;

 private:
  bool is_touched(const std::string& node) const { return all_ || nodes_.contains(node); }

  std::set<std::string> nodes_;
  bool all_ = false;
};

}  // namespace troupe::sim
