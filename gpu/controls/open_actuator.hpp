// The actuator of a rank, by the words of power.control (io/config/power_control.hpp): the first
// that its device and its machine offer.
//
// Invariants
//   OPA-1  What is passed over has changed nothing, and why it is not offered is told. A control
//     that has failed otherwise, as where what a dead process left cannot be taken back, is passed
//     over by none: the next one would work on a machine that stays slow.
//   OPA-2  A device whose governor is another job, or an agent, is not asked for by another word: a
//     GPU, or the processors together, of which a clock and a limit would each undo the other's.
//   OPA-3  A setting that this process may not change, or that somebody else governs, the agent
//     of the machine is asked for, where one is named (at.agent_socket): it may be who has it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/groups.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// Whether an error says that a control cannot be had here, or not now, and nothing is changed.
bool is_not_offered(const error& e);

/// Of words that are not offered: the first one's error, with what the others say behind it.
void add_refusal(std::optional<error>& all, const error& next);

/// What came of words.
struct chosen_actuator {
  std::unique_ptr<actuator> control;     ///< null: the word is "pace", so operations are held back
  std::vector<std::string> passed = {};  ///< why words before it are not taken, a sentence each
};

/// `threads`: those of the rank that compute on processors; `gpu`: the UUID of what it computes on,
/// empty where it is none. Errors: no_computing_threads, no_such_setting; those of thread_quota and
/// setting_governor; of several that are not offered the first, with what the others say behind it;
/// bug for a word that the configuration does not take.
result<chosen_actuator> open_actuator(std::span<const std::string> words, const control_place& at,
                                      const control_owner& owner, std::span<const int> threads,
                                      const std::string& gpu);

}  // namespace troupe::gpu::controls
