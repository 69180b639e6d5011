// From a table of numbers to steps of watts.
#include "actors/power/budget_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "actors/power/row_trace.hpp"
#include "io/config/power_tree.hpp"

namespace troupe::power {

namespace {

constexpr std::string_view since_start = "t_s", since_1970 = "unix_s", watts_column = "watts";
constexpr double furthest_s = 4e9;  // as nanoseconds of a clock, on either side of the start
constexpr double least_row_w = 0.001, site_row_w = 1e9;
constexpr size_t shown_of_column = 40;

status check_columns(const io::number_table& t) {
  const auto line = t.line_of(0) - 1;
  const auto& time = t.names.front();
  if (time != since_start && time != since_1970)
    return bad_schedule(line, fmt::format("the first column is {}, and neither t_s nor unix_s",
                                          time.substr(0, shown_of_column)));
  if (t.names.size() != 2)
    return bad_schedule(line, fmt::format("{} columns, and not a time and watts", t.names.size()));
  if (is_in_other_unit(t.names[1], false)) return not_watts(line, t.names[1]);
  if (t.names[1] != watts_column)
    return bad_schedule(line, fmt::format("the second column is {}, and not watts",
                                          t.names[1].substr(0, shown_of_column)));
  if (t.rows() == 0) return bad_schedule(line, "no row of watts follows");
  return {};
}

status check_row(const io::number_table& t, size_t i, int64_t least_mw) {
  const auto at = t.first[i];
  const auto w = static_cast<double>(t.others[0][i]);
  const auto wrong = [&](const std::string& what) { return bad_schedule(t.line_of(i), what); };
  if (!(at >= 0 && at <= furthest_s))
    return wrong(fmt::format("{} is {}, and not 0 to {:g}", t.names[0], at, furthest_s));
  if (i > 0 && !(at > t.first[i - 1]))
    return wrong(fmt::format("{} is {} after {}", t.names[0], at, t.first[i - 1]));
  if (!(w >= least_row_w && w <= site_row_w))
    return wrong(fmt::format("{:g} W, and not {:g} to {:g}", w, least_row_w, site_row_w));
  if (config::milliwatts(w) < least_mw)
    return wrong(fmt::format("{:g} W, and the static shares of the children are {:g} W together", w,
                             static_cast<double>(least_mw) / 1000));
  return {};
}

}  // namespace

/// BSC-1
result<budget_schedule> budget_schedule::of(const io::number_table& table, schedule_terms terms) {
  TROUPE_CHECK(check_columns(table));
  if (table.rows() > most_rows)
    return bad_schedule(table.line_of(most_rows), fmt::format("more than {} rows", most_rows));
  const double start_s = table.names.front() == since_1970 ? terms.start_unix_s : 0;
  budget_schedule out;
  out.name_ = std::move(terms.name);
  for (size_t i = 0; i < table.rows(); ++i) {
    TROUPE_CHECK(check_row(table, i, terms.least_mw));
    out.rows_.push_back({std::llround((table.first[i] - start_s) * 1e9),
                         config::milliwatts(static_cast<double>(table.others[0][i]))});
  }
  return out;
}

std::optional<int64_t> budget_schedule::at_mw(int64_t since_start_ns) const {
  const auto next = std::ranges::upper_bound(rows_, since_start_ns, {}, &row::from_ns);
  if (next == rows_.begin()) return std::nullopt;
  return std::prev(next)->mw;
}

int64_t budget_schedule::least_mw() const {
  return std::ranges::min_element(rows_, {}, &row::mw)->mw;
}

int64_t budget_schedule::greatest_mw() const {
  return std::ranges::max_element(rows_, {}, &row::mw)->mw;
}

}  // namespace troupe::power
