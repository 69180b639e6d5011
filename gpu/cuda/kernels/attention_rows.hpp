// What the kernels on tensor cores know of their rows: softmax forward, what backward needs of it,
// and the walk over queries. A lane's rows are 16 m + 8 half + lane / 4 of its warp's, four lanes
// to a row (multiply_bf16 in simt_device.hpp).
#pragma once

#include "gpu/cuda/kernels/attention_shape.hpp"
#include "gpu/cuda/simt.hpp"

namespace troupe::gpu::cuda {

/// The sum over the four lanes that share a row, in each of them.
__device__ __forceinline__ float quad_sum(float v) {
  v += shuffle_xor(v, 1);
  return v + shuffle_xor(v, 2);
}

// -- forward --------------------------------------------------------------------------------------

/// Running maximum and sum of a lane's rows; the sum is the lane's share of its row's.
template <int M>
struct softmax_state {
  float top[M][2], sum[M][2];
};

/// Turns scores into weights relative to each row's new maximum, and rescales what was summed
/// relative to the old one. `scale`: of the scores, with log2(e) in it.
template <int D, int M, int N>
__device__ __forceinline__ void soften(float (&scores)[M][N / 8][4], float (&output)[M][D / 8][4],
                                       softmax_state<M>& state, float scale) {
  SIMT_UNROLL
  for (int m = 0; m < M; ++m) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      float top = state.top[m][half];
      SIMT_UNROLL
      for (int i = 0; i < N / 4; ++i) top = fmaxf(top, scores[m][i / 2][2 * half + i % 2]);
      top = fmaxf(top, shuffle_xor(top, 1));
      top = fmaxf(top, shuffle_xor(top, 2));
      const float base = top == -INFINITY ? 0 : top * scale;  // a row that has seen no key yet
      const float fade = exp2_fast(state.top[m][half] * scale - base);
      float sum = state.sum[m][half] * fade;
      SIMT_UNROLL
      for (int i = 0; i < N / 4; ++i) {
        float& score = scores[m][i / 2][2 * half + i % 2];
        score = exp2_fast(score * scale - base);
        sum += score;
      }
      SIMT_UNROLL
      for (int i = 0; i < D / 4; ++i) output[m][i / 2][2 * half + i % 2] *= fade;
      state.top[m][half] = top;
      state.sum[m][half] = sum;
    }
  }
}

// -- backward -------------------------------------------------------------------------------------

struct backward_tensors {
  const bf16* qkv;
  const bf16* out;
  const float* lse;
  const bf16* dout;
  bf16* dqkv;
  float* delta;
  row_documents documents;
};

inline backward_tensors tensors_of(const attention_backward_args& args, float* delta) {
  return {static_cast<const bf16*>(args.qkv),
          static_cast<const bf16*>(args.out),
          args.lse,
          static_cast<const bf16*>(args.dout),
          static_cast<bf16*>(args.dqkv),
          delta,
          args.documents};
}

/// P from scores: exponentials relative to each row's or column's lse (with log2(e) in it).
__device__ __forceinline__ float weight_of(float score, float scale, float lse) {
  return exp2_fast(score * scale - lse);
}

/// lse (times log2(e)) and delta of a lane's rows; rows behind the last query have weight 0.
template <int M>
struct row_statistics {
  float lse[M][2], delta[M][2];
};

/// The four lanes that share a row read it together and add up dO * O. `out`, `dout`: of the warp's
/// first row.
template <int D, int M>
__device__ __forceinline__ row_statistics<M> read_statistics(const attention_shape& a,
                                                             const bf16* out, const bf16* dout,
                                                             const float* lse, int there) {
  row_statistics<M> s;
  SIMT_UNROLL
  for (int i = 0; i < 2 * M; ++i) {
    const int row = 8 * i + lane() / 4;
    float sum = 0;
    SIMT_UNROLL
    for (int piece = 0; piece < D / 8; piece += 4) {
      const int column = (piece + lane() % 4) * 8;
      if (row >= there || column >= a.width) continue;
      const int64_t at = row * a.out_stride() + column;
      const auto x = *reinterpret_cast<const pack<bf16, 8>*>(out + at);
      const auto y = *reinterpret_cast<const pack<bf16, 8>*>(dout + at);
      SIMT_UNROLL
      for (int j = 0; j < 8; ++j) sum += to_float(x.v[j]) * to_float(y.v[j]);
    }
    s.delta[i / 2][i % 2] = quad_sum(sum);
    s.lse[i / 2][i % 2] = row < there ? lse[row] * log2_of_e : INFINITY;
  }
  return s;
}

/// lse (times log2(e)) and delta of one query; behind the last query, where weights are 0,
/// infinity.
using query_statistics = pack<float, 2>;

/// Where a block of keys is on its way over the queries of one head, and then of the next.
struct query_walk {
  const bf16* query;   ///< this thread's first element to copy
  const bf16* dout;    ///< the same
  int64_t statistics;  ///< of the tile's first query, in lse and delta
  int first;           ///< the tile's first query

  __device__ __forceinline__ query_walk(const attention_shape& a, const backward_tensors& t, int b,
                                        int h, int begin, int64_t query_lane, int64_t dout_lane)
      : query(t.qkv + a.qkv_row(b, begin) + a.query_at(h) + query_lane),
        dout(t.dout + a.out_row(b, begin) + a.query_at(h) + dout_lane),
        statistics((int64_t{b} * a.heads + h) * a.seq + begin),
        first(begin) {}

  __device__ __forceinline__ void advance(const attention_shape& a, int begin, int end, int by) {
    int next = first + by;
    int64_t columns = 0;
    if (next >= end) {
      next = begin;
      columns = a.width;
      statistics += a.seq;
    }
    query += (next - first) * a.qkv_stride() + columns;
    dout += (next - first) * a.out_stride() + columns;
    statistics += next - first;
    first = next;
  }
};

}  // namespace troupe::gpu::cuda
