// Matrix products of bfloat16 on AMX tiles, for processors that have them.
//
// 32 x 32 of C stay in four tiles while the depth goes by, two tiles of A and two of B at a time.
// The tiles multiply so fast that moving data is what costs. A block of B is packed once, at its
// whole depth, and stays in the second level cache; strips of 32 rows of A go past it, each packed
// into the first level cache, or read in place where it lies row by row in whole tiles; C is
// touched once. Meanwhile the lines of C that come next, and of A, are fetched.
#include "gpu/host/kernels/forerunner.hpp"
#include "gpu/host/kernels/gemm_outcome.hpp"
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/tiles.hpp"

#if defined(__AMX_BF16__)

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

constexpr int64_t strip_depth = 512;      // of a strip of A in the first level cache
constexpr int64_t most_depth = 2048;      // of a block of B
constexpr int64_t block_bytes = 1 << 20;  // of a block of B
constexpr int64_t group_strips = 8;       // of a transposed A, packed side by side

/// The depth cut into equal blocks, whole tiles, of at most most_depth.
int64_t depth_of_blocks(int64_t depth) {
  const int64_t blocks = (depth + most_depth - 1) / most_depth;
  return round_up((depth + blocks - 1) / blocks, tile_depth);
}

/// Columns of a block of B `depth` deep, for a product of n columns.
int64_t columns_of_block(int64_t depth, int64_t n) {
  const int64_t fit = larger(edge, block_bytes / 2 / round_up(depth, tile_depth) / edge * edge);
  const int64_t blocks = (n + fit - 1) / fit;
  return round_up((n + blocks - 1) / blocks, edge);
}

/// Packs B[p0.., j0..]: panel[j / 32][p / 32] of two tiles each. Whole rows in memory are read one
/// after the other.
void pack_tiles_b(const gemm_args& g, int64_t p0, int64_t depth, int64_t j0, int64_t columns,
                  bf16_bits* to) {
  const auto* b = static_cast<const bf16_bits*>(g.b);
  const int64_t panel = round_up(depth, tile_depth) / tile_depth * 2 * tile_values;
  for (int64_t p = 0; !g.transposed_b && p < depth; p += tile_depth, to += 2 * tile_values) {
    for (int64_t j = 0; j < columns; j += edge) {
      pack_interleaved(b + (p0 + p) * g.ldb + j0 + j, g.ldb, smaller(tile_depth, depth - p),
                       smaller(edge, columns - j), to + j / edge * panel);
    }
  }
  for (int64_t j = 0; g.transposed_b && j < columns; j += edge) {
    const int64_t n = smaller(edge, columns - j);
    for (int64_t p = 0; p < depth; p += tile_depth, to += 2 * tile_values) {
      const int64_t k = smaller(tile_depth, depth - p);
      const bf16_bits* from = b + (j0 + j) * g.ldb + p0 + p;
      pack_transposed(from, g.ldb, k, n, to);
      pack_transposed(from + tile_edge * g.ldb, g.ldb, k, n - tile_edge, to + tile_values);
    }
  }
}

/// Rows [i0, i0 + 32) of A, which lie in rows, as tiles: in place or packed.
tiled_a strip_of_rows(const gemm_args& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth,
                      bf16_bits* to) {
  const bf16_bits* from = static_cast<const bf16_bits*>(g.a) + i0 * g.lda + p0;
  if (depth % tile_depth == 0 && rows == edge) {
    return {from, tile_edge * g.lda, tile_depth, g.lda * 2};
  }
  bf16_bits* tile = to;
  for (int64_t p = 0; p < depth; p += tile_depth, tile += 2 * tile_values) {
    const int64_t k = smaller(tile_depth, depth - p);
    pack_rows(from + p, g.lda, k, rows, tile);
    pack_rows(from + tile_edge * g.lda + p, g.lda, k, rows - tile_edge, tile + tile_values);
  }
  return {to, tile_values, 2 * tile_values, 64};
}

/// Rows [i0, i0 + rows) of a transposed A as strips [row / 32][depth / 32] of two tiles. Each row's
/// sum over the depth is added to sums[] (unless null).
void pack_group(const gemm_args& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth,
                float* sums, bf16_bits* to) {
  const auto* a = static_cast<const bf16_bits*>(g.a) + p0 * g.lda + i0;
  vf totals[2 * group_strips] = {};
  for (int64_t p = 0; p < depth; p += tile_depth) {
    for (int64_t i = 0; i < rows; i += edge) {
      bf16_bits* tile = to + i * strip_depth + p / tile_depth * 2 * tile_values;
      vf* total = totals + i / tile_edge;
      pack_rows_transposed(a + p * g.lda + i, g.lda, smaller(tile_depth, depth - p),
                           smaller(edge, rows - i), tile, tile_values, total[0], total[1]);
    }
  }
  for (int64_t i = 0; sums != nullptr && i < rows; i += W) {
    const int n = static_cast<int>(smaller(W, rows - i));
    store_some(sums + i, load_some(sums + i, n) + totals[i / W], n);
  }
}

