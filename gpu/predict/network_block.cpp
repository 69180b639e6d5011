// A block of the residual network, and the optimizer's step.
#include "gpu/predict/network_block.hpp"

#include <cmath>

#include "gpu/host/dnnl_gemm.hpp"
#include "gpu/host/kernels/kernel_table.hpp"

namespace troupe::gpu::predict {

namespace {

constexpr float norm_epsilon = 1e-5f;

float logit_scale(const network_shape& s) {
  const auto d = static_cast<float>(s.width);
  return s.published ? 1 / (d * d * static_cast<float>(s.heads)) : 1 / std::sqrt(d);
}

void norm_rows(const rows_matrix& x, const float* gain, const float* bias, std::vector<float>& mean,
               std::vector<float>& inverse, rows_matrix& out) {
  out.resize(x.rows(), x.cols());
  mean.resize(static_cast<size_t>(x.rows()));
  inverse.resize(mean.size());
  norm_forward_args a{};
  a.kind = norm_kind::layer;
  a.tokens = x.rows();
  a.width = x.cols();
  a.type = dtype::f32;
  a.eps = norm_epsilon;
  a.x = x.data();
  a.weight = gain;
  a.bias = bias;
  a.y = out.data();
  a.mean = mean.data();
  a.rstd = inverse.data();
  host::select_kernels().norm_forward(a, 0, a.tokens);
}

/// Adds to `into` the gradient through a norm of x; those of gain and bias are added as well.
void norm_rows_back(const rows_matrix& back, const rows_matrix& x, const std::vector<float>& mean,
                    const std::vector<float>& inverse, const float* gain, float* d_gain,
                    float* d_bias, rows_matrix& into) {
  const auto d = static_cast<size_t>(x.cols());
  std::vector<float> sums(4 * d);
  norm_backward_args a{};
  a.kind = norm_kind::layer;
  a.tokens = x.rows();
  a.width = x.cols();
  a.type = dtype::f32;
  a.dy = back.data();
  a.x = x.data();
  a.weight = gain;
  a.mean = mean.data();
  a.rstd = inverse.data();
  a.dresidual = into.data();
  a.dx = into.data();
  host::select_kernels().norm_backward(a, 0, a.tokens, sums.data(), sums.data() + 2 * d);
  for (size_t c = 0; c < d; ++c) {
    d_gain[c] += sums[c];
    d_bias[c] += sums[d + c];
  }
}

/// A matrix of few rows within a larger one, or such a one transposed.
struct small_matrix {
  const float* data;
  int64_t stride;
  bool transposed = false;
};

/// c [m, n] = a [m, k] b [k, n], of matrices too small for oneDNN's calls: those of a head.
void small_product(int64_t m, int64_t n, int64_t k, small_matrix a, small_matrix b, float* c,
                   int64_t stride, std::vector<float>& scratch) {
  host::gemm_args g{};
  g.m = m;
  g.n = n;
  g.k = k;
  g.type = g.out_type = dtype::f32;
  g.a = a.data;
  g.lda = a.stride;
  g.transposed_a = a.transposed;
  g.b = b.data;
  g.ldb = b.stride;
  g.transposed_b = b.transposed;
  g.c = c;
  g.ldc = stride;
  const auto& kernels = host::select_kernels();
  const size_t needed = kernels.gemm_memory(g) / sizeof(float) + 1;
  if (scratch.size() < needed) scratch.resize(needed);
  kernels.gemm(g, scratch.data());
}

/// Attention among the tokens of each row, head by head.
void attend(const network_shape& s, int tokens, block_cache& k) {
  const int d = s.width, rows = static_cast<int>(k.qkv.rows()) / tokens, across = s.heads * d;
  k.attended.resize(k.qkv.rows(), across);
  k.probabilities.resize(rows * s.heads * tokens, tokens);
  const float scale = logit_scale(s);
  const int64_t line = 3 * across;
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < s.heads; ++h) {
      const float* q = k.qkv.row(r * tokens).data() + h * d;
      const float* key = q + across;
      const float* value = key + across;
      auto p = k.probabilities.middleRows((r * s.heads + h) * tokens, tokens);
      small_product(tokens, tokens, d, {q, line}, {key, line, true}, p.data(), tokens, k.scratch);
      for (int t = 0; t < tokens; ++t) {
        p.row(t) = (scale * (p.row(t).array() - p.row(t).maxCoeff())).exp();
        p.row(t) /= p.row(t).sum();
      }
      small_product(tokens, d, tokens, {p.data(), tokens}, {value, line},
                    k.attended.row(r * tokens).data() + h * d, across, k.scratch);
    }
  }
}

