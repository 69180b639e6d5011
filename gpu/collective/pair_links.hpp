// The connections of a group, a proven one for each pair of ranks: listening, dialling, and telling
// ranks from strangers.
//
// Every rank listens; of a pair the higher rank dials. What comes to a port proves itself
// (pair_proof.hpp) before it is anybody's; when all pairs are made the port is closed.
//
// Invariants
//   PLK-1  Who has not proved to be a rank never takes a pair's place, whatever it says; it waits
//     within a bound of connections, of which the oldest gives way, and of seconds.
//   PLK-2  A rank that was pushed out by strangers dials again, until the group's time is over.
//   PLK-3  Where a listener does not prove itself the group is refused, and the error names it: no
//     tensor goes to who has taken a port.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "gpu/collective/pair_proof.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::gpu {

/// Who has taken a rank's port (PLK-3): the group, the address, the rank.
inline constexpr error_kind<std::string_view, std::string_view, int> rank_not_proven{
    "rank_not_proven", errc::permission,
    "group {}: what listens at {} does not prove that it is rank {}",
    "another process has taken its port, or it is of another epoch"};

/// Who has not come in time: the group, his rank in it, his address.
inline constexpr error_kind<std::string_view, size_t, std::string_view> rank_missing{
    "rank_missing", errc::timeout, "group {}: rank {} at {} has not connected in time",
    "a peer has died or the network is down"};

class pair_listener {
 public:
  static constexpr size_t most_strangers = 256;
  static constexpr std::chrono::seconds stranger_patience{10};

  /// Listens at a local address, on a free port. Errors: unavailable, io.
  static result<pair_listener> open(const std::string& host);

  /// Where and as whom the others reach this end; at most 64 bytes.
  std::string address() const;

  /// Makes all pairs of rank `own`; `addresses[r]`: of rank r (the own is not looked at). Blocks.
  /// Sockets by rank, connected and proven, none for the own. Errors: bad_data, unavailable,
  /// rank_not_proven, timeout, cancelled (soon after `ending` was asked for).
  result<std::vector<io::unique_fd>> connect(const std::string& group, int own,
                                             const std::vector<std::string>& addresses,
                                             std::chrono::milliseconds timeout,
                                             const std::stop_token& ending = {});

 private:
  io::unique_fd listening_;
  pair_key key_;
  std::string at_;  ///< family, address and port of the socket
};

}  // namespace troupe::gpu
