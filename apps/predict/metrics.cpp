// Errors by output, then averaged; shares over all values.
#include "apps/predict/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <set>

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

}  // namespace

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
