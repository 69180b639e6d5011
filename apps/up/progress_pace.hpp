// Which of many sentences about how far something has come are written where each stays: the first,
// and one every half a minute. A terminal has them all, each in the place of the one before.
//
// Why: gigabytes of text take minutes to be tokenised, and are told of every two seconds. Of a
// thousand such lines in the log of a scheduler nobody reads a second one.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe::apps {

class progress_pace {
 public:
  bool tells(int64_t now_ns) {
    if (told_ns_ && now_ns - *told_ns_ < between_ns) return false;
    told_ns_ = now_ns;
    return true;
  }

 private:
  static constexpr int64_t between_ns = 30'000'000'000;
  std::optional<int64_t> told_ns_;
};

}  // namespace troupe::apps
