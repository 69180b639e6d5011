// Matrix products by float32 multiply-add: C = A B, in the blocks of Goto & van de Geijn (2008).
//
// Why not oneDNN alone: on the shapes of a training step its products with transposed or unpacked
// operands reach 30 to 90 % of what this reaches (apps/bench/ops.cpp measures both), it has no
// bfloat16 below AVX-512, and it cannot write bias, residual and accumulation into both kinds of
// output.
//
// A block of B (depth_block x column_block) is packed to panels of tile columns and stays in the
// second level cache; a block of A (row_block x depth_block) streams past it; one tile of C lives
// in registers. bfloat16 operands are widened while they are packed.
#include "gpu/host/kernels/gemm_outcome.hpp"
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/micro.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

#if defined(__AVX512F__)
constexpr int product_rows_max = 14;  // 14 * 2 accumulators + 2 of B + 1 of A, of 32 registers
#else
constexpr int product_rows_max = 6;  // 6 * 2 + 2 + 1, of 16
#endif
constexpr int64_t tile_columns = 2 * W;
// A panel of B, depth_block * tile_columns, fits the first level cache.
constexpr int64_t depth_block = 256;
constexpr int64_t row_block = 8 * product_rows_max;
constexpr int64_t column_block = 1024;

/// Panel-wise copy of B[k0.., j0..] (depth x columns): panel[j / tile_columns][p][j %
/// tile_columns]. Columns beyond the last are zero.
template <class T>
void pack_b(const T* b, int64_t ld, bool transposed, int64_t depth, int64_t columns, float* to) {
  for (int64_t j0 = 0; j0 < columns; j0 += tile_columns, to += depth * tile_columns) {
    const int64_t in_panel = smaller(tile_columns, columns - j0);
    for (int64_t j = 0; j < tile_columns; j += W) {
      const int n = static_cast<int>(in_panel - j < 0 ? 0 : smaller(W, in_panel - j));
      if (!transposed) {
        for (int64_t p = 0; p < depth; ++p) {
          store(to + p * tile_columns + j, load_some(b + p * ld + j0 + j, n));
        }
        continue;
      }
      for (int64_t p = 0; p < depth; p += W) {
        const int k = static_cast<int>(smaller(W, depth - p));
        vf square[W];
        for (int i = 0; i < W; ++i) {
          square[i] = i < n ? load_some(b + (j0 + j + i) * ld + p, k) : vf{};
        }
        transpose_square(square);
        for (int i = 0; i < k; ++i) store(to + (p + i) * tile_columns + j, square[i]);
      }
    }
  }
}

/// A's block as broadcastable elements: in place where it can be, else packed into `to`.
template <class T>
strided pack_a(const T* a, int64_t ld, bool transposed, int64_t rows, int64_t depth, float* to) {
  if (!transposed) {
    if constexpr (sizeof(T) == sizeof(float)) return {a, ld, 1};
    for (int64_t i = 0; i < rows; ++i) {
      for_vectors(depth, [&](int64_t p, int n) {
        store_some(to + i * depth_block + p, load_some(a + i * ld + p, n), n);
      });
    }
    return {to, depth_block, 1};
  }
  for (int64_t p = 0; p < depth; ++p) {
    for_vectors(rows, [&](int64_t i, int n) {
      store_some(to + p * row_block + i, load_some(a + p * ld + i, n), n);
    });
  }
  return {to, 1, row_block};
}

/// One tile: M rows by N vectors, the last of which has `last_lanes` columns.
template <int M, int N>
void product_tile(int64_t depth, strided a, const float* b, const outcome& out, int64_t i0,
                  int64_t j0, int last_lanes) {
  vf acc[M][N] = {};
  for (int64_t p = 0; p < depth; ++p) {
    vf row[N];
    for (int j = 0; j < N; ++j) row[j] = load(b + p * tile_columns + j * W);
    for (int i = 0; i < M; ++i) {
      const vf x = splat(a.data[i * a.row + p * a.column]);
      for (int j = 0; j < N; ++j) acc[i][j] += x * row[j];
    }
  }
  if (out.sums_only && last_lanes == W) {  // the common case, without a question per vector
    float* c = out.partial + i0 * out.partial_ld + j0;
    const bool add = out.adds_to_partial;
    for (int i = 0; i < M; ++i, c += out.partial_ld) {
      for (int j = 0; j < N; ++j) store(c + j * W, add ? load(c + j * W) + acc[i][j] : acc[i][j]);
    }
    return;
  }
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) out.put(i0 + i, j0 + j * W, acc[i][j], j + 1 < N ? W : last_lanes);
  }
}

