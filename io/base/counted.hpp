// How many of a thing, as people say it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// "node" of 1, "nodes" of all others ("launches" of "launch", "launches"): behind a number that is
/// not written in plain digits.
inline std::string plural(std::integral auto count, std::string_view one,
                          std::string_view many = {}) {
  if (count == 1) return std::string(one);
  return many.empty() ? std::string(one) + 's' : std::string(many);
}

/// "9,650": an integer with separators.
inline std::string grouped(int64_t n) {
  auto digits = std::to_string(n);
  const ptrdiff_t first = n < 0 ? 1 : 0;
  for (auto at = static_cast<ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

/// "1 node", "0 nodes", "3 launches" (of "launch", "launches").
inline std::string counted(std::integral auto count, std::string_view one,
                           std::string_view many = {}) {
  return std::to_string(count) + ' ' + plural(count, one, many);
}

}  // namespace troupe
