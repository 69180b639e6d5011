// One fit: trunk, then the network on what the trunk leaves, then what the network leaves.
#include "gpu/predict/fit_one.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "gpu/predict/neighbours.hpp"
#include "gpu/predict/ridge.hpp"
#include "io/perf/model_file.hpp"

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

/// What the trunk leaves of rows that it was not fitted to, in deviations: [rows, outputs].
std::vector<float> left_by_trunk(const ModelT& m, const row_list& rows) {
  const size_t k = m.outputs.size(), columns = m.column_means.size();
  std::vector<double> x(std::max(columns, io::perf::trunk_columns(m)));
  std::vector<float> out;
  for (const auto* r : rows) {
    if (columns > 0) write_trunk_row(m, *r, x.data());
    for (size_t o = 0; o < k; ++o) {
      double left = std::log(r->labels[o]) - m.offsets[o];
      for (size_t c = 0; c < columns; ++c)
        left -= (x[c] - m.column_means[c]) * m.weights[c * k + o];
      out.push_back(static_cast<float>(left / m.scale[o]));
    }
  }
  return out;
}

/// The learning curve of a network, a point now and then: asking about the rows watched takes as
/// long as a tenth of a pass and more.
class curve_of_learning {
 public:
  curve_of_learning(ModelT& m, const row_list& watched, int passes)
      : to_(*m.network),
        rows_(network_rows_of(m, watched)),
        targets_(left_by_trunk(m, watched)),
        passes_(passes) {}

  void after(int pass, double learned, network& net) {
    constexpr int points = 10;
    const int every = std::max(1, passes_ / points);
    if (pass != 1 && pass != passes_ && pass % every != 0) return;
    to_.curve_passes.push_back(static_cast<uint32_t>(pass));
    to_.curve_learned.push_back(static_cast<float>(learned));
    if (rows_.rows > 0)
      to_.curve_held.push_back(static_cast<float>(net.loss_over(rows_, targets_)));
  }

 private:
  io::perf::saved::NetworkT& to_;
  network_rows rows_;
  std::vector<float> targets_;
  int passes_;
};

void fit_network(ModelT& m, const row_list& rows, const row_list& watched,
                 const std::vector<float>& targets, const fit_plan& plan,
                 const std::function<void()>& tell) {
  m.network = std::make_unique<io::perf::saved::NetworkT>();
  m.network->width = network_width;
  m.network->hidden = plan.published ? network_width : 2 * network_width;
  m.network->heads = 2;
  m.network->published = plan.published;
  m.network->no_intra = !plan.intra;
  m.network->no_inter = !plan.inter;
  const auto learned = network_rows_of(m, rows);
  curve_of_learning curve(m, watched, plan.passes);
  for (int n = 0; n < plan.seeds; ++n) {
    training_options o;
    o.seed = plan.seed + static_cast<uint64_t>(n);
    o.passes = plan.passes;
    network net(shape_of(m, *m.network), o.seed);
    net.train(learned, targets, o, [&](int pass, double loss) {
      if (n == 0) curve.after(pass, loss, net);
      if (tell) tell();
    });
    const auto& made = net.parameters();
    auto& to = n == 0 ? m.network->parameters : m.network->other_parameters;
    to.insert(to.end(), made.begin(), made.end());
  }
  auto& held = m.network->curve_held;  // rows beyond what can be computed with have no curve
  if (!std::all_of(held.begin(), held.end(), [](float loss) { return std::isfinite(loss); }))
    held.clear();
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
  p.network = kind == "auto" || io::perf::is_of_network(kind);
  p.published = kind == "ncpp-published";
  p.intra = options.intra;
  p.inter = options.inter;
  p.seed = options.seed;
  p.seeds = options.seeds;
  p.passes = options.passes > 0
                 ? options.passes
                 : std::clamp(static_cast<int>(rows_learned / static_cast<double>(rows)),
                              fewest_passes, enough_passes);
  return p;
}

ModelT fit_rows(const io::perf::perf_table& table, const row_list& rows, const row_list& extra,
                const row_list& watched, const fit_plan& plan, const std::function<void()>& tell) {
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
  if (plan.network) fit_network(m, all, watched, targets, plan, tell);
  if (plan.network || io::perf::trunk_columns(m) > 0) keep_neighbours(m, rows, targets);
  return m;
}

}  // namespace troupe::gpu::predict
