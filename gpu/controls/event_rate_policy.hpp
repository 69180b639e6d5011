// Which events of a kind are told one by one, and which are only counted: whoever may ask for
// something could fill a journal with what is told of that, and push all else out of it.
//
// Pure.
//
// Invariants
//   EVR-1  At most `most` are told within a minute from the first of them on. Those that come in
//     what is left of it are counted, and told as one number once it is over; none is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace troupe::gpu::controls {

class event_rate_policy {
 public:
  static constexpr int64_t minute_ns = 60'000'000'000;

  explicit event_rate_policy(size_t most) : most_(most) {}

  /// One comes, behind take_left_out(): whether it is told.
  bool take(int64_t now_ns) {
    if (!begun_ns_ || is_over(now_ns)) {
      begun_ns_ = now_ns;
      told_ = 0;
    }
    if (told_ < most_) return ++told_, true;
    ++left_out_;
    return false;
  }
  /// When a number is to be told; none: there is none.
  std::optional<int64_t> due_ns() const {
    return left_out_ > 0 ? std::optional(*begun_ns_ + minute_ns) : std::nullopt;
  }
  /// How many were only counted, where their minute is over, or no more is to come; else 0.
  size_t take_left_out(int64_t now_ns, bool is_last = false) {
    return left_out_ > 0 && (is_last || is_over(now_ns)) ? std::exchange(left_out_, 0) : 0;
  }

 private:
  bool is_over(int64_t now_ns) const { return now_ns - *begun_ns_ >= minute_ns; }

  const size_t most_;
  std::optional<int64_t> begun_ns_;
  size_t told_ = 0, left_out_ = 0;
};

}  // namespace troupe::gpu::controls
