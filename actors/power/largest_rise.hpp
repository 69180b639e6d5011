// The largest rise of a series of readings within a window: what may happen before an actuator has
// answered, and so what a threshold must leave free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::power {

class largest_rise {
 public:
  /// A rise is from one reading to another at most `ticks` later (1 at least).
  explicit largest_rise(size_t ticks) : ticks_(std::max<size_t>(1, ticks)), ring_(ticks_ + 1) {}

  void add(double reading) {
    while (size_ > 0 && at(0).tick + ticks_ < now_) {
      first_ = (first_ + 1) % ring_.size();
      --size_;
    }
    if (size_ > 0) most_ = std::max(most_, reading - at(0).value);
    while (size_ > 0 && at(size_ - 1).value >= reading) --size_;
    at(size_++) = {now_++, reading};
  }

  /// The next reading follows none: what lies between is not known.
  void restart() { size_ = 0; }

  /// 0 where nothing rose.
  double most() const { return most_; }

 private:
  struct low {
    size_t tick = 0;
    double value = 0;
  };
  low& at(size_t i) { return ring_[(first_ + i) % ring_.size()]; }

  size_t ticks_;
  std::vector<low> ring_;  ///< of the window, those that no later one is below
  size_t first_ = 0, size_ = 0, now_ = 0;
  double most_ = 0;
};

}  // namespace troupe::power
