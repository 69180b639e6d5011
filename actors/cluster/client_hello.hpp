// How a peer of ours begins: the first record of TLS, a ClientHello (RFC 8446, 4.1.2 and 5.1).
//
//   first   := 0x16  version  length  0x01  ...   a record of the kind handshake, and its message
//   version := 0x03  (0x00 | .. | 0x04)           what OpenSSL writes, and takes
//   length  := 2 bytes, big-endian                of what follows it: at least 44 bytes
//
// Pure: bytes in, a verdict out. Nothing behind the first bytes is looked at; that is OpenSSL's.
#pragma once

#include <cstddef>
#include <string_view>

namespace troupe::cluster {

/// So many bytes say whether a connection begins as a peer's does.
inline constexpr size_t first_bytes = 6;

/// The longest record that is waited for: 2^14 bytes of content and its head.
inline constexpr size_t max_hello_bytes = (1 << 14) + 5;

/// What the beginning of a connection is.
struct hello_look {
  bool noise = false;       ///< no ClientHello begins like this
  size_t wanted_bytes = 0;  ///< how many bytes there must be before more can be said; at most
                            ///< max_hello_bytes, 0 for noise
};

/// Looks at the first bytes that came, at least one and all up to `first_bytes`.
hello_look look_at_hello(std::string_view first);

}  // namespace troupe::cluster
