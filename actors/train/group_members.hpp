// What a group of ranks says of its members, in the job's words.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/rank_grid.hpp"
#include "io/base/result.hpp"

namespace troupe::train {

/// A group's error names members by their ranks in it; with which of the job these are.
inline error of_members(const rank_group& group, error e) {
  constexpr ptrdiff_t most = 64;
  const auto& all = group.members;
  const auto end = all.begin() + std::min(std::ssize(all), most);
  e.message += fmt::format(" (of the job these are ranks {}{})", fmt::join(all.begin(), end, ", "),
                           end != all.end() ? ", ..." : "");
  return e;
}

}  // namespace troupe::train
