// A file that lines are appended to, and that may refuse them for a while: a full disk, a quota.
//
// Invariants
//   LOG-1  A line that failed is missing, as its error says; those after it are tried all the same.
//   LOG-2  Half a line that a full disk took stays alone: the next begins a line of its own.
//   LOG-3  A file that was removed or moved away takes no further line: the next makes another.
#pragma once

#include <string>
#include <string_view>

#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::apps {

class line_log {
 public:
  /// Opened by the first line that it takes, and again after one that failed. May block: not for
  /// an actor's shared thread.
  explicit line_log(std::string path) : path_(std::move(path)) {}

  /// Appends the line and its end. Errors: as of the system, LOG-1.
  status append(std::string_view line);

  const std::string& path() const { return path_; }

 private:
  status write(std::string text);

  std::string path_;
  io::unique_fd file_;
  bool torn_ = false;
};

}  // namespace troupe::apps
