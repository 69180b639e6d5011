// GELU (both forms) and SwiGLU, forward and backward.
//
// A thread computes 16 values of y (8 of a backward pass, which reads twice as much for each).
// Every element has one thread: deterministic. exp is the hardware's exp2, good to 2 ulp; erf the
// precise one.
// Floor, with s = size_of(type), N tokens, F width:
//   gelu    forward bytes 2 N F s; backward 3 N F s
//   swiglu  forward bytes 3 N F s; backward 5 N F s
//   FLOPs   about 12 per element forward, 25 backward (erf: 40)
#include "gpu/cuda/kernels/launch.hpp"

#include "gpu/cuda/kernels/pieces.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int block = 256;
constexpr int pieces_forward = 2;  ///< of y, a block apart

constexpr float log2_e = 1.4426950408889634f;

/// 1 / (1 + exp(-z)) and 1 minus that, neither of which loses digits.
struct logistic {
  float up, down;
};
__device__ __forceinline__ logistic sigmoid(float z) {
  const float exponent = -z * log2_e;
  const float e = exp2_fast(exponent < 126.0f ? exponent : 126.0f);  // finite: e * up is not NaN
  const float up = reciprocal_fast(1.0f + e);
  return {up, e * up};
}

/// An activation's value (the gate's silu for swiglu), and its derivative.
struct curve {
  float value, slope;
};

template <activation_kind kind>
__device__ __forceinline__ curve evaluate(float x) {
  if constexpr (kind == activation_kind::gelu_tanh) {
    // 0.5 (1 + tanh(u)) is the logistic function of 2u.
    constexpr float twice = 2 * 0.79788456080286535588f, cubic = 0.044715f;
    const logistic l = sigmoid(twice * x * (1.0f + cubic * x * x));
    return {x * l.up, l.up + x * l.up * l.down * (twice * (1.0f + 3 * cubic * x * x))};
  } else if constexpr (kind == activation_kind::gelu_erf) {
    const float phi = 0.5f + 0.5f * erff(x * 0.70710678118654752f);
    return {x * phi, phi + x * 0.39894228040143267794f * exp2_fast(-0.5f * log2_e * x * x)};
  } else {
    const logistic l = sigmoid(x);
    return {x * l.up, l.up * (1.0f + x * l.down)};
  }
}

/// Where the piece at `element` of y lies in x.
template <activation_kind kind, int vec>
__device__ __forceinline__ int64_t place_in_x(int64_t element, int width) {
  if constexpr (kind != activation_kind::swiglu) return element;
  const divided at = divide(element / vec, width / vec);
  return at.quotient * 2 * width + int64_t{at.remainder} * vec;
}

template <class T, int vec, activation_kind kind>
__global__ void activation_forward_kernel(const void* x, void* y, int64_t count, int width) {
  constexpr bool gated = kind == activation_kind::swiglu;
  piece<T, vec> in[pieces_forward], up[pieces_forward];
  const int64_t first = (int64_t{block_index()} * block * pieces_forward + thread_index()) * vec;
  for (int i = 0; i < pieces_forward; ++i) {
    const int64_t element = first + i * block * vec;
    if (element >= count) continue;
    const int64_t at = place_in_x<kind, vec>(element, width);
    in[i] = load<T, vec>(x, at);
    if constexpr (gated) up[i] = load<T, vec>(x, at + width);
  }
  for (int i = 0; i < pieces_forward; ++i) {
    const int64_t element = first + i * block * vec;
    if (element >= count) continue;
    float v[vec];
    expand(in[i], v);
    for (int k = 0; k < vec; ++k) v[k] = evaluate<kind>(v[k]).value;
    if constexpr (gated) {
      float u[vec];
      expand(up[i], u);
      for (int k = 0; k < vec; ++k) v[k] *= u[k];
    }
    store<T, vec>(y, element, v);
  }
}

template <class T, int vec, activation_kind kind>
__global__ void activation_backward_kernel(const void* x, const void* dy, void* dx, int64_t count,
                                           int width) {
  const int64_t element = (int64_t{block_index()} * block + thread_index()) * vec;
  if (element >= count) return;
  const int64_t at = place_in_x<kind, vec>(element, width);
  float gate[vec], g[vec];
  expand(load<T, vec>(x, at), gate);
  expand(load<T, vec>(dy, element), g);
  if constexpr (kind == activation_kind::swiglu) {
    float up[vec], d_up[vec];
    expand(load<T, vec>(x, at + width), up);
    for (int k = 0; k < vec; ++k) {
      const curve c = evaluate<kind>(gate[k]);
      d_up[k] = g[k] * c.value;
      g[k] *= c.slope * up[k];
    }
    store<T, vec>(dx, at + width, d_up);
  } else {
    for (int k = 0; k < vec; ++k) g[k] *= evaluate<kind>(gate[k]).slope;
  }
  store<T, vec>(dx, at, g);
}

template <class T, int vec, activation_kind kind>
cudaError_t forward(cudaStream_t s, const activation_forward_args& a) {
  const int64_t count = a.tokens * a.width;
  return launch(activation_forward_kernel<T, vec, kind>,
                {blocks_for(count, int64_t{block} * vec * pieces_forward)}, block, 0, s, a.x, a.y,
                count, static_cast<int>(a.width));
}

template <class T, int vec, activation_kind kind>
cudaError_t backward(cudaStream_t s, const activation_backward_args& a) {
  const int64_t count = a.tokens * a.width;
  return launch(activation_backward_kernel<T, vec, kind>, {blocks_for(count, int64_t{block} * vec)},
                block, 0, s, a.x, a.dy, a.dx, count, static_cast<int>(a.width));
}

template <class T, int vec, class Args>
cudaError_t run(cudaStream_t s, const Args& a) {
  const auto of_kind = [&]<activation_kind kind>() {
    if constexpr (std::is_same_v<Args, activation_forward_args>) {
      return forward<T, vec, kind>(s, a);
    } else {
      return backward<T, vec, kind>(s, a);
    }
  };
  switch (a.kind) {
    case activation_kind::gelu_tanh:
      return of_kind.template operator()<activation_kind::gelu_tanh>();
    case activation_kind::gelu_erf:
      return of_kind.template operator()<activation_kind::gelu_erf>();
    case activation_kind::swiglu:
      return of_kind.template operator()<activation_kind::swiglu>();
  }
  return cudaErrorInvalidValue;
}

template <class Args>
cudaError_t run(cudaStream_t s, const Args& a, bool by_pieces) {
  if (a.type == dtype::bf16) return by_pieces ? run<bf16, wide>(s, a) : run<bf16, 1>(s, a);
  return by_pieces ? run<float, wide>(s, a) : run<float, 1>(s, a);
}

}  // namespace

cudaError_t launch_activation_forward(cudaStream_t s, const activation_forward_args& a, void*) {
  return run(s, a, moves_wide(a.type, a.width, {a.x, a.y}));
}

cudaError_t launch_activation_backward(cudaStream_t s, const activation_backward_args& a, void*) {
  return run(s, a, moves_wide(a.type, a.width, {a.x, a.dy, a.dx}));
}

}  // namespace troupe::gpu::cuda
