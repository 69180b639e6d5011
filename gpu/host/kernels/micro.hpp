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
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) acc[i][j] = accumulate ? load(c + i * ldc + j * W) : vf{};
  }
  for (int64_t p = 0; p < depth; ++p) {
    vf row[N];
    for (int j = 0; j < N; ++j) row[j] = load(b + p * ldb + j * W);
    for (int i = 0; i < M; ++i) {
      const vf x = splat(a.data[i * a.row + p * a.column]);
      for (int j = 0; j < N; ++j) acc[i][j] += x * row[j];
    }
  }
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) store(c + i * ldc + j * W, acc[i][j]);
  }
}

template <int N>
void panel(int64_t rows, int64_t depth, strided a, const float* b, int64_t ldb, float* c,
           int64_t ldc, bool accumulate) {
  int64_t i = 0;
  for (; i + tile_rows <= rows; i += tile_rows) {
    tile<tile_rows, N>(depth, {a.data + i * a.row, a.row, a.column}, b, ldb, c + i * ldc, ldc,
                       accumulate);
  }
  for (; i < rows; ++i) {
    tile<1, N>(depth, {a.data + i * a.row, a.row, a.column}, b, ldb, c + i * ldc, ldc, accumulate);
  }
}

/// The product described at the head of this file; accumulate: add to C, else overwrite it.
inline void multiply(int64_t rows, int64_t columns, int64_t depth, strided a, const float* b,
                     int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  int64_t j = 0;
  for (; j + tile_vectors * W <= columns; j += tile_vectors * W) {
    panel<tile_vectors>(rows, depth, a, b + j, ldb, c + j, ldc, accumulate);
  }
#if defined(__AVX512F__)
  for (; j + 2 * W <= columns; j += 2 * W)
    panel<2>(rows, depth, a, b + j, ldb, c + j, ldc, accumulate);
#endif
  for (; j < columns; j += W) panel<1>(rows, depth, a, b + j, ldb, c + j, ldc, accumulate);
}

}  // namespace
}  // namespace troupe::gpu::host::TROUPE_VARIANT
