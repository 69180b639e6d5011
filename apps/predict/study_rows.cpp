// A study's rows as text, and their sums.
#include "apps/predict/study_rows.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "io/perf/csv.hpp"

namespace troupe::apps::predict {

namespace {

using io::perf::bad_csv;

constexpr std::string_view study_columns[] = {
    "dataset",      "fold", "seed", "kind", "chosen",      "rows",           "flagged",
    "mape_percent", "mae",  "mse",  "r2",   "p90_percent", "within_percent", "digest"};
constexpr size_t first_number = 5, last_number = 12;

/// One seed's folds, pooled.
struct pooled_seed {
  double rows = 0, mape = 0, coverage = 0, r2 = 0, flagged = 0;

  void add(const study_row& r) {
    const auto n = static_cast<double>(r.rows);
    rows += n;
    mape += n * r.mape;
    coverage += n * r.coverage;
    r2 += n * r.r2;
    flagged += static_cast<double>(r.flagged_rows);
  }
};

study_sum sum_of(const std::string& dataset, const std::string& kind, const study_rows& rows) {
  study_sum out;
  out.dataset = dataset;
  out.kind = kind;
  std::map<uint64_t, pooled_seed> seeds;
  std::map<std::string, std::pair<double, double>> folds;  // sum of MAPE, and of how many
  for (const auto& [key, row] : rows) {
    if (key.dataset != dataset || key.kind != kind) continue;
    seeds[key.seed].add(row);
    folds[key.fold].first += row.mape;
    folds[key.fold].second += 1;
  }
  const auto n = static_cast<double>(seeds.size());
  for (const auto& [seed, s] : seeds) {
    out.mape += s.mape / s.rows / n;
    out.coverage += s.coverage / s.rows / n;
    out.r2 += s.r2 / s.rows / n;
    out.flagged_percent += 100 * s.flagged / s.rows / n;
    out.rows = static_cast<uint64_t>(s.rows);
  }
  double squares = 0;
  for (const auto& [seed, s] : seeds) {
    const double from_mean = s.mape / s.rows - out.mape;
    squares += from_mean * from_mean;
  }
  if (seeds.size() > 1) out.deviation = std::sqrt(squares / (n - 1));
  for (const auto& [fold, f] : folds) out.mape_by_fold[fold] = f.first / f.second;
  out.seeds = seeds.size();
  out.folds = folds.size();
  return out;
}

}  // namespace

std::string study_text(const study_rows& rows) {
  std::string out;
  for (const auto column : study_columns)
    out += fmt::format("{}{}", out.empty() ? "" : ",", column);
  out += '\n';
  for (const auto& [k, r] : rows)
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", io::perf::csv_cell(k.dataset),
                       io::perf::csv_cell(k.fold), k.seed, k.kind, r.chosen, r.rows, r.flagged_rows,
                       r.mape, r.mae, r.mse, r.r2, r.p90, r.coverage, r.digest);
  return out;
}

result<study_rows> parse_study(std::string_view text, const std::string& name) {
  TROUPE_TRY(file, io::perf::parse_csv(text, name));
  if (file.columns.size() != std::size(study_columns) ||
      !std::equal(file.columns.begin(), file.columns.end(), std::begin(study_columns)))
    return bad_csv(name, 1, "it is no study: its columns are others");
  study_rows out;
  for (const auto& row : file.rows) {
    const auto& c = row.cells;
    uint64_t seed = 0;
    const auto* const end = c[2].data() + c[2].size();
    if (const auto read = std::from_chars(c[2].data(), end, seed);
        read.ec != std::errc() || read.ptr != end)
      return bad_csv(name, row.line, fmt::format("seed is {}", troupe::quoted(c[2])));
    double numbers[last_number + 1] = {};
    for (size_t i = first_number; i <= last_number; ++i) {
      const auto n = io::perf::number_in(c[i]);
      if (!n || (i < first_number + 2 && !(*n >= (i == first_number ? 1 : 0) && *n <= 1e9)))
        return bad_csv(name, row.line,
                       fmt::format("{} is {}", study_columns[i], troupe::quoted(c[i])));
      numbers[i] = *n;
    }
    study_row r{c[4],
                static_cast<uint64_t>(numbers[5]),
                static_cast<uint64_t>(numbers[6]),
                numbers[7],
                numbers[8],
                numbers[9],
                numbers[10],
                numbers[11],
                numbers[12],
                c[13]};
    if (!out.emplace(study_key{c[0], c[1], seed, c[3]}, std::move(r)).second)
      return bad_csv(name, row.line, "the same data set, fold, seed and kind stand there twice");
  }
  return out;
}

std::vector<study_sum> sums_of_study(const study_rows& rows,
                                     const std::vector<std::string>& kinds) {
  std::vector<study_sum> out;
  std::string last;
  for (const auto& [key, row] : rows) {
    if (key.dataset == last) continue;
    last = key.dataset;
    const auto trunk = sum_of(last, "trunk", rows);
    for (const auto& kind : kinds) {
      auto s = sum_of(last, kind, rows);
      if (s.seeds == 0) continue;
      if (trunk.seeds > 0) s.over_trunk = s.mape - trunk.mape;
      out.push_back(std::move(s));
    }
  }
  return out;
}

}  // namespace troupe::apps::predict
