// Covariances, their Cholesky factor, and the scales of greatest posterior probability.
#include "gpu/predict/gaussian_process.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe::gpu::predict {

namespace {

using by_rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Of the offset: y is around 0, within a factor of e.
constexpr double offset_variance = 1;
/// Added to what is measured, so that rows at one place can be told apart by a factor at all.
constexpr double smallest_noise = 1e-9;

/// A scale's logarithm: where it starts, how far it is likely to be from there, and its bounds.
struct likely {
  double start, deviation, least, most;
};
constexpr likely likely_length{1.0, 0.8, -1.2, 4.6};
constexpr likely likely_linear{-3.0, 2.0, -14.0, 1.0};
constexpr likely likely_bent{-2.3, 2.0, -14.0, 3.0};
constexpr likely likely_nugget{-6.0, 1.0, -18.0, -2.0};

/// The scales as one vector of logarithms: lengths, linear, bent, nugget.
struct scale_space {
  size_t columns;

  size_t size() const { return columns + 3; }
  const likely& of(size_t at) const {
    if (at < columns) return likely_length;
    return at == columns ? likely_linear : at == columns + 1 ? likely_bent : likely_nugget;
  }
  process_scales scales(const std::vector<double>& at) const {
    process_scales out;
    for (size_t j = 0; j < columns; ++j) out.lengths.push_back(std::exp(at[j]));
    out.linear = std::exp(at[columns]);
    out.bent = std::exp(at[columns + 1]);
    out.nugget = std::exp(at[columns + 2]);
    return out;
  }
};

Eigen::MatrixXd bend_matrix(const Eigen::MatrixXd& x, const process_scales& s) {
  Eigen::MatrixXd scaled = x;
  for (Eigen::Index j = 0; j < x.cols(); ++j) scaled.col(j) /= s.lengths[static_cast<size_t>(j)];
  const Eigen::VectorXd squares = scaled.rowwise().squaredNorm();
  Eigen::MatrixXd away = -2 * scaled * scaled.transpose();
  away.colwise() += squares;
  away.rowwise() += squares.transpose();
  return s.bent * (-0.5 * away.array().max(0.0)).exp().matrix();
}

Eigen::MatrixXd whole_matrix(const Eigen::MatrixXd& lines, const Eigen::MatrixXd& bends,
                             const Eigen::MatrixXd& covariance, const process_scales& s) {
  Eigen::MatrixXd out = s.linear * lines + bends + covariance;
  out.array() += offset_variance;
  out.diagonal().array() += s.nugget + smallest_noise;
  return out;
}

/// What the scales' logarithm of posterior probability is, and its gradient by their logarithms.
class posterior {
 public:
  posterior(Eigen::MatrixXd x, Eigen::VectorXd y, Eigen::MatrixXd covariance)
      : x_(std::move(x)),
        y_(std::move(y)),
        covariance_(std::move(covariance)),
        lines_(x_ * x_.transpose()),
        space_{static_cast<size_t>(x_.cols())} {}

  const scale_space& space() const { return space_; }

  double value(const std::vector<double>& at, std::vector<double>& gradient) const {
    const auto s = space_.scales(at);
    const Eigen::MatrixXd bends = bend_matrix(x_, s);
    const Eigen::LLT<Eigen::MatrixXd> solved(whole_matrix(lines_, bends, covariance_, s));
    if (solved.info() != Eigen::Success) return -std::numeric_limits<double>::infinity();
    const Eigen::Index n = x_.rows();
    const Eigen::VectorXd weights = solved.solve(y_);
    // d value / d covariance = half of this.
    Eigen::MatrixXd slope = -solved.solve(Eigen::MatrixXd::Identity(n, n));
    slope.noalias() += weights * weights.transpose();
    const Eigen::MatrixXd bent_slope = slope.cwiseProduct(bends);
    const Eigen::VectorXd sums = bent_slope.rowwise().sum();
    for (Eigen::Index j = 0; j < x_.cols(); ++j) {
      // Half of the sum over pairs of slope times squared distance, by the sums of rows.
      const Eigen::VectorXd column = x_.col(j) / s.lengths[static_cast<size_t>(j)];
      gradient[static_cast<size_t>(j)] =
          sums.dot(column.cwiseAbs2()) - column.dot(bent_slope * column);
    }
    gradient[space_.columns] = 0.5 * s.linear * slope.cwiseProduct(lines_).sum();
    gradient[space_.columns + 1] = 0.5 * bent_slope.sum();
    gradient[space_.columns + 2] = 0.5 * s.nugget * slope.trace();
    double out = -0.5 * y_.dot(weights);
    for (Eigen::Index i = 0; i < n; ++i) out -= std::log(solved.matrixLLT()(i, i));
    for (size_t i = 0; i < space_.size(); ++i) {
      const auto& l = space_.of(i);
      const double off = (at[i] - l.start) / l.deviation;
      out -= 0.5 * off * off;
      gradient[i] -= off / l.deviation;
    }
    return out;
  }

