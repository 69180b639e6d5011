// The property table: every key with its sentence and bounds. Add a key by adding its member to
// job.hpp and a row to its section in run_table.cpp, training_table.cpp, state_table.cpp,
// upkeep_table.cpp or power_table.cpp; nothing else needs to know (docs/configuration.md is made
// again from this). Upper bounds are there so that no product of two keys can overflow 64 bits.
#include <vector>

#include "io/config/job_table.hpp"

namespace troupe::config::detail {

std::span<const property> job_table() {
  static const auto all = [] {
    std::vector<property> rows;
    for (const auto part :
         {run_table(), training_table(), state_table(), upkeep_table(), power_table(), log_table()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return all;
}

}  // namespace troupe::config::detail
