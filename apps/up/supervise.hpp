// The launcher: starts the head, and the nodes that the head orders; hands on what it is told by
// signals, and starts the head again where a signal ended it (head_restarts_policy.hpp). It does
// nothing else, so that there is little it could die of.
//
// Invariants
//   SPV-1  Neither the head nor a node outlives the launcher: each dies with its parent (the kernel
//     kills it). Nodes outlive a head that is started again (NOD-7).
//   SPV-2  Each signal that asks to stop reaches the head, also one that comes while it starts. The
//     terminal's reach both; two equal ones within a second are one (STP-1). A head that is still
//     there some seconds after a second one is killed.
//   SPV-3  The exit code is the head's, or 128 and the signal that ended it.
//   SPV-4  A head that is started again goes on from the newest checkpoint once this launch has
//     one; before that it begins as the launch did. It keeps to what persons were answered
//     (actors/train/journal.hpp).
#pragma once

#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::apps {

/// `command`: the words of this launch as typed, the program first. Returns the exit code. Errors:
/// what keeps a head from being started.
result<int> supervise_head(const std::vector<std::string>& command);

}  // namespace troupe::apps