/// The gradient by queries, keys and values, of that by what was attended to.
void attend_back(const network_shape& s, int tokens, block_cache& k) {
  const int d = s.width, rows = static_cast<int>(k.qkv.rows()) / tokens, across = s.heads * d;
  k.d_qkv.resize(k.qkv.rows(), 3 * across);
  k.d_probabilities.resize(tokens, tokens);
  const float scale = logit_scale(s);
  const int64_t line = 3 * across;
  auto& dp = k.d_probabilities;
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < s.heads; ++h) {
      const float* q = k.qkv.row(r * tokens).data() + h * d;
      const float* key = q + across;
      const float* value = key + across;
      const auto p = k.probabilities.middleRows((r * s.heads + h) * tokens, tokens);
      const float* back = k.d_attended.row(r * tokens).data() + h * d;
      float* d_q = k.d_qkv.row(r * tokens).data() + h * d;
      small_product(tokens, tokens, d, {back, across}, {value, line, true}, dp.data(), tokens,
                    k.scratch);
      for (int t = 0; t < tokens; ++t) {
        const float along = dp.row(t).dot(p.row(t));
        dp.row(t) = (p.row(t).array() * (dp.row(t).array() - along)) * scale;
      }
      small_product(tokens, d, tokens, {dp.data(), tokens}, {key, line}, d_q, line, k.scratch);
      small_product(tokens, d, tokens, {dp.data(), tokens, true}, {q, line}, d_q + across, line,
                    k.scratch);
      small_product(tokens, d, tokens, {p.data(), tokens, true}, {back, across}, d_q + 2 * across,
                    line, k.scratch);
    }
  }
}

}  // namespace

void product(Eigen::Ref<const rows_matrix> a, bool transposed_a, Eigen::Ref<const rows_matrix> b,
             bool transposed_b, Eigen::Ref<rows_matrix> c, bool accumulate) {
  host::gemm_args g{};
  g.m = c.rows();
  g.n = c.cols();
  g.k = transposed_a ? a.rows() : a.cols();
  g.type = g.out_type = dtype::f32;
  g.a = a.data();
  g.lda = a.outerStride();
  g.transposed_a = transposed_a;
  g.b = b.data();
  g.ldb = b.outerStride();
  g.transposed_b = transposed_b;
  g.c = c.data();
  g.ldc = c.outerStride();
  g.accumulate = accumulate;
  host::dnnl_gemm(g);
}

void pool_tokens(const rows_matrix& x, int tokens, rows_matrix& out) {
  const int rows = static_cast<int>(x.rows()) / tokens;
  out.resize(rows, x.cols());
  for (int r = 0; r < rows; ++r) {
    out.row(r) = x.row(r * tokens);
    for (int t = 1; t < tokens; ++t) out.row(r) += x.row(r * tokens + t);
    out.row(r) /= static_cast<float>(tokens);
  }
}

void share_among_tokens(const rows_matrix& d_out, int tokens, rows_matrix& back) {
  back.resize(d_out.rows() * tokens, d_out.cols());
  const float share = 1 / static_cast<float>(tokens);
  for (int r = 0; r < static_cast<int>(back.rows()); ++r)
    back.row(r) = d_out.row(r / tokens) * share;
}

block_place place_block(size_t& end, const network_shape& s) {
  const auto d = static_cast<size_t>(s.width), h = static_cast<size_t>(s.hidden),
             across = d * static_cast<size_t>(s.heads);
  const auto take = [&](size_t count) {
    const auto at = end;
    end += count;
    return at;
  };
  block_place p{};
  p.gain1 = take(d);
  p.bias1 = take(d);
  p.qkv = take(d * 3 * across);
  p.wo = take(across * d);
  p.gain2 = take(d);
  p.bias2 = take(d);
  p.w1 = take(d * h);
  p.b1 = take(h);
  p.w2 = take(h * d);
  p.b2 = take(d);
  return p;
}

void init_block(const network_shape& s, float* parameters, const block_place& at,
                random_numbers& draw) {
  const auto fill = [&](size_t begin, size_t end, float deviation) {
    for (size_t i = begin; i < end; ++i) parameters[i] = deviation * draw.normal();
  };
  const auto d = static_cast<float>(s.width);
  for (const auto gain : {at.gain1, at.gain2})
    std::fill_n(parameters + gain, static_cast<size_t>(s.width), 1.0f);
  fill(at.qkv, at.wo, 0.5f * std::sqrt(2 / d));
  fill(at.wo, at.gain2, 0.5f * std::sqrt(2 / (2 * d)));
  fill(at.w1, at.b1, std::sqrt(1 / d));
  fill(at.w2, at.b2, 0.5f * std::sqrt(1 / static_cast<float>(s.hidden)));
}

