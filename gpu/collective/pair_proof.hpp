// How two ranks prove to each other, by the first bytes of a connection between them, that they are
// the two that the group's table names.
//
// Why: the ports of a group are open while it is connected, and whoever reaches one may connect.
// Every end makes a key for the time of one group; its public half travels with its address,
// through the coordinator, in messages that only nodes may send. So the two ends of a pair share a
// secret (X25519) that never travels, and that nobody has who only sees ports, messages or traces.
// Keys are new with each epoch: who is of an old one proves nothing.
//
//   dialer                         listener
//     hello: mark, ranks, nonce ---->
//         <---- answer: nonce, digest      HMAC-SHA256 under the secret, over a word for the side,
//     proof: digest ---------------->      the group, both ranks, both nonces and both public keys
//         <---- one byte: taken
//
// Pure but for the chance of keys and nonces, which is the operating system's.
//
// Invariants
//   PRF-1  A side accepts only the other side's digest of this very exchange: none of another pair,
//     group or time, nor its own sent back.
//   PRF-2  Digests are compared in constant time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/base/result.hpp"

namespace troupe::gpu {

using pair_bytes = std::array<uint8_t, 32>;  ///< a public key, a secret, a digest
using pair_nonce = std::array<uint8_t, 16>;

/// One end's key for one group.
class pair_key {
 public:
  static result<pair_key> make();

  /// What the others get to know.
  const pair_bytes& shown() const noexcept { return shown_; }

  /// What only this end and the one that showed `theirs` know. Errors: bad_data for what is no key.
  result<pair_bytes> secret_with(const pair_bytes& theirs) const;

 private:
  pair_bytes hidden_{}, shown_{};
};

/// A pair of a group.
struct pair_ends {
  std::string group;
  int listener = 0, dialer = 0;             ///< ranks
  pair_bytes listener_key{}, dialer_key{};  ///< as shown
  pair_bytes secret{};
};

/// One exchange, as both sides know it.
struct pair_exchange {
  pair_nonce dialer_nonce{}, listener_nonce{};
};

enum class pair_side : uint8_t { listener, dialer };

/// The digest by which a side proves itself.
pair_bytes proof_of(pair_side side, const pair_ends& ends, const pair_exchange& exchange);

/// PRF-2.
bool same_digest(std::string_view bytes, const pair_bytes& expected);

/// From the operating system. Errors: io.
result<pair_nonce> make_nonce();

/// The first bytes of a dialer.
struct pair_hello {
  static constexpr size_t size = 32;
  uint32_t listener = 0, dialer = 0;
  pair_nonce nonce{};

  std::string text() const;
  /// Nothing where it is no hello of this protocol. `bytes`: exactly `size`.
  static std::optional<pair_hello> parse(std::string_view bytes);
};

}  // namespace troupe::gpu