/// What is fetched while a panel is multiplied: the tile of C that comes next, and lines of A.
struct companions {
  char* c;               // null: none
  int64_t row, lines;    // bytes between its rows; lines of a row
  int64_t lines_a_step;  // of the depth, fetched of A and B
  forerunner ahead;
};

/// multiply_tiles of one strip and one panel, with its companions.
void multiply_panel(const tiled_a& a, const bf16_bits* b, int64_t depth, companions& with) {
  const bf16_bits *a0 = a.data, *a1 = a.data + a.row;
  const int64_t rows_a_step = (edge * tile_depth + depth - 1) / depth;
  int64_t row = with.c != nullptr ? 0 : edge;
  for (int64_t p = 0; p < depth; p += tile_depth) {
    _tile_loadd(4, a0, a.stride);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + tile_values, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a1, a.stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a0 += a.step;
    a1 += a.step;
    b += 2 * tile_values;
    for (int64_t i = 0; i < rows_a_step && row < edge; ++i, ++row) {
      __builtin_prefetch(with.c + row * with.row, 1);
      if (with.lines > 1) __builtin_prefetch(with.c + row * with.row + 64, 1);
    }
    for (int64_t i = 0; i < with.lines_a_step; ++i) with.ahead.fetch_line();
  }
}

