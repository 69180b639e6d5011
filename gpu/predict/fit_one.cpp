// One fit: trunk, then the network on what the trunk leaves, then what the network leaves.
#include "gpu/predict/fit_one.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "gpu/predict/neighbours.hpp"
#include "gpu/predict/ridge.hpp"

namespace troupe::gpu::predict {

namespace {

/// Steps through rows that a network is given, unless that would be more passes than it needs.
constexpr double rows_learned = 100'000;
constexpr int fewest_passes = 15, enough_passes = 40;

std::vector<double> logarithms(const row_list& rows) {
  std::vector<double> out;
  for (const auto* r : rows)
    for (const double y : r->labels) out.push_back(std::log(y));
  return out;
}

/// [outputs] of standard deviations of the first `n` rows' residuals into m.scale (1 where there is
/// none).
void measure_scale(ModelT& m, const std::vector<double>& residuals, size_t n) {
  const size_t k = m.outputs.size();
  m.scale.assign(k, 1.0);
  for (size_t o = 0; o < k; ++o) {
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += residuals[i * k + o] * residuals[i * k + o];
    const double deviation = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
    constexpr double exact = 1e-9;  // a trunk that leaves nothing
    if (deviation > exact) m.scale[o] = deviation;
  }
}

/// The CPU model of each row, as numbers.
std::vector<int> models_of(const row_list& rows) {
  std::map<std::string_view, int> numbers;
  std::vector<int> out;
  for (const auto* r : rows)
    out.push_back(numbers.emplace(r->cpu_model, static_cast<int>(numbers.size())).first->second);
  // One model has nothing to be left out of.
  return numbers.size() > 1 ? out : std::vector<int>{};
}

std::vector<double> weights_of(const row_list& rows) {
  std::vector<double> out;
  for (const auto* r : rows) out.push_back(r->weight);
  return out;
}

/// The residuals of the trunk, or of the mean, after which m.offsets, weights and scale stand; the
/// scale is that of the first `own` rows.
std::vector<double> fit_trunk(ModelT& m, const row_list& rows, size_t own, const fit_plan& plan) {
  const bool trunk = plan.trunk;
  const size_t k = m.outputs.size(), columns = trunk ? io::perf::trunk_columns(m) : 0;
  auto y = logarithms(rows);
  std::vector<double> x(rows.size() * columns);
  if (trunk)
    for (size_t i = 0; i < rows.size(); ++i) write_trunk_row(m, *rows[i], x.data() + i * columns);
  const auto fit =
      fit_ridge(x, y, rows.size(), columns, k, trunk ? ridge_strengths() : std::vector<double>{1.0},
                plan.by_model ? models_of(rows) : std::vector<int>{}, weights_of(rows));
  m.offsets = fit.offsets;
  m.weights = fit.weights;
  m.column_means = fit.column_means;
  m.alpha = fit.alpha;
  std::vector<double> answer(k);
  for (size_t i = 0; i < rows.size(); ++i) {
    ridge_predict(fit, x.data() + i * columns, answer.data());
    for (size_t o = 0; o < k; ++o) y[i * k + o] -= answer[o];
  }
  measure_scale(m, y, own);
  return y;
}

void fit_network(ModelT& m, const row_list& rows, const std::vector<float>& targets,
                 const fit_plan& plan, const std::function<void()>& tell) {
  m.network = std::make_unique<io::perf::saved::NetworkT>();
  m.network->width = network_width;
  m.network->hidden = plan.published ? network_width : 2 * network_width;
  m.network->heads = 2;
  m.network->published = plan.published;
  m.network->no_intra = !plan.intra;
  m.network->no_inter = !plan.inter;
  network net(shape_of(m, *m.network), plan.seed);
  training_options o;
  o.seed = plan.seed;
  o.passes = plan.passes;
  net.train(network_rows_of(m, rows), targets, o, [&](int, double) {
    if (tell) tell();
  });
  m.network->parameters = net.parameters();
}

/// The neighbours: where train rows lie, and what is left of them.
void keep_neighbours(ModelT& m, const row_list& rows, const std::vector<float>& targets) {
  predictor p(std::move(m));
  const size_t k = p.model().outputs.size();
  auto local = std::make_unique<io::perf::saved::LocalT>();
  local->columns = static_cast<uint32_t>(p.model().network ? p.model().network->width
                                                           : io::perf::trunk_columns(p.model()));
  const auto parts = p.parts(rows, &local->embeddings);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t o = 0; o < k; ++o)
      local->residuals.push_back(targets[i * k + o] - static_cast<float>(parts[i].network[o]));
  local->unit = typical_distance(local->embeddings, local->columns);
  local->bandwidth = 1;
  local->shrink = 1;
  m = std::move(p.model());
  m.local = std::move(local);
}

}  // namespace

fit_plan plan_of(std::string_view kind, const fit_options& options, size_t rows) {
  fit_plan p;
  p.trunk = kind == "auto" || kind.starts_with("trunk");
  p.network = kind == "auto" || kind.find("ncpp") != std::string_view::npos;
  p.published = kind == "ncpp-published";
  p.intra = options.intra;
  p.inter = options.inter;
  p.seed = options.seed;
  p.passes = options.passes > 0
                 ? options.passes
                 : std::clamp(static_cast<int>(rows_learned / static_cast<double>(rows)),
                              fewest_passes, enough_passes);
  return p;
}

ModelT fit_rows(const io::perf::perf_table& table, const row_list& rows, const row_list& extra,
                const fit_plan& plan, const std::function<void()>& tell) {
  auto all = rows;
  all.insert(all.end(), extra.begin(), extra.end());
  ModelT m;
  m.dataset = table.dataset;
  m.outputs = table.outputs;
  m.seed = plan.seed;
  m.train_rows = static_cast<uint32_t>(rows.size());
  m.extra_rows = static_cast<uint32_t>(extra.size());
  std::string ids;
  for (const auto* r : all) ids += r->id + '\n';
  m.train_digest = XXH64(ids.data(), ids.size(), 0);
  m.features = learn_features(table.features, all);
  const auto left = fit_trunk(m, all, rows.size(), plan);
  std::vector<float> targets(left.size());
  const size_t k = m.outputs.size();
  for (size_t i = 0; i < left.size(); ++i)
    targets[i] = static_cast<float>(left[i] / m.scale[i % k]);
  if (plan.network) fit_network(m, all, targets, plan, tell);
  if (plan.network || io::perf::trunk_columns(m) > 0) keep_neighbours(m, rows, targets);
  return m;
}

}  // namespace troupe::gpu::predict
