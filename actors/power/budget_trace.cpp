// Lines of numbers, and back.
#include "actors/power/budget_trace.hpp"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/power/row_trace.hpp"

namespace troupe::power {

namespace {

/// As columns stand behind the time.
enum trace_column : size_t {
  in_watts,
  in_budget,
  in_counted,
  in_t1,
  in_t2,
  in_t3,
  in_low,
  in_high,
  in_brake,
  in_brakes,
  in_modelled,
  trace_columns,
};

constexpr double last_trace_brake = static_cast<double>(trace_brake::pulled);

budget_trace_row row_at(const io::number_table& t, size_t i) {
  const auto at = [&](trace_column c) { return static_cast<double>(t.others[c][i]); };
  budget_trace_row out;
  out.t_s = t.first[i];
  out.watts = at(in_watts);
  out.budget_w = at(in_budget);
  out.counted_w = at(in_counted);
  out.t1 = at(in_t1);
  out.t2 = at(in_t2);
  out.t3 = at(in_t3);
  out.low = at(in_low);
  out.high = at(in_high);
  out.brake = static_cast<trace_brake>(std::lround(at(in_brake)));
  out.brakes = static_cast<uint64_t>(at(in_brakes));
  out.modelled = at(in_modelled) > 0;
  return out;
}

/// The column of a row that a budget cannot have written; none: all of them are sound.
std::optional<size_t> odd_column(const io::number_table& t, size_t i) {
  for (size_t c = 0; c < trace_columns; ++c) {
    const auto x = static_cast<double>(t.others[c][i]);
    const bool is_share = c >= in_t1 && c <= in_high;
    if (x < 0 || (is_share && x > 1) || (c == in_brake && x > last_trace_brake)) return c;
  }
  if (!(t.others[in_budget][i] > 0)) return in_budget;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> budget_trace_lines::line_of(const budget_trace_row& r) {
  const auto ms = std::llround(r.t_s * 1000);
  if (ms <= last_ms_) return std::nullopt;
  last_ms_ = ms;
  return fmt::format("{}.{:03},{:.9g},{:.9g},{:.9g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{}",
                     ms / 1000, ms % 1000, r.watts, r.budget_w, r.counted_w, r.t1, r.t2, r.t3,
                     r.low, r.high, static_cast<int>(r.brake), r.brakes, r.modelled ? 1 : 0);
}

bool is_budget_trace(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ",")) == budget_trace_heading;
}

result<std::vector<budget_trace_row>> budget_trace_of(const io::number_table& t) {
  const auto heading = t.line_of(0) - 1;
  if (!is_budget_trace(t.names))
    return bad_trace(
        heading, fmt::format("no heading of a budget's trace, which is {}", budget_trace_heading));
  std::vector<budget_trace_row> out;
  for (size_t i = 0; i < t.rows(); ++i) {
    if (i > 0 && !(t.first[i] > t.first[i - 1]))
      return bad_trace(t.line_of(i), fmt::format("t_s is {} after {}", t.first[i], t.first[i - 1]));
    if (const auto odd = odd_column(t, i))
      return bad_trace(t.line_of(i), fmt::format("{} is {}, which no budget writes",
                                                 t.names[*odd + 1], t.others[*odd][i]));
    out.push_back(row_at(t, i));
  }
  if (out.size() < 2) return bad_trace(t.line_of(t.rows()), "fewer than 2 ticks");
  return out;
}

}  // namespace troupe::power
