// What something takes usually: the median of its last times.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "io/base/median.hpp"

namespace troupe::train {

class typical_time {
 public:
  void add(double ms) { last_[count_++ % last_.size()] = ms; }
  /// Of the last 15; 0: of none yet.
  double median_ms() const {
    const auto n = std::min(count_, last_.size());
    auto known = last_;
    return upper_median(std::span(known).first(n));
  }

 private:
  std::array<double, 15> last_{};
  size_t count_ = 0;
};

}  // namespace troupe::train
