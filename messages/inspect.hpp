// How a msg<T> enters and leaves CAF's binary format. Whoever sends or handles messages includes
// it, most by their typed handles (actors.hpp).
//
// From the network a message is length-checked, checksummed and verified in `inspect`, before CAF
// can hand it to any handler. Where that fails inspect counts and logs the rejection
// (rejection.hpp) and returns an error. CAF 0.17.6 then delivers an *empty* message in its place,
// as it does for a type it does not know: no handler matches, an actor with guard_mailbox
// (receive.hpp) counts it as undecodable and answers bad_data, and both the actor and the
// connection go on.
//
// M-1  A handler never sees a msg<T> that is empty or unverified.
#pragma once

#include <caf/error.hpp>
#include <caf/fwd.hpp>

#include "messages/msg.hpp"

namespace troupe {

namespace detail {
caf::error save(caf::serializer& sink, const any_msg& m);
caf::error load(caf::deserializer& source, uint16_t expected, any_msg& out);
}  // namespace detail

/// Writes header and payload as raw bytes.
template <class T>
caf::error inspect(caf::serializer& sink, const msg<T>& m) {
  return detail::save(sink, m);
}

/// Reads, checks and verifies (M-1).
template <class T>
caf::error inspect(caf::deserializer& source, msg<T>& m) {
  return detail::load(source, message_traits<T>::id, m);
}

}  // namespace troupe
