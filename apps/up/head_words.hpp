// What a head tells its launcher of how it may be started again (launcher_line.hpp).
//
// A head that says nothing is not started again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "apps/up/launcher_line.hpp"

namespace troupe::apps {

/// What a head has said.
struct head_says {
  std::optional<int64_t> restarts_per_hour;  ///< none: it has not begun
  bool saved = false;
  uint64_t step = 0;      ///< the last that it told of; 0: none
  uint64_t furthest = 0;  ///< the greatest
  uint16_t port = 0;      ///< where nodes join; 0: it has not said
  bool operator==(const head_says&) const = default;
};

/// Puts what a packet says into `said`; whether it is of this kind.
bool take_head_words(const packet& words, head_says& said);

/// The head's end. Thread-safe for one caller at a time; but for steps each word is said once.
class head_words {
 public:
  explicit head_words(std::shared_ptr<launcher_line> line) : line_(std::move(line)) {}

  /// A step is reported; the newest that is saved by then, as of the run's report.
  void stepped(uint64_t step, uint64_t saved_step, int64_t restarts_per_hour);

 private:
  std::shared_ptr<launcher_line> line_;
  std::optional<uint64_t> saved_at_begin_;
  bool saved_ = false;
};

}  // namespace troupe::apps
