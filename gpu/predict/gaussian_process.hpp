// A function of a few numbers, known at some places: a Gaussian process, exact.
//
//   cov(f(x), f(x')) = 1 + linear x.x' + bent exp(-1/2 sum_j ((x_j - x'_j) / length_j)^2)
//
// Its first two terms are ridge regression with an offset, the last what such a line leaves: fitted
// together, so that the doubt about the line is part of the answer's. What is measured of it has
// `nugget` besides, which no place explains, and a given covariance of its own.
//
// Lengths and variances are those of greatest likelihood times what is likely of them beforehand
// (so that few places choose nothing wild), by a fixed number of steps from a fixed start: the
// gradient's signs alone decide how far (Rprop), hence no line searches. The same numbers give the
// same bits. Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006: 2.2, 5.4.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace troupe::gpu::predict {

/// Variances, and how far along each column the function bends; columns are of deviation 1.
struct process_scales {
  std::vector<double> lengths;
  double linear = 0, bent = 0, nugget = 0;
};

/// Where a function was measured: x [rows, columns], y [rows] around 0, and what else varies in y:
/// covariance [rows, rows].
struct process_data {
  size_t rows = 0, columns = 0;
  std::vector<double> x, y, covariance;
};

/// A row as the others have it, had it not been measured: y less that, and its variance.
struct left_out_row {
  double residual = 0, variance = 0;
};

/// A logarithm's normal distribution, say.
struct process_answer {
  double mean = 0, variance = 0;  ///< without the nugget
};

/// Of an answer's mean, by the terms of the covariance that they come from; they sum up to it.
struct process_terms {
  double line = 0;     ///< the offset and what is linear
  double bend = 0;     ///< what the line leaves
  double besides = 0;  ///< the asked value's own part
};

/// By these rows: at most as many as `most` of them, evenly spread, since the work grows with the
/// cube of their number. Once `over` says true, the best so far: it is asked before each step.
process_scales choose_scales(const process_data& data, size_t most,
                             const std::function<bool()>& over = {});

class gaussian_process {
 public:
  /// Rows times rows numbers are kept.
  gaussian_process(process_data data, process_scales scales);

  /// At a place [columns]. `besides` [rows], where it is not empty, is what the asked value's own
  /// part, of variance `own`, covaries with the rows'.
  process_answer ask(const double* place, const std::vector<double>& besides = {},
                     double own = 0) const;
  /// The mean of such an answer.
  process_terms terms(const double* place, const std::vector<double>& besides = {}) const;
  /// Of that part alone.
  process_answer ask_besides(const std::vector<double>& besides, double own) const;

  std::vector<left_out_row> left_out() const;

  const process_scales& scales() const noexcept { return scales_; }
  const process_data& data() const noexcept { return data_; }

 private:
  /// What a row covaries with a place by, without and with the bend.
  struct shared_terms {
    double line = 0, bend = 0;
  };
  shared_terms shared(const double* place, size_t row) const;
  process_answer answer(std::vector<double> with_rows, double own) const;

  process_data data_;
  process_scales scales_;
  std::vector<double> factor_;   ///< [rows, rows], the lower Cholesky factor by rows
  std::vector<double> weights_;  ///< [rows]: the covariance's inverse times y
};

}  // namespace troupe::gpu::predict
