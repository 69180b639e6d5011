// Rejected messages: counted by reason, logged at a bounded rate, never silent and never fatal.
//
// RJ-1  Every refusal of foreign bytes adds one to exactly one reason. A message that CAF could not
//       decode then still reaches its actor, as an empty one, which adds one to `undecodable`: what
//       that has more than the reasons of decoding is the messages of types this process does not
//       know.
// RJ-2  A reason is logged at most once a second; the line says how many were left out.
// RJ-3  The line names the message and says in words why it was refused.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// Why a message was refused.
enum class reject : uint8_t {
  truncated,    ///< fewer bytes than the header or its length says
  form,         ///< the header is of another layout, or no header at all
  type,         ///< a type nobody knows, or another one than the receiver expects
  oversize,     ///< the length is beyond max_message_bytes
  checksum,     ///< the CRC does not match
  verify,       ///< the FlatBuffer does not verify
  json,         ///< the text does not parse as the message it claims to be
  stale_epoch,  ///< sent in an epoch that has ended, or in one that its receiver is not in yet
  undecodable,  ///< arrived through CAF without any content that could be decoded
  unexpected,   ///< decoded, but the actor has no handler for it
  forbidden,    ///< its sender's certificate does not let it say that
};

/// The number of reasons.
inline constexpr size_t reject_count = 11;

/// The stable lower-case name of a reason.
std::string_view to_string(reject reason) noexcept;

/// What the language has done in this process so far. A snapshot; every number only grows.
struct message_counts {
  uint64_t decoded = 0;                           ///< messages accepted from foreign bytes
  uint64_t verified = 0;                          ///< runs of the FlatBuffers verifier
  uint64_t encoded = 0;                           ///< messages written as bytes
  std::array<uint64_t, reject_count> rejected{};  ///< refusals by reason

  /// Refusals for one reason.
  uint64_t of(reject reason) const { return rejected[static_cast<size_t>(reason)]; }
  /// Refusals for all reasons.
  uint64_t all_rejected() const;
};

/// The counts of this process.
message_counts counts() noexcept;

/// What the log says of a refusal, for a person: the message by its name, why it was refused,
/// `detail`, and how many like it were left out (RJ-3).
std::string rejection_text(reject reason, uint16_t type, std::string_view detail,
                           uint64_t left_out);

/// Counts a refusal and logs it (RJ-2). `detail` is shown in the log line. Thread-safe.
void note_rejection(reject reason, uint16_t type, std::string_view detail) noexcept;

namespace detail {

/// One reason's count, and when it is logged (RJ-2). Thread-safe.
class flood_log {
 public:
  static constexpr int64_t interval_ns = 1'000'000'000;

  /// Counts one more; where a line is due, how many were left out since the last one.
  std::optional<uint64_t> note(int64_t now_ns) noexcept;
  uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> logged_at_count_{0};
  std::atomic<int64_t> next_log_ns_{std::numeric_limits<int64_t>::min()};
};

void count_decoded() noexcept;
void count_verified() noexcept;
void count_encoded() noexcept;
}  // namespace detail

}  // namespace troupe
