// Whether a head that has ended is started again.
//
// Pure: it is told what happened and handed the time.
//
// Invariants
//   HRS-1  A head that ends by itself is done, whatever its exit code: what it decided stands.
//   HRS-2  One that a signal ended is started again, if it or one before it made a step (what is
//     wrong at the start is wrong with the start), nobody has asked to stop, and no more than it
//     said (recovery.most_per_hour) were started again within an hour.
//   HRS-3  Of those that made no step, though one before them did, as many as `most_stepless` are
//     started again: what kills each of them would kill the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "apps/up/head_words.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// A head that was killed and is not started again: how it ended, and why it is not.
inline constexpr error_kind<std::string_view, std::string_view> head_lost{
    "head_lost", errc::unavailable, "the head {}; {}",
    "training resumes from the last checkpoint with `troupe up`"};

class head_restarts_policy {
 public:
  using clock = std::chrono::steady_clock;

  /// As often as nodes that come to no step (recovery_policy).
  static constexpr int most_stepless = 3;

  /// After a head that a signal ended (`how`: a sentence without its subject); counts the start
  /// that follows. Errors: head_lost.
  status after_kill(const std::string& how, const head_says& said, bool asked_to_stop,
                    clock::time_point now);

  /// Those within the hour before the last kill.
  size_t within_hour() const noexcept { return within_hour_.size(); }
  /// As the last head said that made a step; after one whose next is started.
  int64_t per_hour() const { return per_hour_.value(); }

 private:
  std::deque<clock::time_point> within_hour_;
  std::optional<int64_t> per_hour_;
  int stepless_ = 0;  ///< heads in a row
};

}  // namespace troupe::apps
