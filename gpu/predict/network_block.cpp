// A block of the residual network, and the optimizer's step.
#include "gpu/predict/network_block.hpp"

#include <cmath>

#include "gpu/host/dnnl_gemm.hpp"

namespace troupe::gpu::predict {

namespace {

constexpr float norm_epsilon = 1e-5f;

float logit_scale(const network_shape& s) {
  const auto d = static_cast<float>(s.width);
  return s.published ? 1 / (d * d * static_cast<float>(s.heads)) : 1 / std::sqrt(d);
}

void norm_rows(const rows_matrix& x, const float* gain, const float* bias, rows_matrix& scaled,
               std::vector<float>& inverse, rows_matrix& out) {
  const int rows = static_cast<int>(x.rows()), d = static_cast<int>(x.cols());
  scaled.resize(rows, d);
  out.resize(rows, d);
  inverse.resize(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) {
    const float mean = x.row(r).mean();
    const float variance = (x.row(r).array() - mean).square().mean();
    const float inv = 1 / std::sqrt(variance + norm_epsilon);
    inverse[static_cast<size_t>(r)] = inv;
    scaled.row(r) = (x.row(r).array() - mean) * inv;
    for (int c = 0; c < d; ++c) out(r, c) = scaled(r, c) * gain[c] + bias[c];
  }
}

/// Adds to `into` the gradient through a norm; those of gain and bias are added as well.
void norm_rows_back(const rows_matrix& back, const rows_matrix& scaled,
                    const std::vector<float>& inverse, const float* gain, float* d_gain,
                    float* d_bias, rows_matrix& into) {
  const int rows = static_cast<int>(back.rows()), d = static_cast<int>(back.cols());
  Eigen::RowVectorXf g(d);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < d; ++c) {
      d_gain[c] += back(r, c) * scaled(r, c);
      d_bias[c] += back(r, c);
      g[c] = back(r, c) * gain[c];
    }
    const float mean = g.mean(), along = g.dot(scaled.row(r)) / static_cast<float>(d);
    into.row(r).array() +=
        inverse[static_cast<size_t>(r)] * (g.array() - mean - scaled.row(r).array() * along);
  }
}

/// Attention among the tokens of each row, head by head.
void attend(const network_shape& s, int tokens, block_cache& k) {
  const int d = s.width, rows = static_cast<int>(k.qkv.rows()) / tokens, across = s.heads * d;
  k.attended.resize(k.qkv.rows(), across);
  k.probabilities.resize(rows * s.heads * tokens, tokens);
  const float scale = logit_scale(s);
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < s.heads; ++h) {
      const auto q = k.qkv.block(r * tokens, h * d, tokens, d);
      const auto key = k.qkv.block(r * tokens, across + h * d, tokens, d);
      const auto value = k.qkv.block(r * tokens, 2 * across + h * d, tokens, d);
      auto p = k.probabilities.middleRows((r * s.heads + h) * tokens, tokens);
      p.noalias() = scale * (q * key.transpose());
      for (int t = 0; t < tokens; ++t) {
        p.row(t) = (p.row(t).array() - p.row(t).maxCoeff()).exp();
        p.row(t) /= p.row(t).sum();
      }
      k.attended.block(r * tokens, h * d, tokens, d).noalias() = p * value;
    }
  }
}

