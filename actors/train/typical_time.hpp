// What something takes usually: the median of its last times.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace troupe::train {

class typical_time {
 public:
  void add(double ms) { last_[count_++ % last_.size()] = ms; }
  /// Of the last 15; 0: of none yet.
  double median_ms() const {
    const auto n = std::min(count_, last_.size());
    if (n == 0) return 0;
    auto sorted = last_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(n / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(n));
    return *middle;
  }

 private:
  std::array<double, 15> last_{};
  size_t count_ = 0;
};

}  // namespace troupe::train
