// Follows what others append to a file, as it grows, is truncated and is replaced.
//
// Why by its name at each look: who keeps logs short moves them away, or copies and truncates them.
// /proc/self/fd/1 is a name, too: it leads to what a process writes to, wherever that was moved.
//
// Invariants
//   TAI-1  A look reads at most the room it is given; of more than `most_bytes_a_look` what came
//     last is kept for the next ones, and the rest is passed over and counted.
//   TAI-2  Only regular files are read, and no look waits for anybody to write.
//   TAI-3  A file that was moved away is read to its end before what has its name now.
//   TAI-4  What cannot be read is nothing: a look never fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.hpp"
#include "io/logs/log_piece.hpp"

namespace troupe::io {

/// Where a log is, and from which byte on it is somebody's own.
struct log_place {
  std::string path;
  uint64_t from = 0;
  bool operator==(const log_place&) const = default;
};

/// The regular files that this process writes to as its output and its errors, each once. What is
/// in them by now is nobody's.
std::vector<log_place> own_logs();

class log_tail {
 public:
  static constexpr uint64_t most_bytes_a_look = 1 << 20;

  explicit log_tail(log_place place) : path_(std::move(place.path)), at_(place.from) {}

  /// What was appended since the last look, at most `room` bytes.
  log_piece look(size_t room = most_bytes_a_look);
  /// The file's own name where it is open, else the one it is followed by.
  std::string name() const;

 private:
  bool open_what_is_there();
  void read_into(log_piece& out, size_t room);

  std::string path_;
  unique_fd file_;
  uint64_t at_ = 0;
  bool another_ = false;  ///< the next piece is of another file
};

}  // namespace troupe::io
