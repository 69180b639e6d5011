// Factors of predictions, and importances by permutation.
#include "gpu/predict/explain.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu/predict/random.hpp"

namespace troupe::gpu::predict {

namespace {

bool is_category(const io::perf::saved::FeatureT& f) {
  return f.kind == static_cast<uint8_t>(io::perf::feature_kind::category);
}

/// What each feature's columns of the trunk add to the logarithms: [feature][output].
std::vector<std::vector<double>> trunk_sums(const ModelT& m, const perf_row& row) {
  const size_t k = m.outputs.size(), columns = io::perf::trunk_columns(m);
  std::vector<double> x(columns);
  write_trunk_row(m, row, x.data());
  std::vector<std::vector<double>> out;
  size_t column = 0;
  for (const auto& f : m.features) {
    auto& sums = out.emplace_back(k, 0.0);
    const size_t count = is_category(*f) ? f->levels.size() : f->marked ? 2 : 1;
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

/// How much worse rows are predicted where features are dealt out anew: points of MAPE.
class dealing {
 public:
  dealing(predictor& p, const row_list& rows, uint64_t seed) : p_(p), draw_(seed) {
    for (const auto* r : rows)
      if (r->labelled()) judged_.push_back(r);
    whole_ = error_over(p, judged_);
  }

  double lost(const std::vector<size_t>& which) {
    constexpr int times = 3;  // one permutation may be a lucky one
    double sum = 0;
    for (int i = 0; i < times; ++i) sum += error_with_dealt(p_, judged_, which, draw_) - whole_;
    return sum / times;
  }

 private:
  predictor& p_;
  row_list judged_;
  random_numbers draw_;
  double whole_ = 0;
};

/// The features of a group of tokens, in the network's order of groups.
struct network_group {
  std::string name;
  std::vector<size_t> features;
  bool whole = true;  ///< they are all that the model's group of that name has
};

std::vector<network_group> groups_of_network(const ModelT& m) {
  std::vector<network_group> out;
  network_group categories{"categories", {}, false};
  for (size_t i = 0; i < m.features.size(); ++i) {
    if (is_category(*m.features[i])) {
      categories.features.push_back(i);
      continue;
    }
    const auto& name = m.features[i]->group;
    auto it = std::find_if(out.begin(), out.end(), [&](const auto& g) { return g.name == name; });
    if (it == out.end()) it = out.insert(out.end(), {name, {}, true});
    it->features.push_back(i);
  }
  for (const size_t i : categories.features)
    for (auto& g : out) g.whole = g.whole && g.name != m.features[i]->group;
  if (!categories.features.empty()) out.push_back(std::move(categories));
  return out;
}

/// From 1 for the least; equal values have the mean of theirs.
std::vector<double> mean_ranks(std::span<const double> values) {
  std::vector<double> out;
  for (const double v : values) {
    const auto below = std::count_if(values.begin(), values.end(), [v](double o) { return o < v; });
    const auto equal = std::count(values.begin(), values.end(), v);
    out.push_back(static_cast<double>(below) + (static_cast<double>(equal) + 1) / 2);
  }
  return out;
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
  const bool with_network = io::perf::is_of_network(m.kind);
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
  dealing dealt(p, rows, seed);
  const auto& features = p.model().features;
  std::vector<importance> out;
  std::vector<std::pair<std::string, std::vector<size_t>>> groups;
  for (size_t i = 0; i < features.size(); ++i) {
    const auto& f = *features[i];
    out.push_back({f.group, f.name, dealt.lost({i})});
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const auto& g) { return g.first == f.group; });
    if (it == groups.end()) it = groups.insert(groups.end(), {f.group, {}});
    it->second.push_back(i);
  }
  for (const auto& [group, which] : groups) out.push_back({group, "", dealt.lost(which)});
  return out;
}

std::optional<attention_told> attention_of(predictor& p, const row_list& rows,
                                           const std::vector<importance>& worth, uint64_t seed) {
  const auto& m = p.model();
  if (!io::perf::is_of_network(m.kind)) return std::nullopt;
  const auto seen = p.attended(rows);
  if (seen.groups.empty() || (seen.numbers.empty() && seen.categories.empty())) return std::nullopt;
  attention_told out;
  const auto groups = groups_of_network(m);
  size_t number = 0, category = 0;
  std::vector<double> shares, points;
  for (size_t i = 0; i < m.features.size(); ++i) {
    const auto& f = *m.features[i];
    const auto in = std::find_if(groups.begin(), groups.end(), [i](const network_group& g) {
      return std::find(g.features.begin(), g.features.end(), i) != g.features.end();
    });
    const double own = is_category(f) ? seen.categories[category++] : seen.numbers[number++];
    const double share = own * seen.groups[static_cast<size_t>(in - groups.begin())];
    out.shares.push_back({f.group, f.name, share, worth[i].points});
    shares.push_back(share);
    points.push_back(worth[i].points);
  }
  out.features_agree = rank_agreement(shares, points);
  shares.clear();
  points.clear();
  dealing dealt(p, rows, seed);
  for (size_t g = 0; g < groups.size(); ++g) {
    // What has been told of as many features by that name is not told by other numbers.
    const auto told = std::find_if(worth.begin(), worth.end(), [&](const importance& w) {
      return w.name.empty() && w.group == groups[g].name && groups[g].whole;
    });
    shares.push_back(seen.groups[g]);
    points.push_back(told != worth.end() ? told->points : dealt.lost(groups[g].features));
    out.shares.push_back({groups[g].name, "", shares.back(), points.back()});
  }
  out.groups_agree = rank_agreement(shares, points);
  return out;
}

std::optional<double> rank_agreement(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.size() < 3) return std::nullopt;
  const auto x = mean_ranks(a), y = mean_ranks(b);
  const double middle = (static_cast<double>(a.size()) + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

}  // namespace troupe::gpu::predict
