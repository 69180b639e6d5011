// Orders, folds, and the ways beside ours.
#include "apps/bench/predict_steps.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "apps/bench/spread.hpp"
#include "apps/bench/stopwatch.hpp"
#include "gpu/predict/neighbours.hpp"
#include "gpu/predict/online_policy.hpp"
#include "gpu/predict/random.hpp"
#include "gpu/predict/ridge.hpp"
#include "io/perf/readers.hpp"

namespace troupe::apps::predict_bench {

namespace {

using gpu::predict::step_configuration;
using io::perf::feature_kind;
using io::perf::perf_row;
using io::perf::perf_table;
using rows_of_table = std::vector<const perf_row*>;

constexpr size_t told_parts[] = {10, 20, 40, 80, 160, 320, 512};
constexpr size_t folds = 10;
constexpr size_t least_rows = 20;
/// Of an A100, in bfloat16. What of it is reached is learned; the constant moves no prediction.
constexpr double peak_flops = 312e12;

std::filesystem::path single_file(const steps_plan& plan) {
  return plan.data / "vtrain_steptime" / "ground_truth_single.csv";
}
std::filesystem::path clusters_file(const steps_plan& plan) {
  return plan.data / "vtrain_steptime" / "ground_truth_multi.csv";
}

size_t feature_of(const perf_table& table, std::string_view name) {
  const auto at = std::find_if(table.features.begin(), table.features.end(),
                               [&](const auto& f) { return f.name == name; });
  return static_cast<size_t>(at - table.features.begin());
}

/// Rows as configurations, and as the plainer ways have them: by logarithms of deviation 1.
class encoded {
 public:
  encoded(const perf_table& table, const rows_of_table& told)
      : table_(table),
        flop_(feature_of(table, "flop_per_gpu")),
        bubble_(feature_of(table, "log_bubble")),
        centre_(table.features.size(), 0.0),
        scale_(table.features.size(), 0.0) {
    const auto n = static_cast<double>(told.size());
    for (size_t j = 0; j < columns(); ++j) {
      for (const auto* r : told) centre_[j] += coordinate(*r, j) / n;
      for (const auto* r : told) scale_[j] += std::pow(coordinate(*r, j) - centre_[j], 2) / n;
      scale_[j] = scale_[j] > 0 ? std::sqrt(scale_[j]) : 1.0;
    }
  }

  size_t columns() const { return table_.features.size(); }
  step_configuration configuration(const perf_row& r) const {
    return {r.numbers, r.numbers[flop_] / peak_flops * std::exp(r.numbers[bubble_])};
  }
  /// By its label, against the roofline.
  double ratio(const perf_row& r) const { return r.labels[0] / 1e3 / configuration(r).roofline_s; }
  std::vector<double> scaled(const perf_row& r) const {
    std::vector<double> out;
    for (size_t j = 0; j < columns(); ++j)
      out.push_back((coordinate(r, j) - centre_[j]) / scale_[j]);
    return out;
  }

 private:
  double coordinate(const perf_row& r, size_t j) const {
    const bool logarithm = table_.features[j].kind == feature_kind::log_number;
    return logarithm ? std::log(r.numbers[j]) : r.numbers[j];
  }

