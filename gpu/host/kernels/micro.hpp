// Small matrix products on float32 scratch memory: what attention is made of.
//
// C[m, n] (+)= A[m, k] B[k, n], where A has any strides (its elements are broadcast, so a
// transposed A costs nothing) and rows of B and C are whole vectors: n is a multiple of W.
#pragma once

#include "gpu/host/kernels/vec.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

/// A[i, p] = data[i * row + p * column].
struct strided {
  const float* data;
  int64_t row, column;
};

#if defined(__AVX512F__)
inline constexpr int tile_vectors = 4;  // 6 * 4 accumulators + 4 of B + 1 of A, of 32 registers
#else
inline constexpr int tile_vectors = 2;  // 6 * 2 + 2 + 1 of 16
#endif
inline constexpr int tile_rows = 6;

template <int M, int N>
TROUPE_INLINE void tile(int64_t depth, strided a, const float* b, int64_t ldb, float* c,
                        int64_t ldc, bool accumulate) {
  vf acc[M][N];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) acc[i][j] = accumulate ? load(c + i * ldc + j * W) : vf{};
  }
  for (int64_t p = 0; p < depth; ++p) {
    vf row[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) row[j] = load(b + p * ldb + j * W);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const vf x = splat(a.data[i * a.row + p * a.column]);
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) acc[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) store(c + i * ldc + j * W, acc[i][j]);
  }
}

/// What is needed of a tile's rows: its columns [0, columns), of the depth [first, last).
struct part {
  int64_t columns, first, last;
};

template <int M>
TROUPE_INLINE void tile_row(int64_t vectors, int64_t first, int64_t last, strided a, const float* b,
                            int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  a.data += first * a.column;
  b += first * ldb;
  const int64_t depth = last - first;
  if (vectors >= tile_vectors) {
    return tile<M, tile_vectors>(depth, a, b, ldb, c, ldc, accumulate);
  }
#if defined(__AVX512F__)
  if (vectors == 3) return tile<M, 3>(depth, a, b, ldb, c, ldc, accumulate);
  if (vectors == 2) return tile<M, 2>(depth, a, b, ldb, c, ldc, accumulate);
#endif
  tile<M, 1>(depth, a, b, ldb, c, ldc, accumulate);
}

/// The product described at the head of this file; accumulate: add to C, else overwrite it.
/// needed(i, end) says which part of rows [i, end), the rows of one tile, is wanted; the rest of C
/// may keep what it held.
template <class F>
TROUPE_INLINE void multiply_part(int64_t rows, int64_t columns, strided a, const float* b,
                                 int64_t ldb, float* c, int64_t ldc, bool accumulate, F&& needed) {
  for (int64_t j = 0; j < columns; j += tile_vectors * W) {
    for (int64_t i = 0; i < rows; i += tile_rows) {
      const int64_t end = i + tile_rows < rows ? i + tile_rows : rows;
      const part p = needed(i, end);
      const int64_t vectors = ((p.columns < columns ? p.columns : columns) - j + W - 1) / W;
      if (vectors <= 0) continue;
      int64_t row = i;
      const auto rows_of = [&](auto m) {
        tile_row<decltype(m)::value>(vectors, p.first, p.last,
                                     {a.data + row * a.row, a.row, a.column}, b + j, ldb,
                                     c + row * ldc + j, ldc, accumulate);
        row += decltype(m)::value;
      };
      if (row + tile_rows == end) rows_of(count_of<tile_rows>{});
      if (row + 4 <= end) rows_of(count_of<4>{});
      if (row + 2 <= end) rows_of(count_of<2>{});
      if (row < end) rows_of(count_of<1>{});
    }
  }
}

}  // namespace
}  // namespace troupe::gpu::host::TROUPE_VARIANT
