// Features by what train rows said of them.
#include "gpu/predict/encoder.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace troupe::gpu::predict {

namespace {

using io::perf::absent;
using io::perf::feature_kind;
using io::perf::saved::FeatureT;

constexpr uint8_t category_kind = static_cast<uint8_t>(feature_kind::category);
constexpr uint8_t log_kind = static_cast<uint8_t>(feature_kind::log_number);

void learn_levels(FeatureT& f, size_t at, const row_list& train) {
  std::set<std::string> seen;
  for (const auto* r : train)
    if (!r->words[at].empty() && seen.size() < io::perf::max_levels) seen.insert(r->words[at]);
  f.levels.assign(seen.begin(), seen.end());
  f.deviation = 1;
}

void learn_number(FeatureT& f, size_t at, const row_list& train) {
  std::vector<double> there;
  for (const auto* r : train)
    if (const double v = transformed(f, r->numbers[at]); !std::isnan(v)) there.push_back(v);
  f.deviation = 1;
  if (there.empty()) return;
  std::sort(there.begin(), there.end());
  const size_t n = there.size(), gone = train.size() - n;
  f.median = n % 2 == 1 ? there[n / 2] : (there[n / 2 - 1] + there[n / 2]) / 2;
  f.lowest = there.front();
  f.highest = there.back();
  f.marked = gone > 0;
  double sum = f.median * static_cast<double>(gone);
  for (const double v : there) sum += v;
  f.mean = sum / static_cast<double>(train.size());
  double squares = static_cast<double>(gone) * (f.median - f.mean) * (f.median - f.mean);
  for (const double v : there) squares += (v - f.mean) * (v - f.mean);
  const double deviation =
      train.size() > 1 ? std::sqrt(squares / static_cast<double>(train.size() - 1)) : 0;
  constexpr double rounding = 1e-9;  // what sums of equal numbers may leave
  f.deviation = deviation > rounding * (1 + std::abs(f.mean)) ? deviation : 1;
}

}  // namespace

int code_of(const FeatureT& f, const std::string& word) {
  const auto it = std::lower_bound(f.levels.begin(), f.levels.end(), word);
  if (it == f.levels.end() || *it != word) return 0;
  return static_cast<int>(it - f.levels.begin()) + 1;
}

double transformed(const FeatureT& f, double raw) noexcept {
  if (f.kind != log_kind) return raw;
  return raw > 0 ? std::log(raw) : absent;
}

std::vector<std::unique_ptr<FeatureT>> learn_features(
    const std::vector<io::perf::feature>& features, const row_list& train) {
  std::vector<std::unique_ptr<FeatureT>> out;
  for (size_t i = 0; i < features.size(); ++i) {
    auto f = std::make_unique<FeatureT>();
    f->name = features[i].name;
    f->group = features[i].group;
    f->unit = features[i].unit;
    f->kind = static_cast<uint8_t>(features[i].kind);
    f->defining = features[i].defining;
    if (f->kind == category_kind)
      learn_levels(*f, i, train);
    else
      learn_number(*f, i, train);
    out.push_back(std::move(f));
  }
  return out;
}

void write_trunk_row(const ModelT& m, const perf_row& row, double* out) {
  for (size_t i = 0; i < m.features.size(); ++i) {
    const auto& f = *m.features[i];
    if (f.kind == category_kind) {
      std::fill(out, out + f.levels.size(), 0.0);
      if (const int code = code_of(f, row.words[i]); code > 0) out[code - 1] = 1;
      out += f.levels.size();
      continue;
    }
    const double v = transformed(f, row.numbers[i]);
    const bool gone = std::isnan(v);
    *out++ = ((gone ? f.median : v) - f.mean) / f.deviation;
    if (f.marked) *out++ = gone ? 1 : 0;
  }
}

network_rows network_rows_of(const ModelT& m, const row_list& rows) {
  network_rows out;
  out.rows = static_cast<int>(rows.size());
  for (const auto& f : m.features) ++(f->kind == category_kind ? out.categories : out.numbers);
  for (const auto* r : rows) {
    out.weights.push_back(static_cast<float>(r->weight));
    for (size_t i = 0; i < m.features.size(); ++i) {
      const auto& f = *m.features[i];
      if (f.kind == category_kind) {
        out.codes.push_back(code_of(f, r->words[i]));
        continue;
      }
      const double v = transformed(f, r->numbers[i]);
      const bool gone = std::isnan(v);
      const double kept = gone ? f.mean : std::clamp(v, f.lowest, std::max(f.lowest, f.highest));
      out.masked.push_back(gone ? 1 : 0);
      out.z.push_back(static_cast<float>((kept - f.mean) / f.deviation));
    }
  }
  return out;
}

std::string outside_range(const ModelT& m, const perf_row& row) {
  constexpr double beyond = 0.1;  // of the range: a machine a little larger is still of its kind
  for (size_t i = 0; i < m.features.size(); ++i) {
    const auto& f = *m.features[i];
    if (f.kind == category_kind) {
      if (f.defining && !row.words[i].empty() && code_of(f, row.words[i]) == 0)
        return f.group + ": " + f.name;
      continue;
    }
    const double v = transformed(f, row.numbers[i]);
    const double slack = beyond * (f.highest - f.lowest);
    if (v < f.lowest - slack || v > f.highest + slack) return f.group + ": " + f.name;
  }
  return {};
}

}  // namespace troupe::gpu::predict
