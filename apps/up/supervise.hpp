// The launcher: starts the head, hands on what it is told by signals, and starts it again where a
// signal ended it (head_restarts_policy.hpp). It does nothing else, so that there is little it
// could die of.
//
// Invariants
//   SPV-1  The head does not outlive the launcher, nor do its nodes outlive the head: each dies
//     with its parent (the kernel kills it).
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
