// RMS norms of query and key heads, in place in packed rows; forward and backward.
//
// A head belongs to a warp, which reads it once and keeps it in registers. Backward, a block walks
// over many heads and keeps both weights' gradients in registers; its warps' shares are added in
// their order, and the blocks' shares by a second kernel in the order of the blocks, whose number
// depends on the shape alone: the same bits every time (OPS-2).
//
// Floor, with s = size_of(type), N tokens, A = (H + K) D values of a token that are normed:
//   forward   bytes 3 N A s + 4 N (H + K); FLOPs about 5 N A
//   backward  bytes 3 N A s + 4 N (H + K); FLOPs about 9 N A
#include "gpu/cuda/kernels/launch.hpp"

#include <algorithm>

#include "gpu/cuda/kernels/columns.hpp"
#include "gpu/cuda/kernels/pieces.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int head_warps = 8;
constexpr int head_block = 32 * head_warps;

/// A normed head: whether it is a query's, and where it begins in packed rows.
struct head_place {
  bool query;
  int64_t at;
};
template <class Args>
__device__ __forceinline__ head_place place_of_head(const Args& a, int64_t number) {
  const auto normed = static_cast<int>(a.heads + a.kv_heads);
  const divided by_token = divide(number, normed);
  const int64_t row = by_token.quotient * (normed + a.kv_heads);
  return {by_token.remainder < a.heads, (row + by_token.remainder) * a.head_width};
}

template <class Args>
int64_t count_of_heads(const Args& a) {
  return a.batch * a.seq * (a.heads + a.kv_heads);
}

template <class T, int pieces>
__global__ void head_norm_forward_kernel(head_norm_forward_args a, int64_t count) {
  const int64_t number = int64_t{block_index()} * head_warps + warp_index();
  if (number >= count) return;  // a whole warp
  const head_place head = place_of_head(a, number);
  const int width = static_cast<int>(a.head_width);
  float x[pieces], squares = 0;
  SIMT_UNROLL
  for (int i = 0; i < pieces; ++i) {
    const int d = 32 * i + lane();
    if (d >= width) continue;
    const piece<T, 1> got = load<T, 1>(a.qkv, head.at + d);
    store<T, 1>(a.before, number * width + d, got);
    x[i] = to_float(got.v[0]);
    squares += x[i] * x[i];
  }
  const float rstd = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(width) + a.eps);
  if (lane() == 0) a.rstd[number] = rstd;
  const void* weight = head.query ? a.q_weight : a.k_weight;
  SIMT_UNROLL
  for (int i = 0; i < pieces; ++i) {
    const int d = 32 * i + lane();
    if (d >= width) continue;
    const float y[1] = {x[i] * rstd * to_float(load<T, 1>(weight, d).v[0])};
    store<T, 1>(a.qkv, head.at + d, y);
  }
}

/// Adds what the block's warps have of one weight's gradient, in their order.
template <int pieces>
__device__ __forceinline__ void write_head_share(const float (&sums)[pieces], int width,
                                                 float* shared, float* out) {
  SIMT_UNROLL
  for (int i = 0; i < pieces; ++i) {
    const int d = 32 * i + lane();
    if (d < width) shared[warp_index() * width + d] = sums[i];
  }
  sync_block();
  for (int d = thread_index(); d < width; d += head_block) {
    float total = 0;
    for (int w = 0; w < head_warps; ++w) total += shared[w * width + d];
    out[d] = total;
  }
  sync_block();
}

