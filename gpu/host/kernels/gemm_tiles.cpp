// Matrix products of bfloat16 on AMX tiles, for processors that have them.
//
// 32 x 32 of C stay in four tiles while the depth goes by, two tiles of A and two of B at a time.
// The tiles multiply so fast that moving data is what costs. A block of B is packed once and stays
// in the second level cache; strips of 32 rows of A go past it, each read in place where it lies
// row by row in whole tiles, else packed. Sums leave the tiles once a block of the depth, and get
// from there to C while the next are multiplied. Meanwhile the lines of C that come next, and of
// A, are fetched.
//
// Measured on a core of a Xeon with AMX: registers alone 3.1 TFLOP/s; operands in the first level
// cache 3.0 if they are zeros, 2.45 if not (the clock gives way to the power that switching bits
// takes); in the second level 2.0, and 1.45 with sums that leave. To cut the depth so that a strip
// stays in the first level gains as much as the partial sums cost that come of it.
#include "gpu/host/kernels/gemm_epilogue.hpp"
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/prefetcher.hpp"
#include "gpu/host/kernels/tiles.hpp"

#if defined(__AMX_BF16__)

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

constexpr int64_t most_depth = 1024;      // of a block of B
constexpr int64_t block_bytes = 1 << 20;  // of a block of B
constexpr int64_t group_bytes = 1 << 18;  // of strips of a transposed A, packed side by side

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

/// Asks the second level cache for one line of each of `rows` rows.
TROUPE_INLINE void fetch_rows(const bf16_bits* from, int64_t ld, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) __builtin_prefetch(from + i * ld, 0, 2);
}

