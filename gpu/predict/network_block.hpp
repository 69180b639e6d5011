// One block of the residual network, forward and backward: attention among the tokens of a row,
// then two linear layers, each with a norm before it and added to what came in; then the mean over
// the tokens, which is all that is asked of a block. So its last layer, being linear, is applied to
// that mean and not to every token.
//
// Matrix products are the host back end's (gpu/host/dnnl_gemm.hpp), norms and the optimizer its
// kernels (gpu/host/kernels): one thread, bits by the shape.
#pragma once

#include <Eigen/Core>

#include <vector>

#include "gpu/predict/network.hpp"
#include "gpu/predict/random.hpp"

namespace troupe::gpu::predict {

using rows_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using matrix_view = Eigen::Map<rows_matrix>;
using const_matrix_view = Eigen::Map<const rows_matrix>;

inline matrix_view view_of(float* data, int rows, int columns) {
  return {data, rows, columns};
}
inline const_matrix_view view_of(const float* data, int rows, int columns) {
  return {data, rows, columns};
}

/// c = a b, or c += a b; either of a and b may be taken transposed. All of them dense.
void product(Eigen::Ref<const rows_matrix> a, bool transposed_a, Eigen::Ref<const rows_matrix> b,
             bool transposed_b, Eigen::Ref<rows_matrix> c, bool accumulate);

/// Where the parameters of a block stand: gains and biases of the norms [d]; qkv [d, 3 h d];
/// wo [h d, d]; w1 [d, hidden], b1; w2 [hidden, d], b2.
struct block_place {
  size_t gain1, bias1, qkv, wo, gain2, bias2, w1, b1, w2, b2;
};
/// Appends a block's parameters behind `end`, which moves.
block_place place_block(size_t& end, const network_shape& s);
void init_block(const network_shape& s, float* parameters, const block_place& at,
                random_numbers& draw);

/// What the way back needs of the way there, and what both work in: kept, so that a step allocates
/// nothing of its size.
struct block_cache {
  rows_matrix x0, n1, qkv, probabilities, attended, x1, n2, hidden;  ///< by token
  rows_matrix pooled;  ///< [rows, hidden]: the mean of hidden, or of x1 where published
  std::vector<float> mean1, inverse1, mean2, inverse2;  ///< of each norm, 1 / deviation, by token
  rows_matrix through, d_norm, d_attended, d_qkv, d_pooled, d_probabilities;
  std::vector<float> scratch;
};

/// x [rows * tokens, columns] -> out [rows, columns]: the mean over the tokens of each row.
void pool_tokens(const rows_matrix& x, int tokens, rows_matrix& out);
/// The gradient through that: by the mean, d_out [rows, columns] -> by the tokens, back.
void share_among_tokens(const rows_matrix& d_out, int tokens, rows_matrix& back);

/// x [rows * tokens, d], which it changes -> out [rows, d].
void block_forward(const network_shape& s, const float* parameters, const block_place& at,
                   rows_matrix& x, int tokens, block_cache& cache, rows_matrix& out);
/// The gradient by what came out, d_out [rows, d], becomes that by what came in, back
/// [rows * tokens, d].
void block_backward(const network_shape& s, const float* parameters, float* gradient,
                    const block_place& at, const rows_matrix& d_out, int tokens, block_cache& cache,
                    rows_matrix& back);

/// One step of AdamW (betas .9 and .999, epsilon 1e-8), the gradient clipped to a norm first; it is
/// zeros afterwards.
void adamw_step(std::vector<float>& parameters, std::vector<float>& gradient, std::vector<float>& m,
                std::vector<float>& v, int step, float lr, const training_options& o);

}  // namespace troupe::gpu::predict