 private:
  Eigen::MatrixXd x_;
  Eigen::VectorXd y_;
  Eigen::MatrixXd covariance_, lines_;
  scale_space space_;
};

/// Rprop: each number's step grows while its slope keeps its sign, and is halved where that turns.
std::vector<double> climb(const posterior& of, const std::function<bool()>& over) {
  constexpr int steps = 40;
  constexpr double first = 0.3, longest = 0.8, shortest = 1e-3;
  const auto& space = of.space();
  std::vector<double> at, best, gradient(space.size()), before(space.size(), 0.0),
      far(space.size(), first);
  for (size_t i = 0; i < space.size(); ++i) at.push_back(space.of(i).start);
  best = at;
  double best_value = -std::numeric_limits<double>::infinity();
  for (int step = 0; step < steps; ++step) {
    if (over && over()) break;
    const double value = of.value(at, gradient);
    if (value > best_value) {
      best_value = value;
      best = at;
    }
    if (!std::isfinite(value)) break;
    for (size_t i = 0; i < at.size(); ++i) {
      const double turn = gradient[i] * before[i];
      if (turn > 0) far[i] = std::min(1.3 * far[i], longest);
      if (turn < 0) far[i] = std::max(0.5 * far[i], shortest);
      before[i] = gradient[i];
      const auto& l = space.of(i);
      at[i] = std::clamp(at[i] + (gradient[i] > 0   ? far[i]
                                  : gradient[i] < 0 ? -far[i]
                                                    : 0.0),
                         l.least, l.most);
    }
  }
  return best;
}

}  // namespace

process_scales choose_scales(const process_data& data, size_t most,
                             const std::function<bool()>& over) {
  const size_t used = std::min(data.rows, most);
  std::vector<Eigen::Index> rows;
  for (size_t i = 0; i < used; ++i) rows.push_back(static_cast<Eigen::Index>(i * data.rows / used));
  const auto n = static_cast<Eigen::Index>(data.rows), p = static_cast<Eigen::Index>(data.columns);
  const Eigen::Map<const by_rows> x(data.x.data(), n, p), covariance(data.covariance.data(), n, n);
  const Eigen::Map<const Eigen::VectorXd> y(data.y.data(), n);
  const posterior of(x(rows, Eigen::all), y(rows), covariance(rows, rows));
  return of.space().scales(climb(of, over));
}

gaussian_process::gaussian_process(process_data data, process_scales scales)
    : data_(std::move(data)), scales_(std::move(scales)) {
  const auto n = static_cast<Eigen::Index>(data_.rows),
             p = static_cast<Eigen::Index>(data_.columns);
  const Eigen::MatrixXd x = Eigen::Map<const by_rows>(data_.x.data(), n, p);
  const Eigen::MatrixXd covariance = Eigen::Map<const by_rows>(data_.covariance.data(), n, n);
  const Eigen::LLT<Eigen::MatrixXd> solved(
      whole_matrix(x * x.transpose(), bend_matrix(x, scales_), covariance, scales_));
  const by_rows lower = solved.matrixL();
  factor_.assign(lower.data(), lower.data() + n * n);
  const Eigen::VectorXd weights =
      solved.solve(Eigen::Map<const Eigen::VectorXd>(data_.y.data(), n));
  weights_.assign(weights.data(), weights.data() + n);
  data_.covariance = {};  // in the factor
}

process_answer gaussian_process::answer(std::vector<double> with_rows, double own) const {
  const auto n = static_cast<Eigen::Index>(data_.rows);
  Eigen::Map<Eigen::VectorXd> k(with_rows.data(), n);
  process_answer out;
  out.mean = k.dot(Eigen::Map<const Eigen::VectorXd>(weights_.data(), n));
  Eigen::Map<const by_rows>(factor_.data(), n, n).triangularView<Eigen::Lower>().solveInPlace(k);
  out.variance = std::max(own - k.squaredNorm(), 0.0);
  return out;
}

gaussian_process::shared_terms gaussian_process::shared(const double* place, size_t row) const {
  const double* there = data_.x.data() + row * data_.columns;
  double away = 0, along = 0;
  for (size_t j = 0; j < data_.columns; ++j) {
    const double part = (place[j] - there[j]) / scales_.lengths[j];
    away += part * part;
    along += place[j] * there[j];
  }
  return {offset_variance + scales_.linear * along, scales_.bent * std::exp(-0.5 * away)};
}

process_terms gaussian_process::terms(const double* place,
                                      const std::vector<double>& besides) const {
  process_terms out;
  for (size_t i = 0; i < data_.rows; ++i) {
    const auto by = shared(place, i);
    out.line += weights_[i] * by.line;
    out.bend += weights_[i] * by.bend;
    if (!besides.empty()) out.besides += weights_[i] * besides[i];
  }
  return out;
}

process_answer gaussian_process::ask(const double* place, const std::vector<double>& besides,
                                     double own) const {
  std::vector<double> k(data_.rows);
  double squares = 0;
  for (size_t j = 0; j < data_.columns; ++j) squares += place[j] * place[j];
  for (size_t i = 0; i < data_.rows; ++i) {
    const auto by = shared(place, i);
    k[i] = by.line + by.bend + (besides.empty() ? 0.0 : besides[i]);
  }
  return answer(std::move(k), offset_variance + scales_.linear * squares + scales_.bent + own);
}

process_answer gaussian_process::ask_besides(const std::vector<double>& besides, double own) const {
  return answer(besides, own);
}

std::vector<left_out_row> gaussian_process::left_out() const {
  const auto n = static_cast<Eigen::Index>(data_.rows);
  by_rows inverse = by_rows::Identity(n, n);
  Eigen::Map<const by_rows>(factor_.data(), n, n)
      .triangularView<Eigen::Lower>()
      .solveInPlace(inverse);
  std::vector<left_out_row> out(data_.rows);
  for (size_t i = 0; i < data_.rows; ++i) {
    const double precision = inverse.col(static_cast<Eigen::Index>(i)).squaredNorm();
    out[i] = {weights_[i] / precision, 1 / precision};
  }
  return out;
}

}  // namespace troupe::gpu::predict
