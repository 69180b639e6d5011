// A line on a terminal's stderr that says how far something is, and goes when it is over. Elsewhere
// than on a terminal nothing is written.
#pragma once

#include <chrono>
#include <string>

namespace troupe::apps {

class progress_line {
 public:
  progress_line();
  ~progress_line();
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  /// Whether who has much to tell should do so now: at most ten times a second.
  bool due() const;
  void tell(const std::string& what);
  /// Takes the line away, so that other text can follow.
  void clear() const;

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point last_ = {};
};

}  // namespace troupe::apps
