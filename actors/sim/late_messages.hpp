// Messages of an epoch that has ended, as a slow network may bring them: a cluster that nothing
// else befell must not notice (SIM-9).
#pragma once

#include <cstdint>
#include <string>

#include "messages/actors.hpp"

namespace troupe::sim {

/// Whom one may come to; a handle that is empty gets none.
struct late_targets {
  uint32_t epoch = 0;  ///< the one that is over
  coordinator_actor coordinator;
  run_actor run;
  stage_actor stage;
  node_actor node;
  std::string node_name;
};

inline constexpr uint64_t late_kinds = 8;

/// One of `late_kinds`, by the remainder of the random number.
void send_late(const late_targets& to, uint64_t random);

}  // namespace troupe::sim
