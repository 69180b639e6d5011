// The audit log: what persons did, and what they were not let do, a JSON object a line.
//
// Invariants
//   ADT-1  `who` is the name of a certificate, of a key, or of a user as the kernel knows him, and
//     `role` his role; what a message claims is never more than `claims`. A message that an actor
//     of this process hands over (one carried by another) is by "the cluster". `from` is the
//     address that his process connected from, as the kernel says it.
//   ADT-2  A command's line is in the file before the command is passed on ("result": "asked"), and
//     has its result before that is answered. What cannot be written is not to be done.
//   ADT-5  Behind its end the file has room of its own for lines of what is done all the same
//     (stop, pause, what the cluster decides): a full disk takes it from other commands first.
//   ADT-3  At most `refusals_per_minute` refusals are written; the next one says how many were left
//     out, so that nobody fills the disk by asking for what he may not.
//   ADT-6  A file that was removed or moved away (a rotation of logs) takes no further line.
//   ADT-4  What others said is cut and made printable: who reads the file in a terminal reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include <caf/fwd.hpp>

#include "actors/base/trust.hpp"
#include "io/file.hpp"

namespace troupe::trace {

/// Who says something, as far as it can be known (ADT-1).
struct principal {
  std::string who;     ///< a certificate's name, else the claim
  std::string role;    ///< of the certificate; empty: there is none
  std::string claims;  ///< who the message says it is, where the certificate says otherwise
  std::string from = {};  ///< an address; empty: it is not known
};

/// From the sender of a message and what the message claims.
principal principal_of(const peer_book& peers, const caf::strong_actor_ptr& sender,
                       const std::string& claim);

/// One command.
struct audit_line {
  principal by;
  std::string command;  ///< the name of a message
  std::string target;   ///< a path, a node, a pattern
  std::string message;  ///< its JSON
  std::string result;   ///< one sentence
};

/// What the log says of a refused message.
audit_line line_of(const refusal& r);

/// Where the line of a command stands, until its result is known.
struct audit_place {
  uint64_t file = 0;  ///< of all that were opened by that name
  uint64_t offset = 0;
  size_t bytes = 0;  ///< 0: nowhere
};

/// Thread-safe.
class audit_log {
 public:
  static constexpr uint64_t refusals_per_minute = 60;
  static constexpr uint64_t reserve_bytes = 256 * 1024;  ///< ADT-5: some hundred lines

  /// `path`: appended to; empty: nothing is kept. `wall_time`: the time as text; may be empty.
  audit_log(const std::string& path, std::function<std::string()> wall_time);

  /// Writes the line of a command that is to be done. `from_reserve`: of one that is done even if
  /// this fails (ADT-5). Errors: io.
  result<audit_place> begin(audit_line line, bool from_reserve);
  /// Gives that line its result.
  void finish(const audit_place& place, audit_line line);

  /// Writes the line of something that is over, or was refused.
  void note(const audit_line& line);
  /// As above, within bounds (ADT-3); whether the line is there. `now_ns` of any steady clock.
  bool note_refusal(const refusal& r, int64_t now_ns);

  /// Lines that could not be written.
  uint64_t failures() const;
  /// Why the last one was not; empty where it was.
  std::string trouble() const;

 private:
  std::string text_of_line(const audit_line& line, uint64_t left_out) const;
  status open_file();
  status make_room(uint64_t bytes);
  result<audit_place> append(std::string text);
  error remember(error why);

  mutable std::mutex mutex_;
  std::string path_;
  io::unique_fd file_;
  uint64_t files_ = 0;  ///< opened so far
  bool torn_ = false;   ///< the last line is not whole
  std::string trouble_;
  std::function<std::string()> wall_time_;
  uint64_t failures_ = 0, refusals_ = 0, left_out_ = 0;
  std::optional<int64_t> minute_;
};

}  // namespace troupe::trace
