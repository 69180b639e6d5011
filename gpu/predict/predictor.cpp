// Answers of a saved model.
#include "gpu/predict/predictor.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gpu/predict/fill.hpp"
#include "gpu/predict/neighbours.hpp"
#include "io/base/counted.hpp"

namespace troupe::gpu::predict {

namespace {

/// Keeps an exponential finite, however far a row is outside the range.
constexpr double logarithm_clip = 300;

}  // namespace

bool is_kind(std::string_view word) noexcept {
  return std::find(std::begin(kinds), std::end(kinds), word) != std::end(kinds);
}

predictor::predictor(ModelT model) : model_(std::move(model)) {
  if (!model_.network) return;
  const auto& saved = *model_.network;
  const auto shape = shape_of(model_, saved);
  networks_.emplace_back(shape, saved.parameters);
  const auto count = static_cast<std::ptrdiff_t>(saved.parameters.size());
  for (auto at = saved.other_parameters.begin(); at != saved.other_parameters.end(); at += count)
    networks_.emplace_back(shape, std::vector<float>(at, at + count));
}

/// The means of what the networks say, and where the first one puts the rows.
network::answers predictor::ask_networks(const row_list& rows, std::vector<double>& spread) {
  const auto asked = network_rows_of(model_, rows);
  auto out = networks_.front().ask(asked);
  spread.assign(out.outputs.size(), 0.0);
  if (networks_.size() == 1) return out;
  std::vector<double> sums(out.outputs.begin(), out.outputs.end()), squares;
  for (const double y : sums) squares.push_back(y * y);
  for (size_t n = 1; n < networks_.size(); ++n) {
    const auto other = networks_[n].ask(asked).outputs;
    for (size_t i = 0; i < other.size(); ++i) {
      const auto y = static_cast<double>(other[i]);
      sums[i] += y;
      squares[i] += y * y;
    }
  }
  const auto n = static_cast<double>(networks_.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const double mean = sums[i] / n;
    out.outputs[i] = static_cast<float>(mean);
    spread[i] = std::sqrt(std::max(0.0, (squares[i] - n * mean * mean) / (n - 1)));
  }
  return out;
}

std::vector<float> predictor::embed(const row_list& rows) {
  if (!networks_.empty()) return networks_.front().ask(network_rows_of(model_, rows)).embeddings;
  const auto columns = io::perf::trunk_columns(model_);
  std::vector<double> x(columns);
  std::vector<float> out;
  for (const auto* r : rows) {
    write_trunk_row(model_, *r, x.data());
    for (const double v : x) out.push_back(static_cast<float>(v));
  }
  return out;
}

network::attention predictor::attended(const row_list& rows) {
  network::attention out;
  const auto add = [this](std::vector<double>& to, const std::vector<double>& shares) {
    to.resize(shares.size());
    for (size_t i = 0; i < shares.size(); ++i)
      to[i] += shares[i] / static_cast<double>(networks_.size());
  };
  const auto asked = network_rows_of(model_, rows);
  for (auto& one : networks_) {
    const auto seen = one.attended(asked);
    add(out.groups, seen.groups);
    add(out.numbers, seen.numbers);
    add(out.categories, seen.categories);
  }
  return out;
}

std::vector<prediction_parts> predictor::parts(const row_list& rows, std::vector<float>* placed) {
  const size_t k = model_.outputs.size(), columns = io::perf::trunk_columns(model_);
  const bool asks = !networks_.empty();
  network::answers answers;
  std::vector<double> spread(rows.size() * k, 0.0);
  if (asks) answers = ask_networks(rows, spread);
  auto places = asks ? std::move(answers.embeddings) : embed(rows);
  std::vector<double> x(columns);
  std::vector<prediction_parts> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    prediction_parts p{
        model_.offsets, std::vector<double>(k, 0.0), std::vector<double>(k, 0.0), 0, {}};
    if (!model_.weights.empty()) {
      write_trunk_row(model_, *rows[i], x.data());
      for (size_t c = 0; c < columns; ++c)
        for (size_t o = 0; o < k; ++o)
          p.trunk[o] += (x[c] - model_.column_means[c]) * model_.weights[c * k + o];
    }
    const auto begin = spread.begin() + static_cast<std::ptrdiff_t>(i * k);
    p.spread.assign(begin, begin + static_cast<std::ptrdiff_t>(k));
    for (size_t o = 0; asks && o < k; ++o) p.network[o] = answers.outputs[i * k + o];
    if (model_.local) {
      const auto& l = *model_.local;
      const auto near = nearest_rows(places.data() + i * l.columns, l.embeddings, l.columns);
      p.local = local_residual(near, l.residuals, k, l.unit, l.bandwidth, l.shrink);
      if (!near.empty()) p.distance = near.front().first / l.unit;
    }
    out.push_back(std::move(p));
  }
  if (placed != nullptr) *placed = std::move(places);
  return out;
}

