// What `troupe bench swap` was aimed at, against what its grid has come to.
//
// Pure: a function of the measurements. An aim that no row is about is neither met nor missed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/swap_run.hpp"

namespace troupe::apps::swap_bench {

struct aim {
  std::string name;
  double bound = 0;                     ///< what was aimed at
  bool at_least = true;                 ///< or at most
  std::string unit;                     ///< of bound and measured, in words
  std::optional<double> measured = {};  ///< the worst row's; none: no row is about it
  std::string row = {};                 ///< that row
  bool met() const { return measured && (at_least ? *measured >= bound : *measured <= bound); }
};

/// All aims, in the order of the documentation, over all rows of a grid.
std::vector<aim> aims_of(const std::vector<swap_measurement>& rows);

std::string text(const std::vector<aim>& aims);
nlohmann::ordered_json json(const std::vector<aim>& aims);

}  // namespace troupe::apps::swap_bench
