// Layer norm and RMS norm with their residuals, and the norms of heads, forward and backward; each
// row stays in cache.
#include "gpu/host/kernels/kernels.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

/// Sums `f(c, n)` over a row with two accumulators.
template <class F>
TROUPE_INLINE float sum_row(int64_t width, F&& f) {
  vf even{}, odd{};
  int64_t c = 0;
  for (; c + 2 * W <= width; c += 2 * W) {
    even += f(c, W);
    odd += f(c + W, W);
  }
  for (; c < width; c += W) {
    even += f(c, c + W <= width ? W : static_cast<int>(width - c));
  }
  return sum(even + odd);
}

template <class T>
void forward_row(const norm_forward_args& a, int64_t row) {
  const int64_t at = row * a.width;
  const T* x = static_cast<const T*>(a.x) + at;
  const T* residual = a.residual != nullptr ? static_cast<const T*>(a.residual) + at : nullptr;
  T* sum_out = a.sum_out != nullptr ? static_cast<T*>(a.sum_out) + at : nullptr;
  const auto width = static_cast<float>(a.width);
  const bool layer = a.kind == norm_kind::layer;

  const T* s = x;  // the stored sum, where there is one
  if (sum_out != nullptr) {
    for_vectors(a.width, [&](int64_t c, int n) {
      vf value = load_some(x + c, n);
      if (residual != nullptr) value += load_some(residual + c, n);
      store_some(sum_out + c, value, n);
    });
    s = sum_out;
    residual = nullptr;
  }
  const auto value = [&](int64_t c, int n) {
    const vf v = load_some(s + c, n);
    return residual != nullptr ? v + load_some(residual + c, n) : v;
  };
  float mean = 0;
  if (layer) mean = sum_row(a.width, value) / width;
  const float squares = sum_row(a.width, [&](int64_t c, int n) {
    const vf d = value(c, n) - mean;
    return n == W ? d * d : first_lanes(d * d, n);
  });
  const float rstd = 1.0f / __builtin_sqrtf(squares / width + a.eps);
  if (a.mean != nullptr) a.mean[row] = mean;
  a.rstd[row] = rstd;

  const T* weight = static_cast<const T*>(a.weight);
  const T* bias = static_cast<const T*>(a.bias);
  T* y = static_cast<T*>(a.y) + at;
  for_vectors(a.width, [&](int64_t c, int n) {
    vf v = (value(c, n) - mean) * rstd * load_some(weight + c, n);
    if (bias != nullptr) v += load_some(bias + c, n);
    store_some(y + c, v, n);
  });
}

template <class T>
void backward_row(const norm_backward_args& a, int64_t row, float* dweight, float* dbias) {
  const int64_t at = row * a.width;
  const T* dy = static_cast<const T*>(a.dy) + at;
  const T* x = static_cast<const T*>(a.x) + at;
  const T* weight = static_cast<const T*>(a.weight);
  const T* past = a.dresidual != nullptr ? static_cast<const T*>(a.dresidual) + at : nullptr;
  T* dx = static_cast<T*>(a.dx) + at;
  const bool layer = a.kind == norm_kind::layer;
  const float mean = layer ? a.mean[row] : 0.0f, rstd = a.rstd[row];

  vf sum_g{}, sum_gh{};
  for_vectors(a.width, [&](int64_t c, int n) {
    const vf h = (load_some(x + c, n) - mean) * rstd;
    const vf d = load_some(dy + c, n);
    const vf g = d * load_some(weight + c, n);  // zero beyond the tail, so h there does no harm
    sum_g += g;
    sum_gh += g * h;
    store_some(dweight + c, load_some(dweight + c, n) + d * h, n);
    if (layer) store_some(dbias + c, load_some(dbias + c, n) + d, n);
  });
  const auto width = static_cast<float>(a.width);
  const float mean_g = layer ? sum(sum_g) / width : 0.0f, mean_gh = sum(sum_gh) / width;
  for_vectors(a.width, [&](int64_t c, int n) {
    const vf h = (load_some(x + c, n) - mean) * rstd;
    const vf g = load_some(dy + c, n) * load_some(weight + c, n);
    vf d = rstd * (g - mean_g - h * mean_gh);
    if (past != nullptr) d += load_some(past + c, n);
    store_some(dx + c, d, n);
  });
}