double predictor::logarithm(const prediction_parts& p, size_t o, std::string_view kind) const {
  if (kind == "mean") return model_.offsets[o];
  double residual = 0;
  if (io::perf::is_of_network(kind)) residual += network_share(p.distance) * p.network[o];
  if (kind.ends_with("+local")) residual += p.local[o];
  const double sum =
      p.trunk[o] + model_.scale[o] * std::clamp(residual, -residual_clip, residual_clip);
  return std::clamp(sum, -logarithm_clip, logarithm_clip);
}

double predictor::network_share(double distance) const {
  const double away = distance / model_.network->reach;
  const double near = std::exp(-away * away);
  return near + (1 - near) * model_.network->share;
}

double predictor::half_width(double distance) const {
  const auto& d = model_.distances;
  const auto at = std::lower_bound(d.begin(), d.end(), distance);
  if (at != d.end()) return model_.halves[static_cast<size_t>(at - d.begin())];
  // Beyond all that was held out: wider by the root of how much farther it is, at most three times.
  constexpr double widest = 3;
  const double farther = d.back() > 0 ? std::sqrt(distance / d.back()) : widest;
  return model_.halves.back() * std::min(farther, widest);
}

double predictor::spread_of(const prediction_parts& p, size_t o) const {
  if (!io::perf::is_of_network(model_.kind)) return 0;
  return model_.scale[o] * network_share(p.distance) * p.spread[o];
}

prediction predictor::answer(const perf_row& row, const prediction_parts& of) const {
  prediction p;
  p.distance = of.distance;
  p.flag = outside_range(model_, row);
  if (p.flag.empty() && p.distance > model_.far) p.flag = "all: no train row is near";
  const double half = half_width(p.distance);
  for (size_t o = 0; o < model_.outputs.size(); ++o) {
    const double log = logarithm(of, o, model_.kind);
    constexpr double widest = 3;
    const double apart = model_.spread > 0 ? spread_of(of, o) / model_.spread : 0;
    const double wide = half * std::clamp(apart, 1.0, widest);
    p.value.push_back(std::exp(log));
    p.lower.push_back(std::exp(log - wide));
    p.upper.push_back(std::exp(log + wide));
  }
  return p;
}

/// The middle one of the predictions of a row that is completed by each of some train rows.
prediction predictor::answer_completed(const perf_row& row) {
  const auto rows = completions_of(model_, row);
  row_list list;
  for (const auto& r : rows) list.push_back(&r);
  const auto of = parts(list);
  std::vector<prediction> all;
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < rows.size(); ++i) {
    all.push_back(answer(rows[i], of[i]));
    double sum = 0;
    for (const double value : all[i].value) sum += std::log(value);
    order.emplace_back(std::isnan(sum) ? 0 : sum, i);  // what is no number has no order
  }
  std::sort(order.begin(), order.end());
  const size_t middle = order[(order.size() - 1) / 2].second;
  auto p = all[middle];
  for (const auto& other : all)
    for (size_t o = 0; o < p.value.size(); ++o) {
      p.lower[o] = std::min(p.lower[o], other.lower[o]);
      p.upper[o] = std::max(p.upper[o], other.upper[o]);
    }
  size_t taken = 0;
  for (size_t i = 0; i < model_.features.size(); ++i)
    taken += lacks(model_, row, i) && !lacks(model_, rows[middle], i) ? 1 : 0;
  p.flag = outside_range(model_, row);
  if (p.flag.empty()) p.flag = fmt::format("all: {} not given", counted(taken, "feature"));
  p.completed = rows[middle];
  return p;
}

std::vector<prediction> predictor::ask(const row_list& rows) {
  const auto all = parts(rows);
  const auto always = always_given(model_);
  std::vector<prediction> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    bool whole = true;  // DON-1
    for (size_t f = 0; f < always.size(); ++f)
      whole = whole && !(always[f] && lacks(model_, *rows[i], f));
    out.push_back(whole ? answer(*rows[i], all[i]) : answer_completed(*rows[i]));
  }
  return out;
}

}  // namespace troupe::gpu::predict
