// Matrix products of bfloat16 on AMX tiles, for processors that have them.
//
// 32 x 32 of C stay in four tiles while the depth goes by, two tiles of A and two of B at a time.
// B is always packed; A is read in place where it lies row by row in whole tiles. The tiles
// multiply so fast that packing is what costs: the block of A is packed once for all columns, the
// block of B for as many rows as fit.
#include "gpu/host/kernels/gemm_outcome.hpp"
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/tiles.hpp"

#if defined(__AMX_BF16__)

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

constexpr int64_t depth_block = 384;  // a panel of B and a strip of A in the first level cache
constexpr int64_t column_block = 512;
constexpr int64_t row_block = 1024;

/// Packs B[p0.., j0..]: panel[j / 32][p / 32] of two tiles each.
void pack_tiles_b(const gemm_args& g, int64_t p0, int64_t depth, int64_t j0, int64_t columns,
                  bf16_bits* to) {
  const auto* b = static_cast<const bf16_bits*>(g.b);
  for (int64_t j = 0; j < columns; j += edge) {
    const int64_t n = smaller(edge, columns - j);
    for (int64_t p = 0; p < depth; p += tile_depth, to += 2 * tile_values) {
      const int64_t k = smaller(tile_depth, depth - p);
      if (g.transposed_b) {
        const bf16_bits* from = b + (j0 + j) * g.ldb + p0 + p;
        pack_transposed(from, g.ldb, k, n, to);
        pack_transposed(from + tile_edge * g.ldb, g.ldb, k, n - tile_edge, to + tile_values);
      } else {
        pack_interleaved(b + (p0 + p) * g.ldb + j0 + j, g.ldb, k, n, to);
      }
    }
  }
}

/// The block A[i0.., p0..] as tiles, in place or packed.
tiled_a pack_tiles_a(const gemm_args& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth,
                     bf16_bits* to) {
  const auto* a = static_cast<const bf16_bits*>(g.a);
  if (!g.transposed_a && depth % tile_depth == 0 && rows % edge == 0) {
    return {a + i0 * g.lda + p0, tile_edge * g.lda, tile_depth, g.lda * 2};
  }
  const int64_t row = round_up(depth, tile_depth) * tile_edge;
  for (int64_t i = 0; i < rows; i += edge) {
    const int64_t m = smaller(edge, rows - i);
    bf16_bits* strip = to + i / tile_edge * row;
    for (int64_t p = 0; p < depth; p += tile_depth, strip += tile_values) {
      const int64_t k = smaller(tile_depth, depth - p);
      if (g.transposed_a) {
        pack_rows_transposed(a + (p0 + p) * g.lda + i0 + i, g.lda, k, m, strip, row);
      } else {
        const bf16_bits* from = a + (i0 + i) * g.lda + p0 + p;
        pack_rows(from, g.lda, k, m, strip);
        pack_rows(from + tile_edge * g.lda, g.lda, k, m - tile_edge, strip + row);
      }
    }
  }
  return {to, row, tile_values, 64};
}

/// Rows and columns [i0, i0 + m) x [j0, j0 + n) of C, at most 32 x 32.
void product_square(const tiled_a& a, const bf16_bits* b, int64_t depth, const outcome& out,
                    int64_t i0, int64_t m, int64_t j0, int64_t n) {
  float* sums = out.partial + i0 * out.partial_ld + j0;
  const bool whole = m == edge && n == edge;
  const float* base = whole && (out.simple || !out.first) ? out.base(i0, j0) : nullptr;
  if (base != nullptr) {
    load_sums(base, out.partial_ld);
  } else {
    zero_sums();
  }
  multiply_tiles(a, b, depth);
  if (whole && out.simple) return store_sums(sums, out.partial_ld);
  alignas(64) float square[edge * edge];
  store_sums(square, edge);
  outcome rest = out;
  if (base != nullptr) rest.add_partial = false;
  for (int64_t i = 0; i < m; ++i) {
    rest.put(i0 + i, j0, load(square + i * edge), static_cast<int>(smaller(W, n)));
    if (n <= W) continue;
    rest.put(i0 + i, j0 + W, load(square + i * edge + W), static_cast<int>(n - W));
  }
}

}  // namespace

size_t tile_gemm_memory(const gemm_args& g) {
  const int64_t packed = (column_block + row_block) * depth_block;
  const bool partial = g.out_type == dtype::bf16 && g.k > depth_block;
  const int64_t sums = partial ? round_up(g.m, edge) * round_up(g.n, edge) : 0;
  return static_cast<size_t>(packed) * sizeof(bf16_bits) +
         static_cast<size_t>(sums) * sizeof(float);
}

void tile_gemm(const gemm_args& g, void* scratch) {
  auto* packed_b = static_cast<bf16_bits*>(scratch);
  bf16_bits* packed_a = packed_b + column_block * depth_block;
  auto* sums = reinterpret_cast<float*>(packed_a + row_block * depth_block);
  const tile_lease lease;
  for (int64_t p0 = 0; p0 < g.k; p0 += depth_block) {
    const int64_t depth = smaller(depth_block, g.k - p0);
    const outcome out(g, p0, depth, sums, round_up(g.n, edge));
    for (int64_t i0 = 0; i0 < g.m; i0 += row_block) {
      const int64_t rows = smaller(row_block, g.m - i0);
      const tiled_a a = pack_tiles_a(g, i0, rows, p0, depth, packed_a);
      for (int64_t j0 = 0; j0 < g.n; j0 += column_block) {
        const int64_t columns = smaller(column_block, g.n - j0);
        pack_tiles_b(g, p0, depth, j0, columns, packed_b);
        const int64_t panel = 2 * tile_values * (round_up(depth, tile_depth) / tile_depth);
        for (int64_t j = 0; j < columns; j += edge) {
          for (int64_t i = 0; i < rows; i += edge) {
            const tiled_a strip{a.data + i / tile_edge * a.row, a.row, a.step, a.stride};
            product_square(strip, packed_b + j / edge * panel, depth, out, i0 + i,
                           smaller(edge, rows - i), j0 + j, smaller(edge, columns - j));
          }
        }
      }
    }
  }
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT

#endif
