// What was told, the noise in it, and the fit: one normal distribution of configurations and nodes.
#include "gpu/predict/online_policy.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "gpu/predict/gaussian_process.hpp"

namespace troupe::gpu::predict {

namespace {

using io::perf::feature_kind;

/// Of a node's effect: equal machines differ by some 8 % (docs/predict.md).
constexpr double node_variance = 0.08 * 0.08;
/// How a node does with one configuration may differ by that from how it does with others, however
/// often it was measured.
constexpr double cell_variance = 0.005 * 0.005;
/// Repeats differ by about this; believed like that many repeats.
constexpr double usual_variance = 0.01 * 0.01, usual_repeats = 4;

/// Scales are chosen by as many configurations: the gradient takes time with the cube of these.
constexpr size_t rows_to_choose_by = 192;

/// Of the interval.
constexpr double inside = 0.95;
/// Few residuals choose scales and widths too narrow for other rows: an interval is wider by this
/// over the number of configurations, and twice as wide at most.
constexpr double stretch = 25;
constexpr double of_normal = 1.96;

/// Of a feature's range, beyond which a question is outside.
constexpr double outside_share = 0.1;
/// An estimate's logarithm is at most that far from its roofline's: far outside, a line leads
/// anywhere.
constexpr double farthest = 100;

constexpr double greatest_s = 1e9, shortest_s = 1e-12, largest_coordinate = 1e9;

bool is_time(double seconds) {
  return seconds >= shortest_s && seconds <= greatest_s;
}

/// A cell's weight in its configuration's mean.
double precision_of(double count, double repeat_variance) {
  return 1 / (repeat_variance / count + cell_variance);
}

/// Half of the interval, in deviations: of the rows that were left out, 19 of 20 lie within.
double width_by(const std::vector<left_out_row>& rows) {
  std::vector<double> off;
  for (const auto& r : rows) off.push_back(std::abs(r.residual) / std::sqrt(r.variance));
  std::sort(off.begin(), off.end());
  const auto n = static_cast<double>(off.size());
  const auto rank = static_cast<size_t>(std::ceil(inside * (n + 1)));
  const double seen = off[std::min(rank, off.size()) - 1];
  // Of that few rows the largest says little.
  return std::max(seen, rank > off.size() ? of_normal : 0.0) * std::min(1 + stretch / n, 2.0);
}

}  // namespace

struct online_policy::fitted {
  std::optional<gaussian_process> process;
  std::map<uint64_t, size_t> index;  ///< of nodes
  Eigen::VectorXd means, variances;  ///< of nodes, by configurations that several had
  Eigen::MatrixXd shared;            ///< [configurations, nodes]: covariances of means with nodes
  std::vector<double> centre, scale, least, most;  ///< by feature
  double offset = 0;                               ///< of all logarithms
  double noise = 0;                                ///< of a sample, besides the process
  double width = 0;

