// Embeddings, activations, rotary embedding, sums and casts: one pass over memory each.
// See kernel_table.hpp for what each function does.
#include "gpu/host/kernels/documents.hpp"
#include "gpu/host/kernels/kernels.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

template <class T>
void embed(const embedding_forward_args& a, int64_t begin, int64_t end) {
  const T* table = static_cast<const T*>(a.token_table);
  const T* positions = static_cast<const T*>(a.position_table);
  for (int64_t i = begin; i < end; ++i) {
    const T* row = table + a.tokens[i] * a.width;
    T* out = static_cast<T*>(a.out) + i * a.width;
    if (positions == nullptr) {
      __builtin_memcpy(out, row, static_cast<size_t>(a.width) * sizeof(T));
      continue;
    }
    const T* position = positions + position_in(a.documents, i, a.seq) * a.width;
    for_vectors(a.width, [&](int64_t c, int n) {
      store_some(out + c, load_some(row + c, n) + load_some(position + c, n), n);
    });
  }
}

template <class T>
void add_row(float* to, const T* from, int64_t width) {
  for_vectors(width, [&](int64_t c, int n) {
    store_some(to + c, load_some(to + c, n) + load_some(from + c, n), n);
  });
}

template <class T>
void rotate(const rope_args& a, int64_t begin, int64_t end) {
  const int64_t half = a.head_width / 2;
  const int64_t row = (a.heads + 2 * a.kv_heads) * a.head_width;
  const vf sign = splat(a.inverse ? -1.0f : 1.0f);
  for (int64_t n = begin; n < end; ++n) {
    const int64_t t = (a.first_position + position_in(a.documents, n, a.seq)) * half;
    T* head = static_cast<T*>(a.qkv) + n * row;
    for (int64_t h = 0; h < a.heads + a.kv_heads; ++h, head += a.head_width) {
      for_vectors(half, [&](int64_t d, int k) {
        const vf c = load_some(a.cosine + t + d, k), s = sign * load_some(a.sine + t + d, k);
        const vf u = load_some(head + d, k), v = load_some(head + half + d, k);
        store_some(head + d, u * c - v * s, k);
        store_some(head + half + d, v * c + u * s, k);
      });
    }
  }
}

// gelu(x) = x * g(x) with g the tanh form's 0.5 * (1 + tanh(u)) = sigmoid(2u).
constexpr float gelu_2c = 1.5957691216057308f;  // 2 * sqrt(2/pi)
constexpr float gelu_cubic = 0.044715f;

TROUPE_INLINE vf gelu_tanh(vf x) {
  return x * sigmoid(x * gelu_2c * (1.0f + gelu_cubic * (x * x)));
}
TROUPE_INLINE vf gelu_tanh_slope(vf x) {
  const vf square = x * x;
  const vf s = sigmoid(x * gelu_2c * (1.0f + gelu_cubic * square));
  return s + x * s * (1.0f - s) * (gelu_2c * (1.0f + 3 * gelu_cubic * square));
}

/// The normal distribution function: erfc by the Chebyshev fit of Numerical Recipes (relative error
/// 1.2e-7), of the argument's magnitude, mirrored.
TROUPE_INLINE vf normal_cdf(vf x) {
  const vf z = x * 0.70710678118654752f;
  const vf magnitude = max(z, -z);
  const vf t = reciprocal(1.0f + 0.5f * magnitude);
  vf p = splat(0.17087277f);
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  const vf tail = 0.5f * t * exp(p - magnitude * magnitude);  // 0.5 * erfc(|z|)
  const vi negative = x < 0.0f;
  return as_float((as_int(tail) & negative) | (as_int(1.0f - tail) & ~negative));
}
TROUPE_INLINE vf gelu_erf(vf x) {
  return x * normal_cdf(x);
}
TROUPE_INLINE vf gelu_erf_slope(vf x) {
  return normal_cdf(x) + x * 0.3989422804014327f * exp(-0.5f * (x * x));
}

template <class T, class F>
TROUPE_INLINE void map(const void* x, void* y, int64_t begin, int64_t end, F&& f) {
  const T* from = static_cast<const T*>(x) + begin;
  T* to = static_cast<T*>(y) + begin;
  for_vectors(end - begin,
              [&](int64_t i, int n) { store_some(to + i, f(load_some(from + i, n)), n); });
}

template <class T, class F>
TROUPE_INLINE void map_two(const void* x, const void* dy, void* dx, int64_t begin, int64_t end,
                           F&& f) {
  const T* from = static_cast<const T*>(x) + begin;
  const T* upstream = static_cast<const T*>(dy) + begin;
  T* to = static_cast<T*>(dx) + begin;
  for_vectors(end - begin, [&](int64_t i, int n) {
    store_some(to + i, f(load_some(from + i, n), load_some(upstream + i, n)), n);
  });
}