/// Rows [i0, i0 + m) and columns [j0, j0 + n) of C, at most 32 x 32.
void product_square(const tiled_a& a, const bf16_bits* b, int64_t depth, const outcome& out,
                    int64_t i0, int64_t m, int64_t j0, int64_t n, companions& with) {
  float* sums = out.partial + i0 * out.partial_ld + j0;
  const bool whole = m == edge && n == edge;
  const float* base = whole && (out.simple || !out.first) ? out.base(i0, j0) : nullptr;
  if (base != nullptr) {
    load_sums(base, out.partial_ld);
  } else {
    zero_sums();
  }
  multiply_panel(a, b, depth, with);
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

/// Working memory of a product: a block of B, strips of A, partial sums of a bfloat16 C.
struct tile_memory {
  bf16_bits *b, *a;
  float* sums;
};

/// One product: a block of B, packed, and what goes past it.
struct tile_product {
  tile_product(const gemm_args& args, void* scratch)
      : g(args),
        depth_block(depth_of_blocks(g.k)),
        column_block(columns_of_block(depth_block, g.n)) {
    auto* base = static_cast<char*>(scratch);
    const auto take = [&](int64_t size) {
      char* piece = base != nullptr ? base + bytes : nullptr;
      bytes += round_up(size, 64);
      return piece;
    };
    memory.b = reinterpret_cast<bf16_bits*>(take(column_block * depth_block * 2));
    memory.a = reinterpret_cast<bf16_bits*>(take(group_strips * edge * strip_depth * 2));
    const bool some = g.out_type == dtype::bf16 && g.k > strip_depth;
    const int64_t rows = keeps_all() ? g.m : edge,
                  columns = round_up(keeps_all() ? g.n : column_block, edge);
    memory.sums = reinterpret_cast<float*>(take(some ? rows * columns * 4 : 0));
    sums_ld = columns;
  }

  /// Whether partial sums of all of C outlive a block of B, not of one strip only.
  bool keeps_all() const { return g.k > depth_block; }

  /// What becomes of the sums over depths [p, p + depth) of strip i0, block j0.
  outcome outcome_of(int64_t p, int64_t depth, int64_t i0, int64_t j0) const {
    return {g, p, depth, keeps_all() ? memory.sums : memory.sums - i0 * sums_ld - j0, sums_ld};
  }

  /// Strip `a` (rows from i0) against panels of the block: depths [p0 + q, + depth).
  void strip(const tiled_a& a, const outcome& out, int64_t i0, int64_t q, int64_t depth, int64_t j0,
             int64_t columns, companions& with) const {
    const int64_t panel = 2 * tile_values * (block_depth / tile_depth);
    const bool to_c = out.last || g.out_type == dtype::f32;
    const int64_t element = to_c && g.out_type == dtype::bf16 ? 2 : 4;
    char* c = to_c ? static_cast<char*>(g.c) + (i0 * g.ldc + j0) * element
                   : reinterpret_cast<char*>(out.partial + i0 * out.partial_ld + j0);
    with.row = (to_c ? g.ldc : out.partial_ld) * element;
    with.lines = element / 2;
    for (int64_t j = 0; j < columns; j += edge) {
      with.c = j + edge < columns ? c + (j + edge) * element : nullptr;
      product_square(a, memory.b + j / edge * panel + q / tile_depth * 2 * tile_values, depth, out,
                     i0, smaller(edge, g.m - i0), j0 + j, smaller(edge, columns - j), with);
    }
  }

  /// What is fetched while a block of B is used: the next one, evenly, and A, each line once.
  companions companions_of(int64_t p0, int64_t depth, int64_t j0, int64_t columns) const {
    const auto* b = static_cast<const bf16_bits*>(g.b);
    const bool wider = j0 + columns < g.n, deeper = p0 + depth < g.k;
    companions with{};
    with.lines_a_step = 1 + (edge * tile_depth - 1) / columns;
    if (!wider && !deeper) return with;
    const int64_t p = wider ? p0 : p0 + depth, j = wider ? j0 + columns : 0;
    const int64_t k = smaller(depth_block, g.k - p), n = smaller(column_block, g.n - j);
    with.ahead.b = g.transposed_b ? region_of(b + j * g.ldb + p, n, k, g.ldb)
                                  : region_of(b + p * g.ldb + j, k, n, g.ldb);
    with.lines_a_step += 1 + (edge * tile_depth - 1) / g.m;
    return with;
  }

  /// Rows of A in place: strip after strip.
  void rows(int64_t p0, int64_t depth, int64_t j0, int64_t columns) const {
    const auto* a = static_cast<const bf16_bits*>(g.a) + p0;
    companions with = companions_of(p0, depth, j0, columns);
    for (int64_t i0 = 0; i0 < g.m; i0 += edge) {
      const int64_t next = smaller(edge, g.m - i0 - edge);
      if (next > 0) with.ahead.a = region_of(a + (i0 + edge) * g.lda, next, depth, g.lda);
      for (int64_t q = 0; q < depth; q += strip_depth) {
        const int64_t part = smaller(strip_depth, depth - q);
        const tiled_a tiles = strip_of_rows(g, i0, smaller(edge, g.m - i0), p0 + q, part, memory.a);
        strip(tiles, outcome_of(p0 + q, part, i0, j0), i0, q, part, j0, columns, with);
      }
    }
  }

  /// A transposed: strips are packed in groups, so that whole lines are read of each of its rows.
  void groups(int64_t p0, int64_t depth, int64_t j0, int64_t columns) const {
    constexpr int64_t group = group_strips * edge;
    const auto* a = static_cast<const bf16_bits*>(g.a);
    companions with = companions_of(p0, depth, j0, columns);
    for (int64_t i0 = 0; i0 < g.m; i0 += group) {
      const int64_t rows = smaller(group, g.m - i0);
      for (int64_t q = 0; q < depth; q += strip_depth) {
        const int64_t part = smaller(strip_depth, depth - q);
        float* sums = g.a_sums != nullptr && j0 == 0 ? g.a_sums + i0 : nullptr;
        pack_group(g, i0, rows, p0 + q, part, sums, memory.a);
        const bool more = q + part < depth;
        const int64_t next_i = more ? i0 : i0 + group, next_p = more ? q + part : 0;
        if (next_i < g.m) {
          with.ahead.a =
              region_of(a + (p0 + next_p) * g.lda + next_i, smaller(strip_depth, depth - next_p),
                        smaller(group, g.m - next_i), g.lda);
        }
        for (int64_t i = 0; i < rows; i += edge) {
          const tiled_a tiles{memory.a + i * strip_depth, tile_values, 2 * tile_values, 64};
          strip(tiles, outcome_of(p0 + q, part, i0 + i, j0), i0 + i, q, part, j0, columns, with);
        }
      }
    }
  }

  void run() {
    for (int64_t p0 = 0; p0 < g.k; p0 += depth_block) {
      const int64_t depth = smaller(depth_block, g.k - p0);
      block_depth = round_up(depth, tile_depth);
      for (int64_t j0 = 0; j0 < g.n; j0 += column_block) {
        const int64_t columns = smaller(column_block, g.n - j0);
        pack_tiles_b(g, p0, depth, j0, columns, memory.b);
        g.transposed_a ? groups(p0, depth, j0, columns) : rows(p0, depth, j0, columns);
      }
    }
  }

  const gemm_args& g;
  const int64_t depth_block, column_block;
  int64_t bytes = 0;
  tile_memory memory{};
  int64_t sums_ld = 0;
  int64_t block_depth = 0;
};

}  // namespace

size_t tile_gemm_memory(const gemm_args& g) {
  return static_cast<size_t>(tile_product(g, nullptr).bytes);
}

void tile_gemm(const gemm_args& g, void* scratch) {
  const tile_lease lease;
  tile_product(g, scratch).run();
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT

#endif