  std::vector<double> covariances(size_t node) const {
    const auto column = shared.col(static_cast<Eigen::Index>(node));
    return {column.data(), column.data() + column.size()};
  }
  double mean_of(std::optional<size_t> node) const {
    return node ? means[static_cast<Eigen::Index>(*node)] : 0.0;
  }
  process_answer ask(const double* at, std::optional<size_t> node) const {
    if (!node) return process->ask(at, {}, node_variance);
    return process->ask(at, covariances(*node), variances[static_cast<Eigen::Index>(*node)]);
  }
};

online_policy::online_policy(std::vector<feature_kind> features, size_t kept)
    : features_(std::move(features)), kept_(std::clamp<size_t>(kept, 1, kept_configurations)) {}
online_policy::~online_policy() = default;
online_policy::online_policy(online_policy&&) noexcept = default;
online_policy& online_policy::operator=(online_policy&&) noexcept = default;

status online_policy::check(const step_configuration& configuration) const {
  if (configuration.features.size() != features_.size())
    return bad_step_sample(
        fmt::format("{} features; expected {}", configuration.features.size(), features_.size()));
  for (size_t i = 0; i < features_.size(); ++i) {
    const double x = configuration.features[i];
    if (features_[i] == feature_kind::category)
      return bad_step_sample(fmt::format("feature {} is a category; expected a number", i));
    const bool logarithm = features_[i] == feature_kind::log_number;
    if (!std::isfinite(x) || std::abs(x) > largest_coordinate * (logarithm ? 1e50 : 1))
      return bad_step_sample(fmt::format("feature {} is {}", i, x));
    if (logarithm && !(x > 0))
      return bad_step_sample(fmt::format("feature {} is {}; expected a number above 0", i, x));
  }
  if (!is_time(configuration.roofline_s))
    return bad_step_sample(fmt::format("a roofline of {} s", configuration.roofline_s));
  return {};
}

std::vector<double> online_policy::coordinates_of(const step_configuration& configuration) const {
  auto out = configuration.features;
  for (size_t i = 0; i < out.size(); ++i)
    if (features_[i] == feature_kind::log_number) out[i] = std::log(out[i]);
  return out;
}

status online_policy::hear(const step_configuration& configuration, uint64_t node, double seconds) {
  TROUPE_CHECK(check(configuration));
  if (!is_time(seconds)) return bad_step_sample(fmt::format("it took {} s", seconds));
  if (!cells_of_node_.contains(node) && cells_of_node_.size() == known_nodes)
    return too_many_step_nodes(known_nodes);
  auto at = std::find_if(known_.begin(), known_.end(),
                         [&](const auto& k) { return k.is == configuration; });
  if (at == known_.end()) {
    known_.push_back({configuration, coordinates_of(configuration), {}, 0});
    at = known_.end() - 1;
    ++fresh_;
  }
  at->newest = ++samples_;
  const auto [found, first] = at->cells.try_emplace(node);
  if (first && ++cells_of_node_[node] == 1) ++fresh_;
  auto& c = found->second;
  const double y = std::log(seconds / configuration.roofline_s), away = y - c.mean;
  c.count += 1;
  c.mean += away / c.count;
  c.squares += away * (y - c.mean);
  if (known_.size() > kept_) {
    const auto oldest =
        std::min_element(known_.begin(), known_.end(),
                         [](const auto& a, const auto& b) { return a.newest < b.newest; });
    drop(static_cast<size_t>(oldest - known_.begin()));
  }
  return {};
}

void online_policy::drop_cell(uint64_t node) {
  const auto at = cells_of_node_.find(node);
  if (--at->second == 0) cells_of_node_.erase(at);
}

void online_policy::drop(size_t configuration) {
  for (const auto& [node, c] : known_[configuration].cells) drop_cell(node);
  known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(configuration));
}

void online_policy::forget(uint64_t node) {
  for (auto& k : known_) k.cells.erase(node);
  cells_of_node_.erase(node);
  std::erase_if(known_, [](const auto& k) { return k.cells.empty(); });
  forgot_ = true;
}

bool online_policy::fit_due() const noexcept {
  if (known_.empty()) return forgot_;
  return !fitted_ || forgot_ ||
         8 * (fresh_ - fitted_fresh_) >= std::max<uint64_t>(known_.size(), 8) ||
         4 * (samples_ - fitted_samples_) >= std::max<uint64_t>(samples_, 32);
}

/// What configurations say of their nodes by themselves, and their means.
struct online_policy::told {
  Eigen::MatrixXd shares;       ///< [configurations, nodes]: of a configuration's mean
  Eigen::VectorXd y, noise;     ///< [configurations]: means of logarithms, their variances
  Eigen::VectorXd means;        ///< [nodes], by configurations that several had
  Eigen::MatrixXd covariances;  ///< of nodes, the same
  double noise_of_sample = 0;
};

