// The parts of the property table of a job, and how their rows are written; only the parts and what
// joins them (table.cpp) include this.
#pragma once

#include <span>
#include <string_view>

#include "io/config/table.hpp"

namespace troupe::config::detail {

/// The row of a key: the members that lead to it from the job's own on.
template <auto... Members>
constexpr property key(std::string_view name, std::string_view about, bounds limits = {}) {
  return row<job, Members...>(name, about, limits);
}

std::span<const property> run_table();
std::span<const property> training_table();
std::span<const property> state_table();
std::span<const property> upkeep_table();
std::span<const property> power_table();
std::span<const property> log_table();

}  // namespace troupe::config::detail