/// Packs B[p0.., j0..]: panel[j / 32][p / 32] of two tiles each. Whole rows in memory are read one
/// after the other.
void pack_tiles_b(const gemm_args& g, int64_t p0, int64_t depth, int64_t j0, int64_t columns,
                  bf16_bits* to) {
  const auto* b = static_cast<const bf16_bits*>(g.b);
  const int64_t panel = round_up(depth, tile_depth) / tile_depth * 2 * tile_values;
  for (int64_t p = 0; !g.transposed_b && p < depth; p += tile_depth, to += 2 * tile_values) {
    const int64_t after = smaller(tile_depth, depth - p - tile_depth);
    for (int64_t j = 0; j < columns; j += edge) {
      const bf16_bits* from = b + (p0 + p) * g.ldb + j0 + j;
      pack_interleaved(from, g.ldb, smaller(tile_depth, depth - p), smaller(edge, columns - j),
                       to + j / edge * panel);
      fetch_rows(from + tile_depth * g.ldb, g.ldb, after);
    }
  }
  for (int64_t j = 0; g.transposed_b && j < columns; j += edge) {
    const int64_t n = smaller(edge, columns - j), after = smaller(edge, columns - j - edge);
    for (int64_t p = 0; p < depth; p += tile_depth, to += 2 * tile_values) {
      const int64_t k = smaller(tile_depth, depth - p);
      const bf16_bits* from = b + (j0 + j) * g.ldb + p0 + p;
      pack_transposed(from, g.ldb, k, n, to);
      pack_transposed(from + tile_edge * g.ldb, g.ldb, k, n - tile_edge, to + tile_values);
      fetch_rows(from + edge * g.ldb, g.ldb, after);
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

constexpr int64_t most_strips = 16;  // of a group

/// Rows of a transposed A that are packed at a time.
int64_t rows_of_group(int64_t depth) {
  const int64_t fit = group_bytes / 2 / round_up(depth, tile_depth) / edge;
  return edge * (fit < 1 ? 1 : smaller(fit, most_strips));
}

/// Rows [i0, i0 + rows) of a transposed A as strips [row / 32][depth / 32] of two tiles. Each row's
/// sum over the depth is added to sums[] (unless null).
void pack_group(const gemm_args& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth,
                float* sums, bf16_bits* to) {
  const auto* a = static_cast<const bf16_bits*>(g.a) + p0 * g.lda + i0;
  const int64_t strip = edge * round_up(depth, tile_depth);
  vf totals[2 * most_strips] = {};
  for (int64_t p = 0; p < depth; p += tile_depth) {
    for (int64_t i = 0; i < rows; i += edge) {
      const bf16_bits* from = a + p * g.lda + i;
      bf16_bits* tile = to + i / edge * strip + p / tile_depth * 2 * tile_values;
      vf* total = totals + i / tile_edge;
      pack_rows_transposed(from, g.lda, smaller(tile_depth, depth - p), smaller(edge, rows - i),
                           tile, tile_values, total[0], total[1]);
      fetch_rows(from + tile_depth * g.lda, g.lda, smaller(tile_depth, depth - p - tile_depth));
    }
  }
  for (int64_t i = 0; sums != nullptr && i < rows; i += W) {
    const int n = static_cast<int>(smaller(W, rows - i));
    store_some(sums + i, load_some(sums + i, n) + totals[i / W], n);
  }
}

/// 32 x 32 sums on their way from the tiles to C, row by row while the next are multiplied: what
/// reads tiles waits for their products, and for memory.
struct departure {
  alignas(64) float sums[edge * edge];
  int64_t next = edge;                 // row that leaves next
  const float* base;                   // added, float32; null: nothing
  const bf16_bits *addend, *residual;  // added, bfloat16; null: nothing
  vf bias_low, bias_high;              // added
  float* to_sums;                      // one of these two is null
  bf16_bits* to;
  int64_t sums_ld, ld;  // between rows of the two kinds

  /// The square at [i0, j0] of C, whole, is in the tiles.
  TROUPE_INLINE void begin(const epilogue& out, int64_t i0, int64_t j0) {
    const gemm_args& g = out.g;
    const int64_t at = i0 * g.ldc + j0;
    const bool to_bf16 = g.out_type == dtype::bf16;
    auto* partial = out.partial + i0 * out.partial_ld + j0;
    auto* c = static_cast<bf16_bits*>(g.c) + at;
    const bool adds = out.first && g.accumulate;
    base = out.add_partial || (adds && !to_bf16) ? partial : nullptr;
    addend = adds && to_bf16 ? c : nullptr;
    residual = out.first && g.residual != nullptr ? static_cast<const bf16_bits*>(g.residual) + at
                                                  : nullptr;
    const auto* bias = out.first ? static_cast<const bf16_bits*>(g.bias) : nullptr;
    bias_low = bias != nullptr ? load(bias + j0) : vf{};
    bias_high = bias != nullptr ? load(bias + j0 + W) : vf{};
    const bool done = to_bf16 && out.last;
    to_sums = done ? nullptr : partial;
    to = done ? c : nullptr;
    sums_ld = out.partial_ld;
    ld = g.ldc;
    store_sums(sums, edge);
    next = 0;
  }

  TROUPE_INLINE void row() {
    vf low = load(sums + next * edge) + bias_low, high = load(sums + next * edge + W) + bias_high;
    if (base != nullptr) {
      low += load(base);
      high += load(base + W);
      base += sums_ld;
    }
    add_values(addend, low, high);
    add_values(residual, low, high);
    if (to != nullptr) {
      _mm512_storeu_si512(to, narrow_two(low, high));
      to += ld;
    } else {
      store(to_sums, low);
      store(to_sums + W, high);
      to_sums += sums_ld;
    }
    ++next;
  }

  TROUPE_INLINE void rows(int64_t count) {
    for (; count > 0 && next < edge; --count) row();
  }

 private:
  TROUPE_INLINE void add_values(const bf16_bits*& from, vf& low, vf& high) const {
    if (from == nullptr) return;
    low += load(from);
    high += load(from + W);
    from += ld;
  }
};

/// What happens while a panel is multiplied: the square before it leaves, the lines that its own
/// will touch are fetched, and lines of A.
struct companions {
  departure leaving;
  const char* c = nullptr;
  int64_t row = 0, lines = 0;  // bytes between its rows; lines of a row
  int64_t lines_a_step = 0;    // of the depth, fetched of A
  region ahead{};
};

/// multiply_tiles of one strip and one panel, with its companions.
void multiply_panel(const tiled_a& a, const bf16_bits* b, int64_t depth, companions& with) {
  const bf16_bits *a0 = a.data, *a1 = a.data + a.row;
  const int64_t rows_a_step = (edge * tile_depth + depth - 1) / depth;
  const char* c = with.c;
  int64_t row = 0;
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
    with.leaving.rows(rows_a_step);
    if (row < edge) {
      for (int64_t i = 0; i < rows_a_step; ++i, c += with.row) {
        __builtin_prefetch(c, 1);
        if (with.lines > 1) __builtin_prefetch(c + 64, 1);
      }
      row += rows_a_step;
    }
    for (int64_t i = 0; i < with.lines_a_step; ++i) with.ahead.fetch_line();
  }
  with.leaving.rows(edge);
}

/// Rows [i0, i0 + m) and columns [j0, j0 + n) of C, at most 32 x 32.
void product_square(const tiled_a& a, const bf16_bits* b, int64_t depth, const epilogue& out,
                    int64_t i0, int64_t m, int64_t j0, int64_t n, companions& with) {
  zero_sums();
  multiply_panel(a, b, depth, with);
  if (m == edge && n == edge) return with.leaving.begin(out, i0, j0);
  store_sums(with.leaving.sums, edge);
  for (int64_t i = 0; i < m; ++i) {
    const float* sums = with.leaving.sums + i * edge;
    out.put(i0 + i, j0, load(sums), static_cast<int>(smaller(W, n)));
    if (n > W) out.put(i0 + i, j0 + W, load(sums + W), static_cast<int>(n - W));
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
    const int64_t strips = g.transposed_a ? rows_of_group(depth_block) : edge;
    memory.b = reinterpret_cast<bf16_bits*>(take(column_block * depth_block * 2));
    memory.a = reinterpret_cast<bf16_bits*>(take(strips * depth_block * 2));
    const bool partial = g.out_type == dtype::bf16 && g.k > depth_block;
    memory.sums = reinterpret_cast<float*>(take(partial ? g.m * g.n * 4 : 0));
  }

  /// What becomes of the sums over depths [p, p + depth).
  epilogue epilogue_of(int64_t p, int64_t depth) const { return {g, p, depth, memory.sums, g.n}; }

  /// Strip `a` (rows from i0) against panels of the block, columns [j0, + columns).
  void strip(const tiled_a& a, const epilogue& out, int64_t i0, int64_t depth, int64_t j0,
             int64_t columns, companions& with) const {
    const int64_t panel = round_up(depth, tile_depth) * edge;
    const bool to_c = out.last || g.out_type == dtype::f32;
    const int64_t element = to_c && g.out_type == dtype::bf16 ? 2 : 4;
    with.c = to_c ? static_cast<char*>(g.c) + (i0 * g.ldc + j0) * element
                  : reinterpret_cast<char*>(out.partial + i0 * out.partial_ld + j0);
    with.row = (to_c ? g.ldc : out.partial_ld) * element;
    with.lines = element / 2;
    for (int64_t j = 0; j < columns; j += edge, with.c += edge * element) {
      product_square(a, memory.b + j / edge * panel, depth, out, i0, smaller(edge, g.m - i0),
                     j0 + j, smaller(edge, columns - j), with);
    }
  }

  /// Rows of A in place: strip after strip; the next one is fetched meanwhile.
  void rows(const epilogue& out, int64_t p0, int64_t depth, int64_t j0, int64_t columns,
            companions& with) const {
    const auto* a = static_cast<const bf16_bits*>(g.a) + p0;
    with.lines_a_step = 1 + (edge * tile_depth - 1) / columns;
    for (int64_t i0 = 0; i0 < g.m; i0 += edge) {
      const int64_t next = smaller(edge, g.m - i0 - edge);
      with.ahead = next > 0 ? region_of(a + (i0 + edge) * g.lda, next, depth, g.lda) : region{};
      const tiled_a tiles = strip_of_rows(g, i0, smaller(edge, g.m - i0), p0, depth, memory.a);
      strip(tiles, out, i0, depth, j0, columns, with);
    }
  }

  /// A transposed: strips are packed in groups, so that whole lines are read of each of its rows.
  void groups(const epilogue& out, int64_t p0, int64_t depth, int64_t j0, int64_t columns,
              companions& with) const {
    const int64_t group = rows_of_group(depth_block), size = edge * round_up(depth, tile_depth);
    for (int64_t i0 = 0; i0 < g.m; i0 += group) {
      const int64_t rows = smaller(group, g.m - i0);
      float* sums = g.a_sums != nullptr && j0 == 0 ? g.a_sums + i0 : nullptr;
      pack_group(g, i0, rows, p0, depth, sums, memory.a);
      for (int64_t i = 0; i < rows; i += edge) {
        const tiled_a tiles{memory.a + i / edge * size, tile_values, 2 * tile_values, 64};
        strip(tiles, out, i0 + i, depth, j0, columns, with);
      }
    }
  }

  void run() const {
    companions with;
    for (int64_t p0 = 0; p0 < g.k; p0 += depth_block) {
      const int64_t depth = smaller(depth_block, g.k - p0);
      const epilogue out = epilogue_of(p0, depth);
      for (int64_t j0 = 0; j0 < g.n; j0 += column_block) {
        const int64_t columns = smaller(column_block, g.n - j0);
        pack_tiles_b(g, p0, depth, j0, columns, memory.b);
        g.transposed_a ? groups(out, p0, depth, j0, columns, with)
                       : rows(out, p0, depth, j0, columns, with);
      }
    }
    with.leaving.rows(edge);
  }

  const gemm_args& g;
  const int64_t depth_block, column_block;
  int64_t bytes = 0;
  tile_memory memory{};
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
