// Range by range: there are few.
#include "io/data/row_skips.hpp"

#include <algorithm>

namespace troupe::io {

row_skips::row_skips(std::vector<rows_between> ranges) {
  std::erase_if(ranges, [](const rows_between& r) { return r.first >= r.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const rows_between& a, const rows_between& b) { return a.first < b.first; });
  for (const auto& r : ranges) {  // SKP-1
    if (!ranges_.empty() && r.first <= ranges_.back().end)
      ranges_.back().end = std::max(ranges_.back().end, r.end);
    else
      ranges_.push_back(r);
  }
}

uint64_t row_skips::nth(uint64_t first, uint64_t n) const noexcept {
  uint64_t row = first;
  for (const auto& r : ranges_) {
    if (r.end <= row) continue;
    if (r.first > row && n < r.first - row) break;
    if (r.first > row) n -= r.first - row;
    row = r.end;
  }
  return row + n;
}

uint64_t row_skips::before(uint64_t end) const noexcept {
  uint64_t count = 0;
  for (const auto& r : ranges_)
    if (r.first < end) count += std::min(r.end, end) - r.first;
  return count;
}

}  // namespace troupe::io