online_policy::told online_policy::weigh(const std::map<uint64_t, size_t>& index) const {
  const auto n = static_cast<Eigen::Index>(known_.size()),
             nodes = static_cast<Eigen::Index>(index.size());
  double squares = 0, repeats = 0;
  for (const auto& k : known_)
    for (const auto& [node, c] : k.cells) {
      squares += c.squares;
      repeats += c.count - 1;
    }
  const double repeat = (squares + usual_repeats * usual_variance) / (repeats + usual_repeats);
  told out{Eigen::MatrixXd::Zero(n, nodes),
           Eigen::VectorXd::Zero(n),
           Eigen::VectorXd::Zero(n),
           Eigen::VectorXd::Zero(nodes),
           {},
           0};
  // Without repeats the nugget alone says what noise there is.
  if (repeats > 0) out.noise_of_sample = repeat + cell_variance;
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(nodes, nodes) / node_variance;
  Eigen::VectorXd moments = Eigen::VectorXd::Zero(nodes);
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto& cells = known_[static_cast<size_t>(i)].cells;
    double whole = 0, sum = 0;
    for (const auto& [node, c] : cells) {
      whole += precision_of(c.count, repeat);
      sum += precision_of(c.count, repeat) * c.mean;
    }
    out.y[i] = sum / whole;
    if (repeats > 0) out.noise[i] = 1 / whole;
    for (const auto& [node, c] : cells) {
      const auto at = static_cast<Eigen::Index>(index.at(node));
      const double own = precision_of(c.count, repeat);
      out.shares(i, at) = own / whole;
      // How a node differs from the others of the configuration: that says nothing of the
      // configuration's mean, nor the mean of that.
      inverse(at, at) += own;
      moments[at] += own * (c.mean - out.y[i]);
      for (const auto& [other, d] : cells)
        inverse(at, static_cast<Eigen::Index>(index.at(other))) -=
            own * precision_of(d.count, repeat) / whole;
    }
  }
  out.covariances = inverse.llt().solve(Eigen::MatrixXd::Identity(nodes, nodes));
  out.means = out.covariances * moments;
  return out;
}

void online_policy::place(fitted& f, process_data& data) const {
  const auto n = static_cast<double>(known_.size());
  for (size_t j = 0; j < features_.size(); ++j) {
    double mean = 0, squares = 0, least = known_[0].coordinates[j], most = least;
    for (const auto& k : known_) {
      mean += k.coordinates[j] / n;
      least = std::min(least, k.coordinates[j]);
      most = std::max(most, k.coordinates[j]);
    }
    for (const auto& k : known_) squares += std::pow(k.coordinates[j] - mean, 2);
    f.centre.push_back(mean);
    // A feature that is the same everywhere says nothing; a difference of it is a large one.
    f.scale.push_back(most > least ? std::sqrt(squares / n) : 1.0);
    f.least.push_back(least);
    f.most.push_back(most);
  }
  data.rows = known_.size();
  data.columns = features_.size();
  for (const auto& k : known_)
    for (size_t j = 0; j < features_.size(); ++j)
      data.x.push_back((k.coordinates[j] - f.centre[j]) / f.scale[j]);
}

bool online_policy::fit(const std::function<bool()>& over) {
  if (over && over()) return false;
  auto made = known_.empty() ? nullptr : make_fit(over);
  if (!known_.empty() && !made) return false;
  fitted_samples_ = samples_;
  fitted_fresh_ = fresh_;
  forgot_ = false;
  fitted_ = std::move(made);
  return true;
}

/// ONL-5: of this object it changes nothing. Nothing where it was cut short.
std::unique_ptr<const online_policy::fitted> online_policy::make_fit(
    const std::function<bool()>& over) const {
  fitted f;
  for (const auto& [node, cells] : cells_of_node_) f.index.emplace(node, f.index.size());
  const auto t = weigh(f.index);
  process_data data;
  place(f, data);
  Eigen::VectorXd y = t.y - t.shares * t.means;
  f.offset = y.mean();
  y.array() -= f.offset;
  f.shared = t.shares * t.covariances;
  Eigen::MatrixXd covariance = f.shared * t.shares.transpose();
  covariance.diagonal() += t.noise;
  data.y.assign(y.data(), y.data() + y.size());
  data.covariance.assign(covariance.data(), covariance.data() + covariance.size());  // symmetric
  f.means = t.means;
  f.variances = t.covariances.diagonal();
  auto scales = choose_scales(data, rows_to_choose_by, over);
  if (over && over()) return nullptr;
  f.noise = t.noise_of_sample + scales.nugget;
  f.process.emplace(std::move(data), std::move(scales));
  if (over && over()) return nullptr;
  f.width = width_by(f.process->left_out());
  return std::make_unique<const fitted>(std::move(f));
}

