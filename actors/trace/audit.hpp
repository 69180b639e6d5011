// The audit log: what persons did, and what they were not let do, a JSON object a line.
//
// Invariants
//   ADT-1  `who` is the name of a certificate where there is one, and `role` its role; what a
//     message claims is `who` only where no certificate says otherwise, else `claims`. A message
//     that an actor of this process hands over (one carried by another) is by "the cluster".
//   ADT-2  A line is in the file before note() returns, or counts as a failure.
//   ADT-3  At most `refusals_per_minute` refusals are written; the next one says how many were left
//     out, so that nobody fills the disk by asking for what he may not.
//   ADT-4  What others said is cut and made printable: who reads the file in a terminal reads it.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include <caf/fwd.hpp>

#include "actors/base/trust.hpp"

namespace troupe::trace {

/// Who says something, as far as it can be known (ADT-1).
struct speaker {
  std::string who;     ///< a certificate's name, else the claim
  std::string role;    ///< of the certificate; empty: there is none
  std::string claims;  ///< who the message says it is, where the certificate says otherwise
};

/// From the sender of a message and what the message claims.
speaker speaker_of(const caf::strong_actor_ptr& sender, const std::string& claim);

/// One command.
struct audit_line {
  speaker by;
  std::string command;  ///< the name of a message
  std::string target;   ///< a path, a node, a pattern
  std::string message;  ///< its JSON
  std::string result;   ///< one sentence
};

/// What the log says of a refused message.
audit_line line_of(const refusal& r);

/// Thread-safe.
class audit_log {
 public:
  static constexpr uint64_t refusals_per_minute = 60;

  /// `path`: appended to; empty: nothing is kept. `wall_time`: the time as text; may be empty.
  audit_log(const std::string& path, std::function<std::string()> wall_time);

  void note(const audit_line& line);
  /// As above, within bounds (ADT-3). `now_ns` of any steady clock.
  void note_refusal(const refusal& r, int64_t now_ns);

  /// Lines that could not be written.
  uint64_t failures() const;

 private:
  void write(const audit_line& line, uint64_t left_out);

  mutable std::mutex mutex_;
  std::ofstream file_;
  std::function<std::string()> wall_time_;
  uint64_t failures_ = 0, refusals_ = 0, left_out_ = 0;
  std::optional<int64_t> minute_;
};

}  // namespace troupe::trace
