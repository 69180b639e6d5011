// Floors, wishes, ceilings.
#include "actors/power/division_policy.hpp"

#include <algorithm>

namespace troupe::power {

namespace {

constexpr power_class by_priority[] = {power_class::high, power_class::low};

int64_t least(const power_ask& a, const power_share& s) {
  return s.shed ? a.paused_mw : a.floor_mw;
}

/// Sheds until floors fit, if that is possible; what is left then.
int64_t shed(int64_t left_mw, std::span<const power_ask> asks, std::span<power_share> shares) {
  for (size_t i = 0; i < asks.size(); ++i) {
    shares[i] = {};
    if (asks[i].takes_part) left_mw -= asks[i].floor_mw;
  }
  for (const auto priority : {power_class::low, power_class::high})
    for (size_t i = asks.size(); i-- > 0 && left_mw < 0;) {
      const auto& a = asks[i];
      if (!a.takes_part || a.priority != priority || a.paused_mw >= a.floor_mw) continue;
      shares[i].shed = true;
      left_mw += a.floor_mw - a.paused_mw;
    }
  for (size_t i = 0; i < asks.size(); ++i)
    if (asks[i].takes_part) shares[i].cap_mw = least(asks[i], shares[i]);
  return left_mw;
}

/// Fills a class up to wishes or to ceilings, to one level; what is left.
int64_t fill(int64_t left_mw, power_class priority, bool to_ceiling,
             std::span<const power_ask> asks, std::span<power_share> shares) {
  if (left_mw == 0) return 0;
  const auto at_level = [&](size_t i, int64_t level_mw) {
    const auto& a = asks[i];
    const int64_t has_mw = shares[i].cap_mw;
    if (!a.takes_part || shares[i].shed || a.priority != priority) return has_mw;
    const int64_t to_mw = to_ceiling ? a.ceiling_mw : std::min(a.wish_mw, a.ceiling_mw);
    return std::max(has_mw, std::min(level_mw, to_mw));
  };
  const auto takes = [&](int64_t level_mw) {
    int64_t sum = 0;
    for (size_t i = 0; i < asks.size(); ++i) sum += at_level(i, level_mw) - shares[i].cap_mw;
    return sum;
  };
  int64_t low = 0, high = 0;
  for (const auto& a : asks)
    if (a.priority == priority)
      high = std::max(high, to_ceiling ? a.ceiling_mw : std::min(a.wish_mw, a.ceiling_mw));
  if (takes(high) <= left_mw) low = high;
  while (low < high) {  // the highest level that what is left pays for
    const int64_t middle = low + (high - low + 1) / 2;
    if (takes(middle) <= left_mw)
      low = middle;
    else
      high = middle - 1;
  }
  for (size_t i = 0; i < asks.size(); ++i) {
    const int64_t to_mw = at_level(i, low);
    left_mw -= to_mw - shares[i].cap_mw;
    shares[i].cap_mw = to_mw;
  }
  return left_mw;
}

}  // namespace

void division_policy::divide(int64_t available_mw, std::span<const power_ask> asks,
                             std::span<power_share> shares) {
  int64_t left_mw = shed(available_mw, asks, shares);
  if (left_mw <= 0) return;
  for (const bool to_ceiling : {false, true})
    for (const auto priority : by_priority)
      left_mw = fill(left_mw, priority, to_ceiling, asks, shares);
}

}  // namespace troupe::power