/// A head is a row of its own: it is kept, and normed where it stands.
template <class T>
void forward_heads(const head_norm_forward_args& a, int64_t token) {
  const int64_t normed = a.heads + a.kv_heads, width = a.head_width;
  T* head = static_cast<T*>(a.qkv) + token * (normed + a.kv_heads) * width;
  T* before = static_cast<T*>(a.before) + token * normed * width;
  __builtin_memcpy(before, head, static_cast<size_t>(normed * width) * sizeof(T));
  norm_forward_args row{};
  row.kind = norm_kind::rms;
  row.width = width;
  row.eps = a.eps;
  for (int64_t h = 0; h < normed; ++h) {
    row.x = before + h * width;
    row.weight = h < a.heads ? a.q_weight : a.k_weight;
    row.y = head + h * width;
    row.rstd = a.rstd + token * normed + h;
    forward_row<T>(row, 0);
  }
}

template <class T>
void backward_heads(const head_norm_backward_args& a, int64_t token, float* dweights) {
  const int64_t normed = a.heads + a.kv_heads, width = a.head_width;
  T* d = static_cast<T*>(a.dqkv) + token * (normed + a.kv_heads) * width;
  const T* before = static_cast<const T*>(a.before) + token * normed * width;
  norm_backward_args row{};
  row.kind = norm_kind::rms;
  row.width = width;
  for (int64_t h = 0; h < normed; ++h) {
    const bool query = h < a.heads;
    row.dy = row.dx = d + h * width;
    row.x = before + h * width;
    row.weight = query ? a.q_weight : a.k_weight;
    row.rstd = a.rstd + token * normed + h;
    backward_row<T>(row, 0, dweights + (query ? 0 : width), nullptr);
  }
}

void add_and_clear(float* total, float* block, int64_t count) {
  for_vectors(count, [&](int64_t i, int n) {
    store_some(total + i, load_some(total + i, n) + load_some(block + i, n), n);
    store_some(block + i, vf{}, n);
  });
}

/// Two gradients of `width`, which `row(i)` adds to `block`, into `sums`: by blocks of so many
/// rows, so that long sums stay accurate.
template <class F>
TROUPE_INLINE void sum_by_blocks(int64_t begin, int64_t end, int64_t rows, int64_t width,
                                 float* sums, float* block, F&& row) {
  const int64_t count = 2 * width;
  __builtin_memset(sums, 0, static_cast<size_t>(count) * sizeof(float));
  __builtin_memset(block, 0, static_cast<size_t>(count) * sizeof(float));
  for (int64_t i = begin; i < end; ++i) {
    row(i);
    if ((i - begin) % rows == rows - 1) add_and_clear(sums, block, count);
  }
  add_and_clear(sums, block, count);
}

}  // namespace

void norm_forward(const norm_forward_args& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    a.type == dtype::bf16 ? forward_row<bf16_bits>(a, row) : forward_row<float>(a, row);
  }
}

void norm_backward(const norm_backward_args& a, int64_t begin, int64_t end, float* sums,
                   float* block) {
  sum_by_blocks(begin, end, 64, a.width, sums, block, [&](int64_t row) {
    if (a.type == dtype::bf16) {
      backward_row<bf16_bits>(a, row, block, block + a.width);
    } else {
      backward_row<float>(a, row, block, block + a.width);
    }
  });
}

void head_norm_forward(const head_norm_forward_args& a, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    a.type == dtype::bf16 ? forward_heads<bf16_bits>(a, token) : forward_heads<float>(a, token);
  }
}

void head_norm_backward(const head_norm_backward_args& a, int64_t begin, int64_t end, float* sums,
                        float* block) {
  sum_by_blocks(begin, end, 8, a.head_width, sums, block, [&](int64_t token) {
    if (a.type == dtype::bf16) {
      backward_heads<bf16_bits>(a, token, block);
    } else {
      backward_heads<float>(a, token, block);
    }
  });
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