template <class T, int pieces>
__global__ void head_norm_backward_kernel(head_norm_backward_args a, int64_t count,
                                          float* partial) {
  const int width = static_cast<int>(a.head_width);
  const float per_width = 1.0f / static_cast<float>(width);
  float dq[pieces] = {}, dk[pieces] = {};
  const int64_t stride = int64_t{grid_blocks()} * head_warps;
  for (int64_t number = int64_t{block_index()} * head_warps + warp_index(); number < count;
       number += stride) {
    const head_place head = place_of_head(a, number);
    const void* weight = head.query ? a.q_weight : a.k_weight;
    const float rstd = a.rstd[number];
    float normed[pieces], g[pieces], sum_gh = 0;
    SIMT_UNROLL
    for (int i = 0; i < pieces; ++i) {
      const int d = 32 * i + lane();
      if (d >= width) continue;
      normed[i] = to_float(load<T, 1>(a.before, number * width + d).v[0]) * rstd;
      const float dy = to_float(load<T, 1>(a.dqkv, head.at + d).v[0]);
      g[i] = dy * to_float(load<T, 1>(weight, d).v[0]);
      sum_gh += g[i] * normed[i];
      dq[i] += head.query ? dy * normed[i] : 0.0f;
      dk[i] += head.query ? 0.0f : dy * normed[i];
    }
    const float mean_gh = warp_sum(sum_gh) * per_width;
    SIMT_UNROLL
    for (int i = 0; i < pieces; ++i) {
      const int d = 32 * i + lane();
      if (d >= width) continue;
      const float dx[1] = {rstd * (g[i] - normed[i] * mean_gh)};
      store<T, 1>(a.dqkv, head.at + d, dx);
    }
  }
  float* shared = shared_memory<float>();  // [head_warps][D]
  float* out = partial + int64_t{block_index()} * width;
  write_head_share(dq, width, shared, out);
  write_head_share(dk, width, shared, out + int64_t{grid_blocks()} * width);
}

int64_t head_blocks(const head_norm_backward_args& a) {
  return std::min<int64_t>(int64_t{multiprocessors} * 4,
                           blocks_for(count_of_heads(a), head_warps));
}

template <class T, int pieces>
cudaError_t run_heads(cudaStream_t s, const head_norm_forward_args& a, float*) {
  const int64_t count = count_of_heads(a);
  return launch(head_norm_forward_kernel<T, pieces>, {blocks_for(count, head_warps)}, head_block, 0,
                s, a, count);
}

template <class T, int pieces>
cudaError_t run_heads(cudaStream_t s, const head_norm_backward_args& a, float* partial) {
  return launch(head_norm_backward_kernel<T, pieces>, {static_cast<unsigned>(head_blocks(a))},
                head_block, sizeof(float) * static_cast<size_t>(head_warps * a.head_width), s, a,
                count_of_heads(a), partial);
}

template <class T, class Args>
cudaError_t by_head_width(cudaStream_t s, const Args& a, float* partial) {
  if (a.head_width <= 32) return run_heads<T, 1>(s, a, partial);
  if (a.head_width <= 64) return run_heads<T, 2>(s, a, partial);
  if (a.head_width <= 128) return run_heads<T, 4>(s, a, partial);
  if (a.head_width <= 512) return run_heads<T, 16>(s, a, partial);
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_head_norm_forward(cudaStream_t s, const head_norm_forward_args& a, void*) {
  return a.type == dtype::bf16 ? by_head_width<bf16>(s, a, nullptr)
                               : by_head_width<float>(s, a, nullptr);
}

size_t scratch_bytes(const head_norm_backward_args& a) {
  return sizeof(float) * static_cast<size_t>(2 * head_blocks(a) * a.head_width);
}

cudaError_t launch_head_norm_backward(cudaStream_t s, const head_norm_backward_args& a,
                                      void* scratch) {
  auto* partial = static_cast<float*>(scratch);
  const cudaError_t done = a.type == dtype::bf16 ? by_head_width<bf16>(s, a, partial)
                                                 : by_head_width<float>(s, a, partial);
  if (done != cudaSuccess) return done;
  return launch_add_partial_sums(s, partial, head_blocks(a), a.head_width, a.dq_weight,
                                 a.dk_weight);
}

}  // namespace troupe::gpu::cuda
