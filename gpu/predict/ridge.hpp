// The trunk: ridge regression of logarithms, all outputs at once, one strength for all, chosen by
// leaving each row out in turn, in closed form.
//
// With centred columns X [n, p] and targets Y [n, k], X^T X = V diag(l) V^T, the weights at a
// strength a are V diag(1 / (l + a)) V^T X^T Y; a row's own part in its prediction is
// h = 1/n + sum_j (x V)_j^2 / (l_j + a), and its residual had it not been learned from e / (1 - h)
// (Allen's PRESS). The decomposition is made once for all strengths.
// Rows may have weights: least squares then count each row's square so often, a strength is chosen
// by the rows of the greatest weight alone, and h is that of rows and targets times the root of
// their weights, around weighted means.
// Rows of a group are left out together: their residuals had none of them been learned from are
// (I - H_gg)^-1 e_g, H_gg the group's part of the hat matrix. Where a group has more rows than X
// has columns, the columns' system is solved: memory is bounded by rows times columns.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe::gpu::predict {

struct ridge_fit {
  std::vector<double> column_means;  ///< [p]
  std::vector<double> offsets;       ///< [k]: means of the targets
  std::vector<double> weights;       ///< [p, k]
  double alpha = 0;
  double left_out_rmse = 0;  ///< of rows left out, over all targets, at `alpha`
};

/// The strengths that are tried: 13 from 1e-3 to 1e3, equally spaced by their logarithms.
std::vector<double> ridge_strengths();

/// x [n, p] and y [n, k], row by row; n >= 1. `groups` [n] says which rows are left out together;
/// empty: each alone. `row_weights` [n], above 0; empty: all alike. The same bits for the same
/// numbers.
ridge_fit fit_ridge(const std::vector<double>& x, const std::vector<double>& y, size_t rows,
                    size_t columns, size_t outputs, const std::vector<double>& strengths,
                    const std::vector<int>& groups = {},
                    const std::vector<double>& row_weights = {});

/// One row's prediction: offsets + (x - means) weights; out [k].
void ridge_predict(const ridge_fit& fit, const double* x, double* out);

}  // namespace troupe::gpu::predict
