// All rows as one table; see limits_table.hpp.
#include <vector>

#include "apps/limits_rows.hpp"

namespace troupe::apps {

std::span<const limit_row> limit_rows() {
  static const auto all = [] {
    const auto cluster = limit_rows_of_cluster(), files = limit_rows_of_files();
    std::vector<limit_row> out(cluster.begin(), cluster.end());
    out.insert(out.end(), files.begin(), files.end());
    return out;
  }();
  return all;
}

}  // namespace troupe::apps
