// The log of a run: each line is made once, appended to log.jsonl and, where steps are told as
// JSON, printed on stdout.
//
// Invariants
//   RLG-1  What stdout is told as JSON are the lines of the file, in their order, also while the
//     file cannot be written.
//   RLG-2  Lines of several threads are whole, and stand in one order.
//   RLG-3  That lines begin to be missing in the file, and that they are written again, is told
//     once each, to whoever asks for news.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "apps/up/line_log.hpp"

namespace troupe::apps {

/// Seconds since 1970, by the wall clock.
double unix_now();

/// The time of day, UTC, as RFC 3339 has it.
std::string wall_time();

/// That the file cannot be written any more, or can again.
struct log_news {
  std::optional<error> why;  ///< none: it can
  uint64_t missing = 0;      ///< lines, in the file
};

class run_log {
 public:
  /// `prints`: on stdout too.
  run_log(std::string path, bool prints) : file_(std::move(path)), prints_(prints) {}

  /// May block, as line_log.
  void append(const std::string& line);

  std::optional<log_news> news();
  /// Why the last line is missing in the file, if it is, and how many lines are by then.
  log_news state() const;

  const std::string& path() const { return file_.path(); }

 private:
  mutable std::mutex mutex_;
  line_log file_;
  bool prints_;
  std::optional<error> why_;  ///< the last line is missing
  uint64_t missing_ = 0;      ///< lines, since the last news of a file that can be written
  bool is_told_ = false;      ///< that lines are missing
};

}  // namespace troupe::apps
