// From a table of numbers to a grid of watts.
#include "actors/power/row_trace.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "actors/power/budget_trace.hpp"

namespace troupe::power {

namespace {

constexpr double least_present = 0.9;  ///< of the samples
constexpr size_t filled_of = 5;        ///< one in so many, where several share a place
constexpr std::string_view time_name = "t_s", row_name = "watts";
constexpr std::array<std::string_view, 14> other_units = {
    "kw", "mw",     "uw", "kilowatts", "milliwatts", "kwh", "wh",
    "j",  "joules", "a",  "amps",      "va",         "kva", "btu"};
constexpr size_t shown_of_row = 40;

/// "kw" of "power_KW"; nothing of a letter alone, which may be a server's name.
std::string unit_of(const std::string& name, bool of_servers) {
  const auto cut = name.find_last_of("_ /([");
  if (cut == name.npos && name.size() == 1) return {};
  if (cut != name.npos && of_servers && cut + 2 == name.size()) return {};  // rack_a
  auto out = cut == name.npos ? name : name.substr(cut + 1);
  std::erase_if(out, [](char c) { return c == ')' || c == ']'; });
  for (auto& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

bool is_in_other_unit(const std::string& column, bool of_servers) {
  return std::ranges::find(other_units, unit_of(column, of_servers)) != other_units.end();
}

namespace {

status check_names(const io::number_table& t) {
  const auto line = t.line_of(0) - 1;
  if (t.names.front() != time_name)
    return bad_trace(line, fmt::format("the first column is {}, and not t_s",
                                       t.names.front().substr(0, shown_of_row)));
  if (t.names.size() == 1) return bad_trace(line, "no column of watts");
  for (size_t i = 1; i < t.names.size(); ++i)
    if (is_in_other_unit(t.names[i], t.names.size() > 2))
      return not_watts(line, t.names[i].substr(0, shown_of_row));
  if (t.names.size() == 2 && t.names[1] != row_name)
    return bad_trace(line, fmt::format("the one column is {}, and not watts",
                                       t.names[1].substr(0, shown_of_row)));
  return {};
}

status check_cells(const io::number_table& t) {
  if (t.rows() < 3) return bad_trace(t.line_of(t.rows()), "fewer than 3 samples");
  for (size_t i = 1; i < t.rows(); ++i)
    if (!(t.first[i] > t.first[i - 1]))
      return bad_trace(t.line_of(i), fmt::format("t_s is {} after {}", t.first[i], t.first[i - 1]));
  for (size_t c = 0; c < t.others.size(); ++c)
    for (size_t i = 0; i < t.rows(); ++i)
      if (t.others[c][i] < 0)
        return bad_trace(t.line_of(i),
                         fmt::format("{} is {}, below 0", t.names[c + 1].substr(0, shown_of_row),
                                     t.others[c][i]));
  return {};
}

/// Of a row that runs: it never draws nothing, its meter was away.
void drop_zeros(io::number_table& t) {
  if (t.others.size() != 1) return;  // a server may be off
  size_t kept = 0;
  for (size_t i = 0; i < t.rows(); ++i) {
    if (t.others[0][i] == 0) continue;
    t.first[kept] = t.first[i];
    t.others[0][kept++] = t.others[0][i];
  }
  t.first.resize(kept);
  t.others[0].resize(kept);
}

double median_step(const std::vector<double>& times) {
  std::vector<double> steps(times.size() - 1);
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = times[i + 1] - times[i];
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

/// The row before the longest gap.
size_t longest_gap(const std::vector<double>& times) {
  size_t at = 0;
  for (size_t i = 0; i + 1 < times.size(); ++i)
    if (times[i + 1] - times[i] > times[at + 1] - times[at]) at = i;
  return at;
}

/// A column on the grid: the greatest of samples that share a place, and of the neighbours of
/// places that have none.
std::vector<float> on_grid(const std::vector<float>& values, const std::vector<size_t>& places) {
  std::vector<float> out(places.back() + 1, -1.0f);
  for (size_t i = 0; i < values.size(); ++i) out[places[i]] = std::max(out[places[i]], values[i]);
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] >= 0) continue;
    size_t end = i;
    while (out[end] < 0) ++end;  // the last place has a sample
    const auto fill = std::max(out[i - 1], out[end]);
    std::fill(out.begin() + static_cast<ptrdiff_t>(i), out.begin() + static_cast<ptrdiff_t>(end),
              fill);
  }
  return out;
}

}  // namespace

double row_trace::row_w(size_t sample) const {
  double sum = 0;
  for (const auto& c : columns) sum += static_cast<double>(c[sample]);
  return sum;
}

result<int64_t> step_ns_of(const row_trace& trace) {
  constexpr double a_day_ns = 86'400e9;
  constexpr auto far = std::numeric_limits<int64_t>::max() / 4;  // as a journal's times
  const double step_ns = std::round(trace.step_s * 1e9);
  if (!(step_ns >= 1 && step_ns <= a_day_ns))
    return bad_trace(1,
                     fmt::format("samples are {:g} s apart, and not 1 ns to a day", trace.step_s));
  const auto out = static_cast<int64_t>(step_ns);
  if (trace.samples() > static_cast<size_t>(far / out))
    return bad_trace(1, fmt::format("{} samples, {:g} s apart, are longer than time is counted",
                                    trace.samples(), trace.step_s));
  return out;
}

result<row_trace> row_trace_of(io::number_table t) {
  if (is_budget_trace(t.names)) {
    t.names.resize(2);
    t.others.resize(1);
  }
  TROUPE_CHECK(check_names(t));
  TROUPE_CHECK(check_cells(t));
  drop_zeros(t);
  if (t.rows() < 3) return bad_trace(t.line_of(t.rows()), "fewer than 3 samples above 0");
  row_trace out;
  out.step_s = median_step(t.first);
  out.by_server = t.others.size() > 1;
  const auto gap = longest_gap(t.first);
  out.longest_gap_s = t.first[gap + 1] - t.first[gap];
  const double steps = (t.first.back() - t.first.front()) / out.step_s;
  const auto rows = static_cast<double>(t.rows());
  if (!(rows >= least_present * (steps + 1)))  // also what bounds the grid
    return bad_trace(t.line_of(gap + 1),
                     fmt::format("more than a tenth is missing: samples are {:g} s apart, and here "
                                 "{:g} s",
                                 out.step_s, out.longest_gap_s));
  std::vector<size_t> places(t.rows());
  size_t taken = 1;
  for (size_t i = 1; i < t.rows(); ++i) {
    places[i] = static_cast<size_t>(std::llround((t.first[i] - t.first.front()) / out.step_s));
    taken += places[i] != places[i - 1] ? 1 : 0;
  }
  out.filled = places.back() + 1 - taken;
  if (filled_of * out.filled >= places.back() + 1)
    return bad_trace(t.line_of(1), fmt::format("times are not even: half of the samples are {:g} s "
                                               "or less apart, others far more",
                                               out.step_s));
  for (auto& column : t.others) {
    out.columns.push_back(on_grid(column, places));
    std::vector<float>().swap(column);
  }
  return out;
}

}  // namespace troupe::power
