// Factors of predictions, and importances by permutation.
#include "gpu/predict/explain.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu/predict/random.hpp"

namespace troupe::gpu::predict {

namespace {

/// What each feature's columns of the trunk add to the logarithms: [feature][output].
std::vector<std::vector<double>> trunk_sums(const ModelT& m, const perf_row& row) {
  const size_t k = m.outputs.size(), columns = io::perf::trunk_columns(m);
  std::vector<double> x(columns);
  write_trunk_row(m, row, x.data());
  std::vector<std::vector<double>> out;
  size_t column = 0;
  for (const auto& f : m.features) {
    auto& sums = out.emplace_back(k, 0.0);
    const bool category = f->kind == static_cast<uint8_t>(io::perf::feature_kind::category);
    const size_t count = category ? f->levels.size() : f->marked ? 2 : 1;
    for (const size_t end = column + count; column < end; ++column)
      for (size_t o = 0; o < k; ++o)
        sums[o] += (x[column] - m.column_means[column]) * m.weights[column * k + o];
  }
  return out;
}

/// Mean relative error over rows and outputs, in percent.
double error_over(predictor& p, const row_list& rows) {
  const auto parts = p.parts(rows);
  double sum = 0, count = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t o = 0; o < rows[i]->labels.size(); ++o) {
      const double said = std::exp(p.logarithm(parts[i], o, p.model().kind));
      sum += 100 * std::abs(said / rows[i]->labels[o] - 1);
      count += 1;
    }
  return count > 0 ? sum / count : 0;
}

/// The error where some features have the values of other rows.
double error_with_dealt(predictor& p, const row_list& rows, const std::vector<size_t>& features,
                        random_numbers& draw) {
  std::vector<size_t> from(rows.size());
  std::iota(from.begin(), from.end(), size_t{0});
  for (size_t i = from.size(); i > 1; --i) std::swap(from[i - 1], from[draw.below(i)]);
  std::vector<perf_row> dealt;
  for (size_t i = 0; i < rows.size(); ++i) {
    auto& r = dealt.emplace_back(*rows[i]);
    for (const auto f : features) {
      r.numbers[f] = rows[from[i]]->numbers[f];
      r.words[f] = rows[from[i]]->words[f];
    }
  }
  row_list list;
  for (const auto& r : dealt) list.push_back(&r);
  return error_over(p, list);
}

}  // namespace

std::vector<factor> factors_of(predictor& p, const perf_row& row) {
  const auto& m = p.model();
  const size_t k = m.outputs.size();
  const auto parts = p.parts({&row}).front();
  std::vector<factor> out;
  std::vector<double> so_far(k, 0.0);
  const auto add = [&](const std::string& group, const std::string& name,
                       const std::vector<double>& logs) {
    auto& f = out.emplace_back(factor{group, name, {}});
    for (size_t o = 0; o < k; ++o) {
      so_far[o] += logs[o];
      f.by.push_back(std::exp(logs[o]));
    }
  };
  add("", "mean of the train rows", m.offsets);
  if (!m.weights.empty() && m.kind != "mean") {
    const auto sums = trunk_sums(m, row);
    for (size_t i = 0; i < sums.size(); ++i)
      add(m.features[i]->group, m.features[i]->name, sums[i]);
  }
  const bool with_network = m.kind.find("ncpp") != std::string::npos;
  const bool with_local = m.kind.ends_with("+local");
  std::vector<double> by_network(k, 0.0), by_local(k, 0.0);
  for (size_t o = 0; o < k; ++o) {
    const double n = with_network ? p.network_share(parts.distance) * parts.network[o] : 0;
    const double l = with_local ? parts.local[o] : 0;
    // Both together are clipped: each has its share of what is left.
    const double kept = std::abs(n + l) > residual_clip ? residual_clip / std::abs(n + l) : 1;
    by_network[o] = m.scale[o] * kept * n;
    by_local[o] = m.scale[o] * kept * l;
  }
  if (with_network) add("", "network", by_network);
  if (with_local) add("", "neighbours", by_local);
  std::vector<double> rest(k);
  for (size_t o = 0; o < k; ++o) rest[o] = p.logarithm(parts, o, m.kind) - so_far[o];
  constexpr double rounding = 1e-9;
  if (std::any_of(rest.begin(), rest.end(), [](double r) { return std::abs(r) > rounding; }))
    add("", "bounds", rest);
  return out;
}

std::vector<importance> importances_of(predictor& p, const row_list& rows, uint64_t seed) {
  row_list judged;
  for (const auto* r : rows)
    if (r->labelled()) judged.push_back(r);
  const double whole = error_over(p, judged);
  const auto& features = p.model().features;
  std::vector<importance> out;
  std::vector<std::pair<std::string, std::vector<size_t>>> groups;
  random_numbers draw(seed);
  const auto lost = [&](const std::vector<size_t>& which) {
    constexpr int times = 3;  // one permutation may be a lucky one
    double sum = 0;
    for (int i = 0; i < times; ++i) sum += error_with_dealt(p, judged, which, draw) - whole;
    return sum / times;
  };
  for (size_t i = 0; i < features.size(); ++i) {
    const auto& f = *features[i];
    out.push_back({f.group, f.name, lost({i})});
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const auto& g) { return g.first == f.group; });
    if (it == groups.end()) it = groups.insert(groups.end(), {f.group, {}});
    it->second.push_back(i);
  }
  for (const auto& [group, which] : groups) out.push_back({group, "", lost(which)});
  return out;
}

}  // namespace troupe::gpu::predict
