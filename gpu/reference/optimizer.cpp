// AdamW (Loshchilov & Hutter 2019), LAMB (You et al. 2020, Algorithm 2) and clipping, by the
// definition. See reference_ops.hpp.
#include <bit>
#include <cmath>
#include <vector>

#include "gpu/reference/reference_ops.hpp"
#include "gpu/stochastic_rounding.hpp"

namespace troupe::gpu::reference {
namespace {

/// Updates m and v of element i from its scaled gradient; returns (m/(1-b1^t)) /
/// (sqrt(v/(1-b2^t)) + eps).
double adam_direction(const optimizer_args& a, int64_t i) {
  const double b1 = a.beta1, b2 = a.beta2, g = static_cast<double>(a.grad[i]) * *a.grad_scale;
  const double m = b1 * a.m[i] + (1 - b1) * g;
  const double v = b2 * a.v[i] + (1 - b2) * g * g;
  a.m[i] = static_cast<float>(m);
  a.v[i] = static_cast<float>(v);
  const auto t = static_cast<double>(a.step);
  return m / (1 - std::pow(b1, t)) / (std::sqrt(v / (1 - std::pow(b2, t))) + a.eps);
}

/// Element `index` rounded to bfloat16 by chance.
float rounded(float value, rounding_key key, int64_t index) {
  return std::bit_cast<float>(gpu::round_by_chance(std::bit_cast<uint32_t>(value),
                                                   random_bits(key, static_cast<uint32_t>(index))));
}

void store(const optimizer_args& a, int64_t i, double value) {
  a.master[i] = static_cast<float>(value);
  float copy = a.master[i];
  if (a.stochastic_rounding && a.weight_type == dtype::bf16) {
    copy = rounded(copy, make_rounding_key(a.rounding_seed, a.step), a.rounding_first + i);
  }
  put(a.weight, a.weight_type, i, copy);
  a.grad[i] = 0;
}

void adamw_span(const optimizer_args& a, const parameter_span& span) {
  const double decay = span.decay ? static_cast<double>(a.lr) * a.weight_decay : 0.0;
  for (int64_t i = span.offset; i < span.offset + span.count; ++i) {
    const double kept = a.master[i] * (1 - decay);
    store(a, i, kept - a.lr * adam_direction(a, i));
  }
}

void lamb_span(const optimizer_args& a, const parameter_span& span) {
  std::vector<double> r(static_cast<size_t>(span.count));
  double w2 = 0, r2 = 0;
  for (int64_t k = 0; k < span.count; ++k) {
    const double w = a.master[span.offset + k];
    double& direction = r[static_cast<size_t>(k)];
    direction = adam_direction(a, span.offset + k);
    if (span.decay) direction += static_cast<double>(a.weight_decay) * w;
    w2 += w * w;
    r2 += direction * direction;
  }
  const bool trust = (span.decay || a.trust_always) && w2 > 0 && r2 > 0;
  const double ratio = trust ? std::sqrt(w2) / std::sqrt(r2) : 1.0;
  for (int64_t k = 0; k < span.count; ++k) {
    const int64_t i = span.offset + k;
    store(a, i, a.master[i] - a.lr * ratio * r[static_cast<size_t>(k)]);
  }
}

}  // namespace

void round_by_chance(const rounding_args& a) {
  const auto key = make_rounding_key(a.seed, a.step);
  for (int64_t i = 0; i < a.count; ++i)
    put(a.destination, dtype::bf16, i, rounded(a.source[i], key, a.first + i));
}

void optimizer_step(const optimizer_args& a) {
  for (int64_t s = 0; s < a.span_count; ++s) {
    if (a.kind == optimizer_args::rule::adamw) {
      adamw_span(a, a.spans[s]);
    } else {
      lamb_span(a, a.spans[s]);
    }
  }
}

void norm_squared(const float* grad, const parameter_span* spans, int64_t span_count, double* sum,
                  double* per_span) {
  for (int64_t s = 0; s < span_count; ++s) {
    double squares = 0;
    for (int64_t i = spans[s].offset; i < spans[s].offset + spans[s].count; ++i) {
      squares += static_cast<double>(grad[i]) * grad[i];
    }
    *sum += squares;
    if (per_span != nullptr) per_span[s] += squares;
  }
}

void clip_scale(const double* norm_squared, float max_norm, float* scale) {
  const double factor = max_norm / (std::sqrt(*norm_squared) + 1e-6);
  *scale = max_norm == 0 ? 1.0f : static_cast<float>(std::min(1.0, factor));
}

}  // namespace troupe::gpu::reference