template <int M>
void product_strip(int64_t columns, int64_t depth, strided a, const float* b, const outcome& out,
                   int64_t i0, int64_t j0) {
  if (columns > W) {
    product_tile<M, 2>(depth, a, b, out, i0, j0, static_cast<int>(columns - W));
  } else {
    product_tile<M, 1>(depth, a, b, out, i0, j0, static_cast<int>(columns));
  }
}

/// A packed block of B against a block of A.
void product_block(int64_t rows, int64_t columns, int64_t depth, strided a, const float* b,
                   const outcome& out, int64_t i0, int64_t j0) {
  for (int64_t j = 0; j < columns; j += tile_columns) {
    const float* panel = b + j * depth;
    const int64_t n = smaller(tile_columns, columns - j);
    for (int64_t i = 0; i < rows;) {
      const strided from{a.data + i * a.row, a.row, a.column};
      const int64_t left = rows - i;
      if (left >= product_rows_max) {
        product_strip<product_rows_max>(n, depth, from, panel, out, i0 + i, j0 + j);
        i += product_rows_max;
      } else if (left >= 4) {
        product_strip<4>(n, depth, from, panel, out, i0 + i, j0 + j);
        i += 4;
      } else {
        product_strip<1>(n, depth, from, panel, out, i0 + i, j0 + j);
        ++i;
      }
    }
  }
}

template <class T>
void product(const gemm_args& g, float* scratch) {
  const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
  float* packed_b = scratch;
  float* packed_a = packed_b + depth_block * column_block;
  float* sums = packed_a + depth_block * row_block;
  for (int64_t j0 = 0; j0 < g.n; j0 += column_block) {
    const int64_t columns = smaller(column_block, g.n - j0);
    for (int64_t p0 = 0; p0 < g.k; p0 += depth_block) {
      const int64_t depth = smaller(depth_block, g.k - p0);
      pack_b(b + (g.transposed_b ? j0 * g.ldb + p0 : p0 * g.ldb + j0), g.ldb, g.transposed_b, depth,
             columns, packed_b);
      const outcome out(g, p0, depth, sums - j0, column_block);
      for (int64_t i0 = 0; i0 < g.m; i0 += row_block) {
        const int64_t rows = smaller(row_block, g.m - i0);
        const strided block = pack_a(a + (g.transposed_a ? p0 * g.lda + i0 : i0 * g.lda + p0),
                                     g.lda, g.transposed_a, rows, depth, packed_a);
        product_block(rows, columns, depth, block, packed_b, out, i0, j0);
      }
    }
  }
}

}  // namespace

size_t gemm_memory(const gemm_args& g) {
#if defined(__AMX_BF16__)
  if (g.type == dtype::bf16) return tile_gemm_memory(g);
#endif
  const int64_t partial = g.out_type == dtype::bf16 && g.k > depth_block ? g.m * column_block : 0;
  return static_cast<size_t>(depth_block * (column_block + row_block) + partial) * sizeof(float);
}

void gemm(const gemm_args& whole, void* scratch) {
  gemm_args g = whole;
  if (g.residual == g.c && g.residual != nullptr) {  // in place: adding to C is the same thing
    g.residual = nullptr;
    g.accumulate = true;
  }
#if defined(__AMX_BF16__)
  if (g.type == dtype::bf16) return tile_gemm(g, scratch);
#endif
  if (g.type == dtype::bf16) return product<bf16_bits>(g, static_cast<float*>(scratch));
  product<float>(g, static_cast<float*>(scratch));
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
