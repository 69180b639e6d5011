// AdamW (Loshchilov & Hutter 2019), LAMB (You et al. 2020, Algorithm 2) and clipping, by the
// definition. See reference_ops.hpp.
#include <bit>
#include <cmath>

#include "gpu/stochastic_rounding.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu::reference {
namespace {

/// Updates m and v of element i from its scaled gradient.
void move_moments(const optimizer_step_args& a, int64_t i) {
  const double b1 = a.beta1, b2 = a.beta2, g = static_cast<double>(a.grad[i]) * *a.grad_scale;
  a.m[i] = static_cast<float>(b1 * a.m[i] + (1 - b1) * g);
  a.v[i] = static_cast<float>(b2 * a.v[i] + (1 - b2) * g * g);
}

/// (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
double adam_direction(const optimizer_step_args& a, int64_t i) {
  const auto t = static_cast<double>(a.step);
  const double m = a.m[i] / (1 - std::pow(double{a.beta1}, t));
  const double v = a.v[i] / (1 - std::pow(double{a.beta2}, t));
  return m / (std::sqrt(v) + a.eps);
}

/// Element `index` rounded to bfloat16 by chance.
float rounded(float value, rounding_key key, int64_t index) {
  return std::bit_cast<float>(gpu::round_by_chance(std::bit_cast<uint32_t>(value),
                                                   random_bits(key, static_cast<uint32_t>(index))));
}

void store(const optimizer_step_args& a, int64_t i, double value) {
  a.master[i] = static_cast<float>(value);
  float copy = a.master[i];
  if (a.stochastic_rounding && a.weight_type == dtype::bf16) {
    copy = rounded(copy, make_rounding_key(a.rounding_seed, a.step), a.rounding_first + i);
  }
  put(a.weight, a.weight_type, i, copy);
  a.grad[i] = 0;
}

void adamw_span(const optimizer_step_args& a, const parameter_span& span) {
  const double decay = span.decay ? static_cast<double>(a.lr) * a.weight_decay : 0.0;
  for (int64_t i = span.offset; i < span.offset + span.count; ++i) {
    const double kept = a.master[i] * (1 - decay);
    move_moments(a, i);
    store(a, i, kept - a.lr * adam_direction(a, i));
  }
}

/// r of an element whose moments have moved.
double lamb_direction(const optimizer_step_args& a, const parameter_span& span, int64_t i) {
  const double decay = span.decay ? static_cast<double>(a.weight_decay) : 0.0;
  return adam_direction(a, i) + decay * a.master[i];
}

struct lamb_sums {
  double w2 = 0, r2 = 0;
};

lamb_sums lamb_norms(const optimizer_step_args& a, const parameter_span& span) {
  lamb_sums out;
  for (int64_t i = span.offset; i < span.offset + span.count; ++i) {
    move_moments(a, i);
    const double w = a.master[i], r = lamb_direction(a, span, i);
    out.w2 += w * w;
    out.r2 += r * r;
  }
  return out;
}

void lamb_apply(const optimizer_step_args& a, const parameter_span& span, const lamb_sums& sums) {
  const bool trust = (span.decay || a.trust_always) && sums.w2 > 0 && sums.r2 > 0;
  const double ratio = trust ? std::sqrt(sums.w2) / std::sqrt(sums.r2) : 1.0;
  for (int64_t i = span.offset; i < span.offset + span.count; ++i)
    store(a, i, a.master[i] - a.lr * ratio * lamb_direction(a, span, i));
}

/// What all rows say of span s.
lamb_sums sums_of_rows(const optimizer_step_args& a, int64_t s) {
  lamb_sums out;
  for (int64_t row = 0; row < a.norm_rows; ++row) {
    out.w2 += a.norms[row * a.norm_stride + 2 * s];
    out.r2 += a.norms[row * a.norm_stride + 2 * s + 1];
  }
  return out;
}

void lamb_span(const optimizer_step_args& a, int64_t s) {
  const auto& span = a.spans[s];
  if (a.part == optimizer_step_args::phase::apply) return lamb_apply(a, span, sums_of_rows(a, s));
  const auto sums = lamb_norms(a, span);
  if (a.part == optimizer_step_args::phase::whole) return lamb_apply(a, span, sums);
  a.norms[2 * s] += sums.w2;
  a.norms[2 * s + 1] += sums.r2;
}

}  // namespace

void round_by_chance(const round_by_chance_args& a) {
  const auto key = make_rounding_key(a.seed, a.step);
  for (int64_t i = 0; i < a.count; ++i)
    put(a.destination, dtype::bf16, i, rounded(a.source[i], key, a.first + i));
}

void optimizer_step(const optimizer_step_args& a) {
  for (int64_t s = 0; s < a.span_count; ++s) {
    if (a.kind == optimizer_step_args::rule::adamw) {
      adamw_span(a, a.spans[s]);
    } else {
      lamb_span(a, s);
    }
  }
}

void norm_squared(const norm_squared_args& a) {
  for (int64_t s = 0; s < a.span_count; ++s) {
    double squares = 0;
    for (int64_t i = a.spans[s].offset; i < a.spans[s].offset + a.spans[s].count; ++i) {
      squares += static_cast<double>(a.grad[i]) * a.grad[i];
    }
    *a.sum += squares;
    if (a.per_span != nullptr) a.per_span[s] += squares;
  }
}

void clip_scale(const clip_scale_args& a) {
  const double factor = a.max_norm / (std::sqrt(*a.norm_squared) + 1e-6);
  *a.scale = a.max_norm == 0 ? 1.0f : static_cast<float>(std::min(1.0, factor));
}

}  // namespace troupe::gpu::reference