bool online_policy::has_seen(uint64_t node) const noexcept {
  return fitted_ && fitted_->index.contains(node);
}

/// There is a fit.
online_policy::asked_place online_policy::place_of(const step_configuration& configuration,
                                                   uint64_t node) const {
  const auto& f = *fitted_;
  asked_place out{coordinates_of(configuration), std::nullopt, std::nullopt};
  for (size_t j = 0; j < out.at.size(); ++j) {
    auto& at = out.at[j];
    const double slack = outside_share * (f.most[j] - f.least[j]) + 1e-9 * std::abs(f.most[j]);
    const bool within = at >= f.least[j] - slack && at <= f.most[j] + slack;
    if (!within && !out.outside) out.outside = j;
    at = (at - f.centre[j]) / f.scale[j];
  }
  if (const auto known = f.index.find(node); known != f.index.end()) out.node = known->second;
  return out;
}

result<std::optional<step_estimate>> online_policy::ask(const step_configuration& configuration,
                                                        uint64_t node) const {
  TROUPE_CHECK(check(configuration));
  if (!fitted_) return std::optional<step_estimate>{};
  const auto& f = *fitted_;
  const auto asked = place_of(configuration, node);
  step_estimate out;
  out.configurations = f.shared.rows();
  out.outside = asked.outside;
  const auto answer = f.ask(asked.at.data(), asked.node);
  const double middle = f.offset + answer.mean + f.mean_of(asked.node);
  const double half = f.width * std::sqrt(answer.variance + f.noise);
  const auto seconds = [&](double logarithm) {
    return configuration.roofline_s * std::exp(std::clamp(logarithm, -farthest, farthest));
  };
  out.seconds = seconds(middle);
  out.least_s = seconds(middle - half);
  out.most_s = seconds(middle + half);
  return std::optional(out);
}

result<std::optional<step_factors>> online_policy::explain(const step_configuration& configuration,
                                                           uint64_t node) const {
  TROUPE_TRY(said, ask(configuration, node));
  if (!said) return std::optional<step_factors>{};
  const auto& f = *fitted_;
  const auto asked = place_of(configuration, node);
  const auto terms = f.process->terms(
      asked.at.data(), asked.node ? f.covariances(*asked.node) : std::vector<double>{});
  const auto factor = [](double logarithm) {
    return std::exp(std::clamp(logarithm, -farthest, farthest));
  };
  step_factors out;
  out.is = *said;
  out.rule_s = configuration.roofline_s;
  out.line = factor(f.offset + terms.line);
  out.bend = factor(terms.bend);
  out.node = factor(f.mean_of(asked.node) + terms.besides);
  out.doubt = factor(f.width * std::sqrt(f.ask(asked.at.data(), asked.node).variance)) - 1;
  out.noise = factor(f.width * std::sqrt(f.noise)) - 1;
  for (const auto& k : known_)
    if (const auto own = k.cells.find(node); own != k.cells.end())
      out.node_samples += static_cast<size_t>(own->second.count);
  return std::optional(out);
}

node_effect online_policy::effect_of(uint64_t node) const {
  const auto known =
      fitted_ ? fitted_->index.find(node) : std::map<uint64_t, size_t>::const_iterator{};
  if (!fitted_ || known == fitted_->index.end()) return {0, std::sqrt(node_variance)};
  const auto at = static_cast<Eigen::Index>(known->second);
  const auto answer =
      fitted_->process->ask_besides(fitted_->covariances(known->second), fitted_->variances[at]);
  return {fitted_->means[at] + answer.mean, std::sqrt(answer.variance)};
}

}  // namespace troupe::gpu::predict
