// What the kernels on tensor cores know of their rows: what they see, softmax forward, what
// backward needs of it, and the walk over queries. A lane's rows are 16 m + 8 half + lane / 4 of
// its warp's, four lanes to a row (multiply_bf16 in simt_device.hpp).
#pragma once

#include "gpu/cuda/kernels/attention_shape.hpp"
#include "gpu/cuda/simt.hpp"

namespace troupe::gpu::cuda {

/// The sum over the four lanes that share a row, in each of them.
__device__ __forceinline__ float quad_sum(float v) {
  v += shuffle_xor(v, 1);
  return v + shuffle_xor(v, 2);
}

// -- what rows see --------------------------------------------------------------------------------

/// What the queries of a tile see of its keys.
enum class sight : uint8_t { nothing, some, all };

/// A mask as rows have it, queries or keys, while the other side streams by. `tile_row` and
/// `tile_rows`: the rows that sight_of() is asked of; `warp_row`: the first of the warp's.
template <class Mask, bool RowsAreQueries, int M>
struct mask_rows;

template <bool RowsAreQueries, int M>
struct mask_rows<window_mask, RowsAreQueries, M> {
  int window;

  __device__ __forceinline__ mask_rows(const window_mask& mask, int, int, int)
      : window(mask.window) {}

  __device__ __forceinline__ bool sees(int, int, int query, int key) const {
    return key <= query && query - key < window;
  }
  __device__ __forceinline__ sight sight_of(int first_query, int queries, int first_key,
                                            int keys) const {
    const int last_query = first_query + queries - 1, last_key = first_key + keys - 1;
    if (first_key > last_query || first_query - last_key >= window) return sight::nothing;
    return last_key <= first_query && last_query - first_key < window ? sight::all : sight::some;
  }
};

/// Of documents the walk needs two numbers of the tile and one for each row of the lane. They are
/// read before it begins: addresses would take more registers than the numbers.
template <bool RowsAreQueries, int M>
struct mask_rows<document_mask, RowsAreQueries, M> {
  int first_limit, last_limit;  ///< of the tile's first row and of its last
  int limit[M][2];              ///< the first key that a query sees; one behind a key's last query

  __device__ __forceinline__ mask_rows(const document_mask& mask, int tile_row, int tile_rows,
                                       int warp_row)
      : first_limit(limit_of(mask, tile_row)),
        last_limit(limit_of(mask, tile_row + tile_rows - 1)) {
    SIMT_UNROLL
    for (int i = 0; i < 2 * M; ++i)
      limit[i / 2][i % 2] = limit_of(mask, warp_row + 8 * i + lane() / 4);
  }

  __device__ __forceinline__ bool sees(int m, int half, int query, int key) const {
    return key <= query && (RowsAreQueries ? key >= limit[m][half] : query < limit[m][half]);
  }
  __device__ __forceinline__ sight sight_of(int first_query, int queries, int first_key,
                                            int keys) const {
    const int last_query = first_query + queries - 1, last_key = first_key + keys - 1;
    const bool apart = RowsAreQueries ? last_key < first_limit : first_query >= last_limit;
    if (first_key > last_query || apart) return sight::nothing;
    const bool together = RowsAreQueries ? first_key >= last_limit : last_query < first_limit;
    return last_key <= first_query && together ? sight::all : sight::some;
  }

 private:
  static __device__ __forceinline__ int limit_of(const document_mask& mask, int row) {
    return RowsAreQueries ? mask.first_key(row) : mask.end_query(row);
  }
};

/// Minus infinity for the pairs that do not see each other. A lane's element i of tile n is that of
/// row 16 m + lane / 4 + 8 (i / 2) and column 8 n + 2 (lane % 4) + i % 2; rows are queries and
/// columns keys, or the other way round.
template <class Mask, bool RowsAreQueries, int M, int N>
__device__ __forceinline__ void hide_unseen(const mask_rows<Mask, RowsAreQueries, M>& mask,
                                            float (&scores)[M][N][4], int first_query,
                                            int first_key) {
  SIMT_UNROLL
  for (int m = 0; m < M; ++m) {
    SIMT_UNROLL
    for (int i = 0; i < N * 4; ++i) {
      const int row = 16 * m + lane() / 4 + i % 4 / 2 * 8;
      const int column = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      if (!mask.sees(m, i % 4 / 2, first_query + (RowsAreQueries ? row : column),
                     first_key + (RowsAreQueries ? column : row)))
        scores[m][i / 4][i % 4] = -INFINITY;
    }
  }
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
