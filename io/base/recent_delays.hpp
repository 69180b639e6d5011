// How long something took, the last times: percentiles of the last `kept`, by nearest rank.
//
// Pure; allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace troupe {

class recent_delays {
 public:
  static constexpr size_t kept = 256;

  /// What is more than an hour counts as one.
  void add(int64_t took_ns) {
    constexpr int64_t an_hour_ns = 3'600'000'000'000;
    took_ns_[count_++ % kept] = std::clamp<int64_t>(took_ns, 0, an_hour_ns);
  }
  /// `percent`: 1 to 100. None: nothing was added yet.
  std::optional<int64_t> percentile_ns(size_t percent) const {
    if (count_ == 0) return std::nullopt;
    auto sorted = took_ns_;
    const size_t n = std::min(count_, kept);
    const auto at = static_cast<ptrdiff_t>((percent * n + 99) / 100 - 1);
    std::nth_element(sorted.begin(), sorted.begin() + at,
                     sorted.begin() + static_cast<ptrdiff_t>(n));
    return sorted[static_cast<size_t>(at)];
  }

 private:
  std::array<int64_t, kept> took_ns_{};
  size_t count_ = 0;
};

}  // namespace troupe
