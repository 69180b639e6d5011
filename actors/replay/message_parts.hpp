// What an actor was given or said, as plain data in a file and back as CAF's message.
//
// Handles become names and names become handles again through whoever replays; errors keep their
// code, text and hint. What else CAF may carry (sockets' ports, node ids) stays what it is called:
// only actors that speak with the operating system are told such things, and they are not replayed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/message.hpp>

#include "io/base/result.hpp"
#include "messages/any_msg.hpp"
#include "messages/schemas/trace_generated.h"

namespace troupe::replay {

using part_list = std::vector<std::unique_ptr<fbs::ActorLogPartT>>;

/// Never fails: what has no form of its own is an `other` with its text.
part_list parts_of(const caf::message& content);

/// The actor of a name that is not empty; never null.
using resolver = std::function<caf::strong_actor_ptr(const std::string& name)>;

/// Errors: bad_data where a message in it does not verify or a part cannot be made again.
result<caf::message> message_of(const part_list& parts, const resolver& who);

/// The message of this language among the parts: the first, or none.
any_msg message_in(const part_list& parts);

/// In words: "RunStep", "RunStep + 2 handles", "error timeout", "tick".
std::string summary_of(const part_list& parts);

}  // namespace troupe::replay
