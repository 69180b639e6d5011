// The line between a launcher and its head: a pair of sockets, one packet a word.
//
//   head -> launcher                       what it may be started again by (head_says)
//     begun N        the first step is made: a head that a signal ends from now on is started
//                    again, at most N times within an hour
//     saved          a checkpoint of this launch is committed: the next start goes on from the
//                    newest
//     step N         a person is told of this step next
//     port N         nodes join here; the next head listens at the same one
//     start NODE LOG MODE INPUT TIE WORD...
//                    the process of a node, in the place of the one that it may have. MODE: what
//                    becomes of its log, "new" or "same"; INPUT: what it reads from its standard
//                    input, which stays open where TIE is "tied"; WORDs: its command
//     stop NODE      its process is killed
//   launcher -> head
//     node NODE PID N     one that was started before this head: its process (0: none), and how
//                         many it has had
//     ended NODE PID CODE HOW   its process; CODE as ended_child has it, HOW in words
//     failed NODE WHY     its process is not started
//
// A packet is its fields, each with a NUL behind it. A packet that is not known, or has too few
// fields, is left out.
//
// Invariants
//   LLN-1  Nobody waits for the other end: what does not fit is kept, and sent with the next packet
//     or look; of what is only told (begun, saved, step) it may be dropped.
//   LLN-2  A packet is at most `max_packet_bytes`, the rest is refused where it is sent.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::apps {

/// The socket's number in the head.
inline constexpr int launcher_line_fd = 3;
inline constexpr size_t max_packet_bytes = 64 << 10;
/// Packets that wait to be sent, at most; none of what is only told.
inline constexpr size_t max_packets_kept = 4096;

inline constexpr error_kind<size_t, size_t> packet_too_long{
    "packet_too_long", errc::usage, "a message of {} bytes to the launcher, at most {} fit",
    "a node's command and key go through it: are paths very long?"};

/// The fields of a packet, the word first.
using packet = std::vector<std::string>;

class launcher_line {
 public:
  /// Nobody is at the other end.
  launcher_line() = default;
  explicit launcher_line(io::unique_fd socket) : socket_(std::move(socket)) {}
  launcher_line(launcher_line&& other) noexcept : socket_(std::move(other.socket_)) {}
  launcher_line& operator=(launcher_line&&) = delete;

  /// Two ends; children inherit neither. Error: system.
  static result<std::pair<launcher_line, io::unique_fd>> make();
  /// The head's end. Later children do not inherit it.
  static launcher_line to_launcher();

  /// From any thread. Errors: packet_too_long; unavailable where the other end is gone.
  status send(const packet& words);
  /// The same of what may be dropped; whether it was sent.
  bool tell(const packet& words);
  /// The next one that is here. By one thread.
  std::optional<packet> receive();
  /// Sends what was kept.
  void flush();
  int fd() const noexcept { return socket_.get(); }

 private:
  bool send_now(const std::string& bytes);
  void flush_locked();

  io::unique_fd socket_;
  std::mutex mutex_;
  std::deque<std::string> kept_;
};

}  // namespace troupe::apps