template <class T>
void activate(const activation_forward_args& a, int64_t begin, int64_t end) {
  if (a.kind == activation_kind::gelu_tanh) {
    return map<T>(a.x, a.y, begin * a.width, end * a.width, [](vf x) { return gelu_tanh(x); });
  }
  if (a.kind == activation_kind::gelu_erf) {
    return map<T>(a.x, a.y, begin * a.width, end * a.width, [](vf x) { return gelu_erf(x); });
  }
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(a.x) + row * 2 * a.width;
    const T* up = gate + a.width;
    T* y = static_cast<T*>(a.y) + row * a.width;
    for_vectors(a.width, [&](int64_t f, int n) {
      const vf g = load_some(gate + f, n);
      store_some(y + f, g * sigmoid(g) * load_some(up + f, n), n);
    });
  }
}

template <class T>
void activate_back(const activation_backward_args& a, int64_t begin, int64_t end) {
  if (a.kind == activation_kind::gelu_tanh) {
    return map_two<T>(a.x, a.dy, a.dx, begin * a.width, end * a.width,
                      [](vf x, vf dy) { return dy * gelu_tanh_slope(x); });
  }
  if (a.kind == activation_kind::gelu_erf) {
    return map_two<T>(a.x, a.dy, a.dx, begin * a.width, end * a.width,
                      [](vf x, vf dy) { return dy * gelu_erf_slope(x); });
  }
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(a.x) + row * 2 * a.width;
    const T* dy = static_cast<const T*>(a.dy) + row * a.width;
    T* dgate = static_cast<T*>(a.dx) + row * 2 * a.width;
    for_vectors(a.width, [&](int64_t f, int n) {
      const vf g = load_some(gate + f, n), up = load_some(gate + a.width + f, n);
      const vf d = load_some(dy + f, n), s = sigmoid(g);
      store_some(dgate + f, d * up * s * (1.0f + g * (1.0f - s)), n);
      store_some(dgate + a.width + f, d * g * s, n);
    });
  }
}

}  // namespace

void embedding_forward(const embedding_forward_args& a, int64_t begin, int64_t end) {
  a.type == dtype::bf16 ? embed<bf16_bits>(a, begin, end) : embed<float>(a, begin, end);
}

void embedding_backward_tokens(const embedding_backward_args& a, int member, int members) {
  for (int64_t i = 0; i < a.batch * a.seq; ++i) {
    if (a.tokens[i] % members != member) continue;
    float* to = a.d_token_table + a.tokens[i] * a.width;
    if (a.type == dtype::bf16) {
      add_row(to, static_cast<const bf16_bits*>(a.dout) + i * a.width, a.width);
    } else {
      add_row(to, static_cast<const float*>(a.dout) + i * a.width, a.width);
    }
  }
}

void embedding_backward_positions(const embedding_backward_args& a, int64_t begin, int64_t end) {
  const auto add = [&](int64_t position, int64_t token) {
    float* to = a.d_position_table + position * a.width;
    if (a.type == dtype::bf16) {
      add_row(to, static_cast<const bf16_bits*>(a.dout) + token * a.width, a.width);
    } else {
      add_row(to, static_cast<const float*>(a.dout) + token * a.width, a.width);
    }
  };
  const int32_t* ends = a.documents.end;
  for (int64_t p = begin; p < end; ++p) {
    for (int64_t row = 0; row < a.batch * a.seq; row += a.seq) {
      for (int64_t first = 0, next = 0; first < a.seq; first = next) {  // documents
        next = ends != nullptr ? ends[row + first] : a.seq;
        if (first + p < next) add(p, row + first + p);
      }
    }
  }
}

void rope(const rope_args& a, int64_t begin, int64_t end) {
  a.type == dtype::bf16 ? rotate<bf16_bits>(a, begin, end) : rotate<float>(a, begin, end);
}

void activation_forward(const activation_forward_args& a, int64_t begin, int64_t end) {
  a.type == dtype::bf16 ? activate<bf16_bits>(a, begin, end) : activate<float>(a, begin, end);
}

void activation_backward(const activation_backward_args& a, int64_t begin, int64_t end) {
  if (a.type == dtype::bf16) return activate_back<bf16_bits>(a, begin, end);
  activate_back<float>(a, begin, end);
}

void add(const add_args& a, int64_t begin, int64_t end) {
  const auto plus = [](vf u, vf v) { return u + v; };
  if (a.type == dtype::bf16) return map_two<bf16_bits>(a.y, a.x, a.y, begin, end, plus);
  map_two<float>(a.y, a.x, a.y, begin, end, plus);
}

void cast(const cast_args& a, int64_t begin, int64_t end) {
  if (a.to == a.from) {
    const auto size = static_cast<int64_t>(size_of(a.to));
    __builtin_memcpy(static_cast<char*>(a.destination) + begin * size,
                     static_cast<const char*>(a.source) + begin * size,
                     static_cast<size_t>((end - begin) * size));
    return;
  }
  for_vectors(end - begin, [&](int64_t i, int n) {
    const int64_t at = begin + i;
    if (a.to == dtype::bf16) {
      store_some(static_cast<bf16_bits*>(a.destination) + at,
                 load_some(static_cast<const float*>(a.source) + at, n), n);
    } else {
      store_some(static_cast<float*>(a.destination) + at,
                 load_some(static_cast<const bf16_bits*>(a.source) + at, n), n);
    }
  });
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
