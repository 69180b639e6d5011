// AdamW and LAMB, one pass over each element's state; sums of squares in double.
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/stochastic_rounding.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

/// x^n for whole n >= 0 by squaring: the bias corrections need no libm.
double whole_power(double x, int64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1, x *= x) {
    if (n & 1) result *= x;
  }
  return result;
}

/// What every element of a step shares.
struct moments {
  explicit moments(const optimizer_step_args& a)
      : beta1(a.beta1),
        beta2(a.beta2),
        rest1(static_cast<float>(1.0 - static_cast<double>(a.beta1))),
        rest2(static_cast<float>(1.0 - static_cast<double>(a.beta2))),
        scale(*a.grad_scale),
        correct1(static_cast<float>(1.0 / (1.0 - whole_power(a.beta1, a.step)))),
        correct2(static_cast<float>(1.0 / (1.0 - whole_power(a.beta2, a.step)))),
        eps(a.eps),
        by_chance(a.stochastic_rounding && a.weight_type == dtype::bf16),
        key(make_rounding_key(a.rounding_seed, a.step)),
        first(static_cast<uint32_t>(a.rounding_first)) {}

  /// (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
  TROUPE_INLINE vf direction(vf m, vf v) const { return m * correct1 / (sqrt(v * correct2) + eps); }

  /// Updates m and v of n elements at i; returns their direction.
  TROUPE_INLINE vf update(const optimizer_step_args& a, int64_t i, int n) const {
    const vf g = load_some(a.grad + i, n) * scale;
    const vf m = beta1 * load_some(a.m + i, n) + rest1 * g;
    const vf v = beta2 * load_some(a.v + i, n) + rest2 * (g * g);
    store_some(a.m + i, m, n);
    store_some(a.v + i, v, n);
    return direction(m, v);
  }

  /// The weights at i as bfloat16 sees them: round_by_chance() in every lane.
  TROUPE_INLINE vf rounded(vf w, int64_t i) const {
    const vu index = reinterpret_cast<vu>(lane_numbers()) + (first + static_cast<uint32_t>(i));
    const vu bits = reinterpret_cast<vu>(w), random = random_bits(key, index);
    const vi nan = w != w;
    return select(nan, w, reinterpret_cast<vf>((bits + (random >> 16)) & 0xffff0000u));
  }

  float beta1, beta2, rest1, rest2, scale, correct1, correct2, eps;
  bool by_chance;
  rounding_key key;
  uint32_t first;  ///< the number of element 0
};

/// Writes n new weights at i: master, compute copy, zeroed gradient.
TROUPE_INLINE void finish(const optimizer_step_args& a, const moments& step, int64_t i, vf w,
                          int n) {
  store_some(a.master + i, w, n);
  if (a.weight_type == dtype::bf16) {
    const vf copy = step.by_chance ? step.rounded(w, i) : w;
    store_some(static_cast<bf16_bits*>(a.weight) + i, copy, n);
  } else if (a.weight != a.master) {
    store_some(static_cast<float*>(a.weight) + i, w, n);
  }
  store_some(a.grad + i, vf{}, n);
}

typedef double vd __attribute__((vector_size(W * 4)));  // half as many lanes as vf
typedef float vf_half __attribute__((vector_size(W * 2)));

/// Adds squares of x to a running sum in double.
struct square_sum {
  vd low{}, high{};

  TROUPE_INLINE void add(vf x) {
    vf_half half[2];
    __builtin_memcpy(half, &x, sizeof x);
    const vd a = __builtin_convertvector(half[0], vd), b = __builtin_convertvector(half[1], vd);
    low += a * a;
    high += b * b;
  }
  TROUPE_INLINE double total() const {
    const vd both = low + high;
    double sum_of_lanes = 0;
    for (int i = 0; i < W / 2; ++i) sum_of_lanes += both[i];
    return sum_of_lanes;
  }
};

}  // namespace

double sum_squares(const float* x, int64_t count) {
  square_sum s;
  for_vectors(count, [&](int64_t i, int n) { s.add(load_some(x + i, n)); });
  return s.total();
}

void adamw(const optimizer_step_args& a, int64_t begin, int64_t end, bool decay) {
  const moments step(a);
  const double shrink = decay ? static_cast<double>(a.lr) * a.weight_decay : 0.0;
  const auto keep = static_cast<float>(1.0 - shrink);
  for_vectors(end - begin, [&](int64_t k, int n) {
    const int64_t i = begin + k;
    const vf direction = step.update(a, i, n);
    finish(a, step, i, load_some(a.master + i, n) * keep - a.lr * direction, n);
  });
}

void lamb_norms(const optimizer_step_args& a, int64_t begin, int64_t end, bool decay,
                double* norms) {
  const moments step(a);
  const float decay_factor = decay ? a.weight_decay : 0.0f;
  square_sum w2, r2;
  for_vectors(end - begin, [&](int64_t k, int n) {
    const int64_t i = begin + k;
    const vf w = load_some(a.master + i, n);
    const vf r = step.update(a, i, n) + decay_factor * w;
    w2.add(w);
    r2.add(n == W ? r : first_lanes(r, n));
  });
  norms[0] = w2.total();
  norms[1] = r2.total();
}

void lamb_apply(const optimizer_step_args& a, int64_t begin, int64_t end, bool decay, float ratio) {
  const moments step(a);
  const float decay_factor = decay ? a.weight_decay : 0.0f;
  const float rate = a.lr * ratio;
  for_vectors(end - begin, [&](int64_t k, int n) {
    const int64_t i = begin + k;
    const vf w = load_some(a.master + i, n);
    const vf r = step.direction(load_some(a.m + i, n), load_some(a.v + i, n)) + decay_factor * w;
    finish(a, step, i, w - rate * r, n);
  });
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