void block_forward(const network_shape& s, const float* parameters, const block_place& at,
                   rows_matrix& x, int tokens, block_cache& k, rows_matrix& out) {
  const int d = s.width, across = s.heads * d, rows = static_cast<int>(x.rows());
  k.x0 = x;
  norm_rows(x, parameters + at.gain1, parameters + at.bias1, k.mean1, k.inverse1, k.n1);
  k.qkv.resize(rows, 3 * across);
  product(k.n1, false, view_of(parameters + at.qkv, d, 3 * across), false, k.qkv, false);
  attend(s, tokens, k);
  product(k.attended, false, view_of(parameters + at.wo, across, d), false, x, true);
  k.x1 = x;
  pool_tokens(x, tokens, out);
  if (s.published) {
    k.pooled = out;
  } else {
    norm_rows(x, parameters + at.gain2, parameters + at.bias2, k.mean2, k.inverse2, k.n2);
    k.hidden.resize(rows, s.hidden);
    product(k.n2, false, view_of(parameters + at.w1, d, s.hidden), false, k.hidden, false);
    k.hidden.rowwise() += view_of(parameters + at.b1, 1, s.hidden).row(0);
    k.hidden = k.hidden.cwiseMax(0.0f);
    pool_tokens(k.hidden, tokens, k.pooled);
  }
  product(k.pooled, false, view_of(parameters + at.w2, s.hidden, d), false, out, true);
  out.rowwise() += view_of(parameters + at.b2, 1, d).row(0);
}

void block_backward(const network_shape& s, const float* parameters, float* gradient,
                    const block_place& at, const rows_matrix& d_out, int tokens, block_cache& k,
                    rows_matrix& back) {
  const int d = s.width, across = s.heads * d, rows = static_cast<int>(k.x1.rows());
  const float share = 1 / static_cast<float>(tokens);
  view_of(gradient + at.b2, 1, d).row(0) += d_out.colwise().sum();
  product(k.pooled, true, d_out, false, view_of(gradient + at.w2, s.hidden, d), true);
  k.d_pooled.resize(d_out.rows(), s.hidden);
  product(d_out, false, view_of(parameters + at.w2, s.hidden, d), true, k.d_pooled, false);
  share_among_tokens(d_out, tokens, back);
  if (s.published) {
    for (int r = 0; r < rows; ++r) back.row(r) += k.d_pooled.row(r / tokens) * share;
  } else {
    k.through.resize(rows, s.hidden);
    for (int r = 0; r < rows; ++r)
      k.through.row(r) =
          (k.hidden.row(r).array() > 0).select(k.d_pooled.row(r / tokens) * share, 0.0f);
    view_of(gradient + at.b1, 1, s.hidden).row(0) += k.through.colwise().sum();
    product(k.n2, true, k.through, false, view_of(gradient + at.w1, d, s.hidden), true);
    k.d_norm.resize(rows, d);
    product(k.through, false, view_of(parameters + at.w1, d, s.hidden), true, k.d_norm, false);
    norm_rows_back(k.d_norm, k.x1, k.mean2, k.inverse2, parameters + at.gain2, gradient + at.gain2,
                   gradient + at.bias2, back);
  }
  product(k.attended, true, back, false, view_of(gradient + at.wo, across, d), true);
  k.d_attended.resize(rows, across);
  product(back, false, view_of(parameters + at.wo, across, d), true, k.d_attended, false);
  attend_back(s, tokens, k);
  product(k.n1, true, k.d_qkv, false, view_of(gradient + at.qkv, d, 3 * across), true);
  k.d_norm.resize(rows, d);
  product(k.d_qkv, false, view_of(parameters + at.qkv, d, 3 * across), true, k.d_norm, false);
  norm_rows_back(k.d_norm, k.x0, k.mean1, k.inverse1, parameters + at.gain1, gradient + at.gain1,
                 gradient + at.bias1, back);
}

void adamw_step(std::vector<float>& parameters, std::vector<float>& gradient, std::vector<float>& m,
                std::vector<float>& v, int step, float lr, const training_options& o) {
  const auto& kernels = host::select_kernels();
  const auto count = static_cast<int64_t>(parameters.size());
  const auto norm = static_cast<float>(std::sqrt(kernels.sum_squares(gradient.data(), count)));
  const float shrink = norm > o.clip ? o.clip / norm : 1.0f;
  optimizer_step_args a{};
  a.kind = optimizer_step_args::rule::adamw;
  a.count = count;
  a.master = parameters.data();
  a.weight = parameters.data();
  a.weight_type = dtype::f32;
  a.m = m.data();
  a.v = v.data();
  a.grad = gradient.data();
  a.grad_scale = &shrink;
  a.lr = lr;
  a.beta1 = 0.9f;
  a.beta2 = 0.999f;
  a.eps = 1e-8f;
  a.weight_decay = o.weight_decay;
  a.step = step;
  kernels.adamw(a, 0, count, true);
}

}  // namespace troupe::gpu::predict