/// The gradient by queries, keys and values.
rows_matrix attend_back(const network_shape& s, int tokens, const block_cache& k,
                        const rows_matrix& back) {
  const int d = s.width, rows = static_cast<int>(k.qkv.rows()) / tokens, across = s.heads * d;
  rows_matrix out(k.qkv.rows(), 3 * across);
  const float scale = logit_scale(s);
  rows_matrix dp(tokens, tokens);
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < s.heads; ++h) {
      const auto q = k.qkv.block(r * tokens, h * d, tokens, d);
      const auto key = k.qkv.block(r * tokens, across + h * d, tokens, d);
      const auto value = k.qkv.block(r * tokens, 2 * across + h * d, tokens, d);
      const auto p = k.probabilities.middleRows((r * s.heads + h) * tokens, tokens);
      const auto b = back.block(r * tokens, h * d, tokens, d);
      dp.noalias() = b * value.transpose();
      for (int t = 0; t < tokens; ++t) {
        const float along = dp.row(t).dot(p.row(t));
        dp.row(t) = (p.row(t).array() * (dp.row(t).array() - along)) * scale;
      }
      out.block(r * tokens, h * d, tokens, d).noalias() = dp * key;
      out.block(r * tokens, across + h * d, tokens, d).noalias() = dp.transpose() * q;
      out.block(r * tokens, 2 * across + h * d, tokens, d).noalias() = p.transpose() * b;
    }
  }
  return out;
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
                   rows_matrix& x, int tokens, block_cache& k) {
  const int d = s.width, across = s.heads * d, rows = static_cast<int>(x.rows());
  norm_rows(x, parameters + at.gain1, parameters + at.bias1, k.scaled1, k.inverse1, k.n1);
  k.qkv.resize(rows, 3 * across);
  product(k.n1, false, view_of(parameters + at.qkv, d, 3 * across), false, k.qkv, false);
  attend(s, tokens, k);
  product(k.attended, false, view_of(parameters + at.wo, across, d), false, x, true);
  k.x1 = x;
  if (!s.published) {
    norm_rows(x, parameters + at.gain2, parameters + at.bias2, k.scaled2, k.inverse2, k.n2);
    k.hidden.resize(rows, s.hidden);
    product(k.n2, false, view_of(parameters + at.w1, d, s.hidden), false, k.hidden, false);
    k.hidden.rowwise() += view_of(parameters + at.b1, 1, s.hidden).row(0);
    k.hidden = k.hidden.cwiseMax(0.0f);
  }
  product(s.published ? k.x1 : k.hidden, false, view_of(parameters + at.w2, s.hidden, d), false, x,
          true);
  x.rowwise() += view_of(parameters + at.b2, 1, d).row(0);
}

void block_backward(const network_shape& s, const float* parameters, float* gradient,
                    const block_place& at, rows_matrix& back, int tokens, const block_cache& k) {
  const int d = s.width, across = s.heads * d, rows = static_cast<int>(back.rows());
  view_of(gradient + at.b2, 1, d).row(0) += back.colwise().sum();
  product(s.published ? k.x1 : k.hidden, true, back, false, view_of(gradient + at.w2, s.hidden, d),
          true);
  rows_matrix through(rows, s.hidden);
  product(back, false, view_of(parameters + at.w2, s.hidden, d), true, through, false);
  if (s.published) {
    back += through;
  } else {
    through = (k.hidden.array() > 0).select(through, 0.0f);
    view_of(gradient + at.b1, 1, s.hidden).row(0) += through.colwise().sum();
    product(k.n2, true, through, false, view_of(gradient + at.w1, d, s.hidden), true);
    rows_matrix d_norm(rows, d);
    product(through, false, view_of(parameters + at.w1, d, s.hidden), true, d_norm, false);
    norm_rows_back(d_norm, k.scaled2, k.inverse2, parameters + at.gain2, gradient + at.gain2,
                   gradient + at.bias2, back);
  }
  product(k.attended, true, back, false, view_of(gradient + at.wo, across, d), true);
  rows_matrix d_attended(rows, across);
  product(back, false, view_of(parameters + at.wo, across, d), true, d_attended, false);
  const auto d_qkv = attend_back(s, tokens, k, d_attended);
  product(k.n1, true, d_qkv, false, view_of(gradient + at.qkv, d, 3 * across), true);
  rows_matrix d_norm(rows, d);
  product(d_qkv, false, view_of(parameters + at.qkv, d, 3 * across), true, d_norm, false);
  norm_rows_back(d_norm, k.scaled1, k.inverse1, parameters + at.gain1, gradient + at.gain1,
                 gradient + at.bias1, back);
}

void adamw_step(std::vector<float>& parameters, std::vector<float>& gradient, std::vector<float>& m,
                std::vector<float>& v, int step, float lr, const training_options& o) {
  constexpr float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  double squares = 0;
  for (const float g : gradient) squares += static_cast<double>(g) * g;
  const auto norm = static_cast<float>(std::sqrt(squares));
  const float shrink = norm > o.clip ? o.clip / norm : 1.0f;
  const float one = 1 - static_cast<float>(std::pow(beta1, step)),
              two = 1 - static_cast<float>(std::pow(beta2, step));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const float g = gradient[i] * shrink;
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const float update = m[i] / one / (std::sqrt(v[i] / two) + epsilon);
    parameters[i] -= lr * (update + o.weight_decay * parameters[i]);
  }
}

}  // namespace troupe::gpu::predict
