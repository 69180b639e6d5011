// An error that a peer says, looked at before CAF reads it.
//
// Why: beside its numbers an error of CAF 0.17.6 has a message, and CAF reads into that whatever
// types it names: handles as well, and errors within errors, each of them a call deeper on the
// stack of the loop's thread. What this system says beside the numbers is text.
#pragma once

#include <caf/binary_deserializer.hpp>

namespace troupe::cluster {

/// Whether what is read next is an error with nothing beside its numbers but text. Reads no further
/// than the names of the types.
bool is_error_of_words(caf::binary_deserializer& source);

}  // namespace troupe::cluster