  const perf_table& table_;
  size_t flop_, bubble_;
  std::vector<double> centre_, scale_;
};

/// What is plainer: see the header.
void foretell_plainly(const encoded& by, const rows_of_table& told, const rows_of_table& asked,
                      foretold& out) {
  std::vector<double> x, y, ratios;
  std::vector<float> places;
  for (const auto* r : told) {
    for (const double v : by.scaled(*r)) {
      x.push_back(v);
      places.push_back(static_cast<float>(v));
    }
    ratios.push_back(by.ratio(*r));
    y.push_back(std::log(ratios.back()));
  }
  const auto line =
      gpu::predict::fit_ridge(x, y, told.size(), by.columns(), 1, gpu::predict::ridge_strengths());
  const double usual = median(ratios);
  for (const auto* r : asked) {
    const auto at = by.scaled(*r);
    const double roofline_s = by.configuration(*r).roofline_s;
    double logarithm = 0;
    gpu::predict::ridge_predict(line, at.data(), &logarithm);
    const std::vector<float> place(at.begin(), at.end());
    const auto near = gpu::predict::nearest_rows(place.data(), places, by.columns());
    out.ridge_s.push_back(roofline_s * std::exp(logarithm));
    out.roofline_s.push_back(roofline_s * usual);
    out.nearest_s.push_back(roofline_s * ratios[static_cast<size_t>(near.front().second)]);
  }
}

steps_error error_of(const foretold& f, const rows_of_table& asked) {
  steps_error out;
  const double part = 100.0 / static_cast<double>(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    const double came = asked[i]->labels[0] / 1e3;
    const auto off = [&](double seconds) { return part * std::abs(seconds / came - 1); };
    const auto& ours = f.ours[i];
    out.ours += off(ours.seconds);
    out.ridge += off(f.ridge_s[i]);
    out.roofline += off(f.roofline_s[i]);
    out.nearest += off(f.nearest_s[i]);
    out.held += ours.least_s <= came && came <= ours.most_s ? part : 0.0;
  }
  return out;
}

/// Adds the errors of a part of the rows, weighted by its share of all.
void add_share(steps_error& to, const steps_error& of, double share) {
  to.ours += share * of.ours;
  to.ridge += share * of.ridge;
  to.roofline += share * of.roofline;
  to.nearest += share * of.nearest;
  to.held += share * of.held;
}

rows_of_table shuffled(const perf_table& table, uint64_t seed) {
  rows_of_table out;
  for (const auto& r : table.rows)
    if (r.labelled()) out.push_back(&r);
  gpu::predict::random_numbers draw(seed);
  for (size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[draw.below(i)]);
  return out;
}

status measure_part(const perf_table& table, const rows_of_table& order, steps_row& row) {
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(row.told);
  const rows_of_table told(order.begin(), middle), asked(middle, order.end());
  TROUPE_TRY(f, foretell(table, told, asked));
  row.rounds.push_back(error_of(f, asked));
  row.fit_ms.push_back(f.fit_ms);
  row.ask_ms.push_back(f.ask_ms);
  return {};
}

status measure_folds(const perf_table& table, const rows_of_table& order, steps_row& row) {
  steps_error whole;
  for (size_t fold = 0; fold < folds; ++fold) {
    rows_of_table told, asked;
    for (size_t i = 0; i < order.size(); ++i)
      (i % folds == fold ? asked : told).push_back(order[i]);
    TROUPE_TRY(f, foretell(table, told, asked));
    add_share(whole, error_of(f, asked),
              static_cast<double>(asked.size()) / static_cast<double>(order.size()));
    row.told = told.size();
    row.fit_ms.push_back(f.fit_ms);
    row.ask_ms.push_back(f.ask_ms);
  }
  row.rounds.push_back(whole);
  return {};
}

status check_rows(const perf_table& table, const std::filesystem::path& file) {
  const auto labelled = shuffled(table, 0).size();
  if (labelled >= least_rows) return {};
  return error{errc::bad_data, fmt::format("{} has {} measured rows; expected {} at least",
                                           file.string(), labelled, least_rows)};
}

result<perf_table> read_rows(const std::filesystem::path& file) {
  TROUPE_TRY(csv, io::perf::read_csv(file));
  TROUPE_TRY(table, io::perf::read_vtrain(csv, [](std::string_view) { return true; }));
  TROUPE_CHECK(check_rows(table, file));
  return table;
}

}  // namespace

result<foretold> foretell(const perf_table& table, const rows_of_table& told,
                          const rows_of_table& asked) {
  const encoded by(table, told);
  std::vector<feature_kind> kinds;
  for (const auto& f : table.features) kinds.push_back(f.kind);
  gpu::predict::online_policy ours(kinds);
  for (const auto* r : told) TROUPE_CHECK(ours.hear(by.configuration(*r), 0, r->labels[0] / 1e3));
  foretold out;
  const auto fitting = std::chrono::steady_clock::now();
  ours.fit();
  out.fit_ms = seconds_since(fitting) * 1e3;
  const auto asking = std::chrono::steady_clock::now();
  for (const auto* r : asked) {
    TROUPE_TRY(said, ours.ask(by.configuration(*r), 0));
    out.ours.push_back({said->seconds, said->least_s, said->most_s});
  }
  out.ask_ms = seconds_since(asking) * 1e3 / static_cast<double>(asked.size());
  foretell_plainly(by, told, asked, out);
  return out;
}

std::optional<std::filesystem::path> missing_of(const steps_plan& plan) {
  std::error_code ignored;
  for (const auto& file : {single_file(plan), clusters_file(plan)})
    if (!std::filesystem::exists(file, ignored)) return file;
  return std::nullopt;
}

result<steps_measurement> measure_steps(const steps_plan& plan) {
  TROUPE_TRY(single, read_rows(single_file(plan)));
  TROUPE_TRY(clusters, read_rows(clusters_file(plan)));
  steps_measurement out;
  for (const size_t told : told_parts)
    if (2 * told <= shuffled(single, 0).size()) out.single.push_back({told, {}, {}, {}});
  for (int i = 0; i < plan.orders; ++i) {
    const auto seed = plan.seed * 1000 + static_cast<uint64_t>(i);
    const auto order = shuffled(single, seed);
    for (auto& row : out.single) TROUPE_CHECK(measure_part(single, order, row));
    TROUPE_CHECK(measure_folds(clusters, shuffled(clusters, seed), out.clusters));
  }
  return out;
}

}  // namespace troupe::apps::predict_bench
