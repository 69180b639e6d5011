// What a head tells its launcher, through a pipe of its own: how it may be started again.
//
//   begun N   the first step is made: a head that a signal ends from now on is started again, at
//             most N times within an hour
//   saved     a checkpoint of this launch is committed: the next start goes on from the newest
//   step N    a person is told of this step next
//
// Each is a line. A head that says nothing is not started again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.hpp"

namespace troupe::apps {

/// The pipe's number in the head.
inline constexpr int head_words_fd = 3;
/// What is read of it at once, at most; no line is as long.
inline constexpr size_t max_head_words_bytes = 4096;

/// What a head has said.
struct head_says {
  std::optional<int64_t> restarts_per_hour;  ///< none: it has not begun
  bool saved = false;
  uint64_t step = 0;      ///< the last that it told of; 0: none
  uint64_t furthest = 0;  ///< the greatest
  bool operator==(const head_says&) const = default;
};

/// Takes whole lines off `text` and puts what they say into `said`. Lines that are not known are
/// left out.
void take_head_words(std::string& text, head_says& said);

/// The head's end. Thread-safe for one caller at a time; but for steps each word is said once.
class head_words {
 public:
  /// Nobody listens.
  head_words() = default;
  /// To the launcher. Later children do not inherit the pipe.
  static head_words to_launcher();

  /// A step is reported; the newest that is saved by then, as of the run's report.
  void stepped(uint64_t step, uint64_t saved_step, int64_t restarts_per_hour);

 private:
  bool say(std::string_view line);

  io::unique_fd pipe_;
  std::optional<uint64_t> saved_at_begin_;
  bool saved_ = false;
};

}  // namespace troupe::apps
