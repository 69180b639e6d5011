// The middle of some values, in the two forms that are wanted: as one of them, which no two halves
// of a mean blur, and as a number in between, which says of an even count the same whichever way
// the values are turned.
#pragma once

#include <algorithm>
#include <iterator>

namespace troupe {

/// The value in the middle, of an even count the upper one of two; 0 of nothing. Of a span the
/// values themselves are put into another order.
template <class Values>
typename Values::value_type upper_median(Values values) {
  if (values.empty()) return {};
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The same, but of an even count the mean of the two in the middle.
template <class Values>
typename Values::value_type median(Values values) {
  if (values.empty()) return {};
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (std::ssize(values) % 2 != 0) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace troupe
