// Errors by output, then averaged; shares over all values.
#include "apps/predict/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace troupe::apps::predict {

namespace {

double percentage_error(const judged_value& v) {
  return 100 * std::abs(v.predicted / v.measured - 1);
}

/// Sums of one output.
struct output_sums {
  double n = 0, absolute = 0, squares = 0, percent = 0, total = 0, total_squares = 0;

  void add(const judged_value& v) {
    const double e = v.predicted - v.measured;
    n += 1;
    absolute += std::abs(e);
    squares += e * e;
    percent += percentage_error(v);
    total += v.measured;
  }
  double r2() const { return total_squares > 0 ? 1 - squares / total_squares : 0; }
};

double share_under(const std::vector<double>& sorted, double bound) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), bound);
  return 100 * static_cast<double>(at - sorted.begin()) / static_cast<double>(sorted.size());
}

/// Linear between the two nearest ranks, as numpy has it.
double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<output_sums> sums_of(const std::vector<judged_value>& values, size_t outputs) {
  std::vector<output_sums> sums(outputs);
  for (const auto& v : values) sums[v.output].add(v);
  for (const auto& v : values) {
    auto& s = sums[v.output];
    const double from_mean = v.measured - s.total / s.n;
    s.total_squares += from_mean * from_mean;
  }
  return sums;
}

/// How far what was measured is from the prediction, in units of the interval's half on that side,
/// by logarithms where there are any.
double half_widths_off(const judged_value& v) {
  if (v.measured == v.predicted) return 0;
  const bool above = v.measured > v.predicted;
  const double end = above ? *v.upper : *v.lower;
  const bool logs = v.measured > 0 && v.predicted > 0 && end > 0;
  const auto from_prediction = [&](double x) {
    const double more = logs ? std::log(x) - std::log(v.predicted) : x - v.predicted;
    return above ? more : -more;
  };
  const double half = from_prediction(end);
  return half > 0 ? from_prediction(v.measured) / half : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<model_error> errors_by_model(const std::vector<judged_value>& values,
                                         const std::vector<std::string>& model_of_row) {
  std::map<std::string, model_error> by_name;
  for (const auto& v : values) {
    const auto& name = model_of_row[v.row];
    if (name.empty()) continue;
    auto& m = by_name[name];
    m.cpu_model = name;
    m.values += 1;
    m.flagged += v.flagged ? 1 : 0;
    m.mape += percentage_error(v);
    m.bias += 100 * (v.predicted / v.measured - 1);
  }
  std::vector<model_error> out;
  for (auto& [name, m] : by_name) {
    m.mape /= static_cast<double>(m.values);
    m.bias /= static_cast<double>(m.values);
    out.push_back(std::move(m));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const model_error& x, const model_error& y) { return x.mape > y.mape; });
  return out;
}

std::vector<coverage_point> coverage_of(const std::vector<judged_value>& values) {
  // Percent within so many standard deviations; 95 % are the interval's ends.
  constexpr std::pair<double, double> normal[] = {
      {10, 0.12566}, {20, 0.25335}, {30, 0.38532}, {40, 0.52440}, {50, 0.67449}, {60, 0.84162},
      {70, 1.03643}, {80, 1.28155}, {90, 1.64485}, {95, 1.95996}, {99, 2.57583}};
  constexpr double ends = 1.95996;
  std::vector<double> off;
  for (const auto& v : values)
    if (v.lower && v.upper) off.push_back(half_widths_off(v));
  std::vector<coverage_point> out;
  for (const auto& [asked, deviations] : normal) {
    if (off.empty()) break;
    const double within = deviations / ends + 1e-9;
    const auto count = std::count_if(off.begin(), off.end(), [&](double t) { return t <= within; });
    out.push_back({asked, 100 * static_cast<double>(count) / static_cast<double>(off.size())});
  }
  return out;
}

set_metrics measure(const std::vector<judged_value>& values, size_t outputs) {
  set_metrics m;
  const auto sums = sums_of(values, outputs);
  const auto k = static_cast<double>(
      std::count_if(sums.begin(), sums.end(), [](const output_sums& s) { return s.n > 0; }));
  for (const auto& s : sums) {
    if (s.n == 0) continue;  // no row has its label
    m.mae += s.absolute / s.n / k;
    m.mse += s.squares / s.n / k;
    m.mape += s.percent / s.n / k;
    m.r2 += s.r2() / k;
  }
  std::vector<double> errors;
  std::set<size_t> rows, flagged;
  double within = 0, with_interval = 0, unflagged = 0, unflagged_percent = 0;
  for (const auto& v : values) {
    errors.push_back(percentage_error(v));
    rows.insert(v.row);
    if (v.flagged) flagged.insert(v.row);
    if (v.lower && v.upper) {
      with_interval += 1;
      within += *v.lower <= v.measured && v.measured <= *v.upper ? 1 : 0;
    }
    if (!v.flagged) {
      unflagged += 1;
      unflagged_percent += errors.back();
    }
  }
  std::sort(errors.begin(), errors.end());
  m.rows = rows.size();
  m.flagged_rows = flagged.size();
  m.p90 = percentile(errors, 0.9);
  m.under_3 = share_under(errors, 3);
  m.under_5 = share_under(errors, 5);
  m.under_10 = share_under(errors, 10);
  if (with_interval > 0) m.coverage = 100 * within / with_interval;
  if (unflagged > 0) m.mape_unflagged = unflagged_percent / unflagged;
  return m;
}

}  // namespace troupe::apps::predict
