// How large a verified FlatBuffer becomes when each of its references is followed.
//
// A FlatBuffer may refer to one string or table many times: 1 MiB on the wire can become 64 GiB of
// JSON or of object-API strings. Our builders never share, so a message that expands far beyond its
// own size is hostile and does not verify.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::detail {

/// What a message may expand to, in bytes.
inline constexpr size_t max_expanded_bytes = size_t{4} << 20;

/// True where the table in `payload`, which has passed the verifier of its type, expands to at most
/// max_expanded_bytes. Types without lists of strings or tables need no look and get none.
bool expands_within_bounds(uint16_t type, const uint8_t* payload);

}  // namespace troupe::detail
