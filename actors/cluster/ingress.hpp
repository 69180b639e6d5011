// The ingress: how many connections this process has turned away, why, and whom last. Process-wide,
// like the counters of rejected messages (messages/rejection.hpp), which count what comes after.
//
// Invariants
//   ING-1  A connection that another process made and that came to nothing adds one to exactly one
//     reason.
//   ING-2  An address is logged at most once a minute for a reason, and all together at most
//     `lines_per_minute`; a line says how many were left out before it. Nothing a peer sent is
//     logged.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::cluster {

/// Why a connection was turned away.
enum class turned_away : uint8_t {
  no_certificate,     ///< spoke TLS, showed none
  unknown_authority,  ///< its certificate is of another authority
  expired,            ///< its certificate's time is over, or has not come
  bad_certificate,    ///< another fault of its certificate
  not_tls,            ///< what it said is no handshake of TLS
  not_ours,           ///< what it said is no message of a peer of ours
  hung_up,            ///< closed before a handshake
  impostor,           ///< it named itself as another process, or did what its role may not
  too_slow,           ///< the handshake timed out
  crowded_out,        ///< too many came at once, and it had not said who it is
  no_key,             ///< it did not prove a key of the job
};

inline constexpr size_t turned_away_count = 11;

/// A reason in words: "it showed no certificate".
std::string_view in_words(turned_away reason) noexcept;

/// What the ingress has seen so far. A snapshot; the counts only grow.
struct ingress_counts {
  std::array<uint64_t, turned_away_count> counts{};
  std::array<std::string, turned_away_count> last_address;  ///< without a port

  uint64_t of(turned_away reason) const { return counts[static_cast<size_t>(reason)]; }
  uint64_t all() const;
};

/// Which of them are worth a line (ING-2). Pure: it is handed the time.
class refusal_log_policy {
 public:
  static constexpr int64_t quiet_ns = 60'000'000'000;
  static constexpr size_t lines_per_minute = 30;

  /// How many were left out since the last line, or nothing where there is to be no line.
  std::optional<uint64_t> line(turned_away reason, const std::string& address, int64_t now_ns);

 private:
  std::map<std::pair<turned_away, std::string>, int64_t> logged_;
  int64_t minute_ = 0;
  size_t lines_ = 0;
  uint64_t left_out_ = 0;
};

/// Counts and logs. Thread-safe. `detail` is of this program or of OpenSSL, never of the peer.
void note_turned_away(turned_away reason, const std::string& address,
                      std::string_view detail) noexcept;

/// The counts of this process.
ingress_counts ingress_seen();

}  // namespace troupe::cluster
