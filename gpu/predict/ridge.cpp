// Ridge regression in closed form.
#include "gpu/predict/ridge.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace troupe::gpu::predict {

namespace {

using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The part of a residual that is left when its row would be predicted by nothing but itself.
constexpr double smallest_leverage_left = 1e-6;

/// (c I - U diag(w) U^T)^-1 residuals, U [count, columns], w > 0: by whichever of two systems is
/// smaller, that of the rows or that of the columns (Woodbury), so that a group of many rows needs
/// no matrix of rows times rows.
Eigen::MatrixXd solve_left_out(const Eigen::MatrixXd& u, const Eigen::VectorXd& weights, double c,
                               const Eigen::MatrixXd& residuals) {
  if (u.rows() <= u.cols()) {
    Eigen::MatrixXd left = -(u * weights.asDiagonal() * u.transpose());
    left.diagonal().array() += c;
    return left.ldlt().solve(residuals);
  }
  Eigen::MatrixXd inner = -(u.transpose() * u) / c;
  inner.diagonal() += weights.cwiseInverse();
  return (residuals + u * inner.ldlt().solve(u.transpose() * residuals) / c) / c;
}

/// Residuals of rows by themselves, as they would be had their group not been learned from.
/// turned [n, p], inverse [p], roots [n] of weights: H = roots roots^T / sum of weights + turned
/// diag(inverse) turned^T.
void leave_groups_out(matrix& residuals, const Eigen::MatrixXd& turned,
                      const Eigen::VectorXd& inverse, const Eigen::VectorXd& roots,
                      const std::vector<int>& groups) {
  std::map<int, std::vector<Eigen::Index>> members;
  for (size_t i = 0; i < groups.size(); ++i)
    members[groups[i]].push_back(static_cast<Eigen::Index>(i));
  const Eigen::Index columns = turned.cols();
  Eigen::VectorXd weights(columns + 1);
  weights << inverse, 1.0 / roots.squaredNorm();
  for (const auto& [group, rows] : members) {
    const auto count = static_cast<Eigen::Index>(rows.size());
    Eigen::MatrixXd part(count, columns + 1);
    part.leftCols(columns) = turned(rows, Eigen::all);
    part.col(columns) = roots(rows);
    const auto solved = solve_left_out(part, weights, 1 + smallest_leverage_left,
                                       Eigen::MatrixXd(residuals(rows, Eigen::all)));
    for (Eigen::Index i = 0; i < count; ++i)
      residuals.row(rows[static_cast<size_t>(i)]) = solved.row(i);
  }
}

/// The mean square over the rows of the greatest weight, each by itself (residuals are times the
/// root of the weight).
double mean_square(const matrix& residuals, const Eigen::VectorXd& roots) {
  const double most = roots.maxCoeff();
  double sum = 0, count = 0;
  for (Eigen::Index i = 0; i < residuals.rows(); ++i) {
    if (roots[i] < most) continue;
    sum += residuals.row(i).squaredNorm() / (most * most);
    count += static_cast<double>(residuals.cols());
  }
  return sum / count;
}

/// Roots of the weights: ones where there are none.
Eigen::VectorXd roots_of(const std::vector<double>& row_weights, Eigen::Index n) {
  if (row_weights.empty()) return Eigen::VectorXd::Ones(n);
  return Eigen::Map<const Eigen::VectorXd>(row_weights.data(), n).cwiseSqrt();
}

/// Without columns there is nothing but the targets' means.
ridge_fit means_of(const std::vector<double>& y, size_t outputs, const Eigen::VectorXd& roots) {
  ridge_fit out;
  out.offsets.assign(outputs, 0.0);
  const double all = roots.squaredNorm();
  for (size_t i = 0; i < y.size(); ++i) {
    const double root = roots[static_cast<Eigen::Index>(i / outputs)];
    out.offsets[i % outputs] += root * root * y[i] / all;
  }
  return out;
}

}  // namespace

std::vector<double> ridge_strengths() {
  std::vector<double> out;
  for (int i = 0; i < 13; ++i) out.push_back(std::pow(10.0, -3.0 + 0.5 * i));
  return out;
}

ridge_fit fit_ridge(const std::vector<double>& x, const std::vector<double>& y, size_t rows,
                    size_t columns, size_t outputs, const std::vector<double>& strengths,
                    const std::vector<int>& groups, const std::vector<double>& row_weights) {
  const auto n = static_cast<Eigen::Index>(rows), p = static_cast<Eigen::Index>(columns),
             k = static_cast<Eigen::Index>(outputs);
  const auto roots = roots_of(row_weights, n);
  if (p == 0) return means_of(y, outputs, roots);
  matrix centred = Eigen::Map<const matrix>(x.data(), n, p);
  matrix targets = Eigen::Map<const matrix>(y.data(), n, k);
  const Eigen::RowVectorXd shares = roots.cwiseAbs2().transpose() / roots.squaredNorm();
  const Eigen::RowVectorXd means = shares * centred, offsets = shares * targets;
  centred.rowwise() -= means;
  targets.rowwise() -= offsets;
  centred.array().colwise() *= roots.array();
  targets.array().colwise() *= roots.array();
  const Eigen::MatrixXd gram = centred.transpose() * centred;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(gram);
  const Eigen::VectorXd values = solved.eigenvalues().cwiseMax(0.0);
  const Eigen::MatrixXd turned = centred * solved.eigenvectors();  // [n, p]
  const Eigen::MatrixXd moments = turned.transpose() * targets;    // [p, k]
  const Eigen::MatrixXd squares = turned.cwiseAbs2();
  double best = std::numeric_limits<double>::infinity();
  ridge_fit out;
  Eigen::MatrixXd weights = Eigen::MatrixXd::Zero(p, k);
  for (const double a : strengths) {
    const Eigen::VectorXd inverse = (values.array() + a).inverse();
    const Eigen::MatrixXd solution = inverse.asDiagonal() * moments;
    matrix residuals = targets - turned * solution;
    if (groups.empty()) {
      const Eigen::VectorXd own = squares * inverse + shares.transpose();
      const Eigen::VectorXd left = (1.0 - own.array()).max(smallest_leverage_left);
      residuals.array().colwise() /= left.array();
    } else {
      leave_groups_out(residuals, turned, inverse, roots, groups);
    }
    const double error = std::sqrt(mean_square(residuals, roots));
    if (!(error < best)) continue;
    best = error;
    out.alpha = a;
    weights = solved.eigenvectors() * solution;
  }
  out.left_out_rmse = best;
  out.column_means.assign(means.data(), means.data() + p);
  out.offsets.assign(offsets.data(), offsets.data() + k);
  const matrix by_row = weights;
  out.weights.assign(by_row.data(), by_row.data() + p * k);
  return out;
}

void ridge_predict(const ridge_fit& fit, const double* x, double* out) {
  const size_t k = fit.offsets.size();
  for (size_t j = 0; j < k; ++j) out[j] = fit.offsets[j];
  for (size_t i = 0; i < fit.column_means.size(); ++i) {
    const double centred = x[i] - fit.column_means[i];
    for (size_t j = 0; j < k; ++j) out[j] += centred * fit.weights[i * k + j];
  }
}

}  // namespace troupe::gpu::predict
