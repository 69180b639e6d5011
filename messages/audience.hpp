// Who may send a message: everybody who may look, who may command, or only a process of the
// cluster. One table for all messages; the gate of every actor reads it (actors/base/trust.hpp).
//
// Invariants
//   AUD-1  Every message of message_list.hpp stands in the table once; what does not is a node's.
//   AUD-2  A message that carries another (CallActor) is for lookers only where it carries a
//     StatusRequest: whatever else it carries is given by an actor of the cluster, whom nobody
//     asks for his role. Unreadable, it is for nobody but nodes.
//   AUD-3  What nodes say to each other is never carried, whoever asks for it: such messages name
//     files and folders, and the actors that take them believe them.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/result.hpp"
#include "messages/any_msg.hpp"

namespace troupe {

/// Who may send a message, from the most to the fewest.
enum class audience : uint8_t {
  lookers,     ///< whoever has a certificate: it changes nothing but what its sender sees
  commanders,  ///< operators: it changes the run, a process or a file
  nodes,       ///< processes of the cluster: what they say to each other
};

/// A line of the table.
struct audience_entry {
  uint16_t type;
  audience who;
};

/// The table, in the order of the list.
std::span<const audience_entry> all_audiences();

/// Who may send messages of a type.
audience audience_of(uint16_t type);

/// Who may send this message (AUD-2). It must not be empty.
audience audience_of(const any_msg& m);

/// Whether a CallActor may carry a message (AUD-3); the reason where it may not (permission).
status may_be_carried(const any_msg& inner);

/// What a CallActor carries, itself for all others; empty where it cannot be read.
any_msg carried_by(const any_msg& m);

}  // namespace troupe
