// Rows with features and labels.
#include "io/perf/table.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::io::perf {

std::string_view to_string(feature_kind kind) noexcept {
  switch (kind) {
    case feature_kind::number:
      return "number";
    case feature_kind::log_number:
      return "log";
    case feature_kind::category:
      return "category";
  }
  return "?";
}

bool perf_row::labelled() const {
  return !labels.empty() &&
         std::none_of(labels.begin(), labels.end(), [](double y) { return std::isnan(y); });
}

const perf_row* perf_table::find(std::string_view id) const {
  const auto it = std::lower_bound(rows.begin(), rows.end(), id,
                                   [](const perf_row& r, std::string_view x) { return r.id < x; });
  return it != rows.end() && it->id == id ? &*it : nullptr;
}

status settle(perf_table& table, std::string_view file) {
  std::sort(table.rows.begin(), table.rows.end(), [](const perf_row& a, const perf_row& b) {
    return a.id != b.id ? a.id < b.id : a.line < b.line;
  });
  const auto same =
      std::adjacent_find(table.rows.begin(), table.rows.end(),
                         [](const perf_row& a, const perf_row& b) { return a.id == b.id; });
  if (same != table.rows.end()) return same_id(file, (same + 1)->line, same->id, same->line);
  return {};
}

}  // namespace troupe::io::perf
