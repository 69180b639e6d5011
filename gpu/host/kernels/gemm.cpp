// Matrix products by vector multiply-add: C = A B, in the blocks of Goto & van de Geijn (2008).
//
// Why not oneDNN: on the shapes of a training step this reaches 85 to 95 % of the registers' peak,
// oneDNN 30 to 87 % (it suffers from transposed operands and from rows a multiple of 4 KiB apart);
// it has no bfloat16 below AVX-512, and it cannot write bias, residual and accumulation into both
// kinds of output.
//
// A block of B (depth_block x column_block) is packed to panels of tile columns, a block of A
// (row_block x depth_block) to strips of tile rows; both stay in the second level cache, a panel in
// the first. One tile of C lives in registers; the lines of C it will be written to are fetched one
// by one while it is computed, because all at once they would hold up the loads of A. bfloat16
// operands are packed as pairs for VDPBF16PS where the processor has it, else widened.
#include "gpu/host/kernels/gemm_epilogue.hpp"
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/prefetcher.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

#if defined(__AVX512F__)
constexpr int strip_rows = 14;  // 14 * 2 accumulators + 2 of B + 1 of A, of 32 registers
#elif defined(__AVX2__)
constexpr int strip_rows = 6;  // 6 * 2 + 2 + 1, of 16
#else
constexpr int strip_rows = 4;
#endif
constexpr int64_t panel_columns = 2 * W;
constexpr int64_t depth_block = 256;
constexpr int64_t row_block = 10 * strip_rows;
constexpr int64_t column_block = 768;
constexpr int64_t steps_per_line = 4;  // of the depth, for each line of C that is fetched

static_assert(strip_rows <= W, "a strip's column is stored as one vector");

/// Lanes between strips of A and between panels of B: never a multiple of 4 KiB, at which they
/// would evict each other while they are written side by side.
constexpr int64_t strip_size(int64_t depth) {
  return depth * strip_rows + W;
}
constexpr int64_t panel_size(int64_t depth) {
  return depth * panel_columns + W;
}
constexpr int64_t packed_a_size = row_block / strip_rows * strip_size(depth_block);
constexpr int64_t packed_b_size = column_block / panel_columns * panel_size(depth_block);

/// A lane of a packed operand is one element, as float32. `depth` counts lanes; a lane holds
/// `elements` of them.
template <class T>
struct single {
  using element = T;
  static constexpr int64_t elements = 1;

  /// W lanes along the depth, of `left` elements (any more are zero).
  TROUPE_INLINE static vf along(const T* p, int64_t left) {
    return left >= W ? load(p) : load(p, static_cast<int>(left));
  }
  /// The lanes of n columns at one depth; rows are `ld` apart, `left` of them.
  TROUPE_INLINE static vf across(const T* p, int64_t, int n, int64_t) { return load_some(p, n); }
  TROUPE_INLINE static vf multiply_add(vf sum, vf x, vf y) { return sum + x * y; }
  TROUPE_INLINE static vf add(vf sum, vf x) { return sum + x; }
};

#if defined(__AVX512BF16__)
/// A lane is a pair of bfloat16 values, neighbours along the depth.
struct paired {
  using element = bf16_bits;
  static constexpr int64_t elements = 2;

  TROUPE_INLINE static vf along(const bf16_bits* p, int64_t left) {
    if (left >= 2 * W) return load_raw<vf>(p);
    return reinterpret_cast<vf>(_mm512_maskz_loadu_epi16((1u << left) - 1, p));
  }
  TROUPE_INLINE static vf across(const bf16_bits* p, int64_t ld, int n, int64_t left) {
    const auto mask = static_cast<__mmask16>((1u << n) - 1);
    const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p));
    if (left < 2) return reinterpret_cast<vf>(even);
    const __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p + ld));
    return reinterpret_cast<vf>(_mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
  }
  TROUPE_INLINE static vf multiply_add(vf sum, vf x, vf y) {
    return reinterpret_cast<vf>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum),
                                                 reinterpret_cast<__m512bh>(x),
                                                 reinterpret_cast<__m512bh>(y)));
  }
  TROUPE_INLINE static vf add(vf sum, vf x) {
    return multiply_add(sum, x, reinterpret_cast<vf>(_mm512_set1_epi32(0x3f803f80)));  // ones
  }
};
using narrow_lane = paired;
#else
using narrow_lane = single<bf16_bits>;
#endif

template <class L>
constexpr int64_t lanes_of(int64_t elements) {
  return (elements + L::elements - 1) / L::elements;
}

/// The depth cut into equal blocks, whole vectors, of at most depth_block lanes.
template <class L>
int64_t equal_blocks(int64_t depth) {
  constexpr int64_t most = depth_block * L::elements, unit = W * L::elements;
  const int64_t blocks = (depth + most - 1) / most;
  return ((depth + blocks - 1) / blocks + unit - 1) / unit * unit;
}

/// W vectors of lanes along the depth, from rows in memory (n of them, the others zero),
/// transposed: depth after depth to `to`, `line` lanes apart.
template <class L>
TROUPE_INLINE void pack_square(const typename L::element* from, int64_t ld, int64_t n, int64_t left,
                               float* to, int64_t line) {
  vf square[W];
  for (int i = 0; i < W; ++i) square[i] = i < n ? L::along(from + i * ld, left) : vf{};
  transpose_square(square);
  const int64_t lanes = smaller(W, lanes_of<L>(left));
  for (int64_t i = 0; i < lanes; ++i) store(to + i * line, square[i]);
}

/// B[p.., j..] (depth x columns) as panels [j / panel_columns][p][j % panel_columns], from rows in
/// memory. Columns beyond the last are zero.
template <class L>
void pack_rows_of_b(const typename L::element* b, int64_t ld, int64_t depth, int64_t columns,
                    float* to) {
  const int64_t lanes = lanes_of<L>(depth), panel = panel_size(lanes);
  for (int64_t p = 0; p < lanes; ++p) {
    const auto* row = b + p * L::elements * ld;
    const int64_t left = depth - p * L::elements;
    for (int64_t j = 0; j < columns; j += panel_columns) {
      float* line = to + j / panel_columns * panel + p * panel_columns;
      const int n = static_cast<int>(smaller(panel_columns, columns - j));
      store(line, L::across(row + j, ld, n < W ? n : W, left));
      store(line + W, n <= W ? vf{} : L::across(row + j + W, ld, n - W, left));
    }
  }
}

/// The same from columns in memory.
template <class L>
void pack_columns_of_b(const typename L::element* b, int64_t ld, int64_t depth, int64_t columns,
                       float* to) {
  const int64_t lanes = lanes_of<L>(depth), panel = panel_size(lanes);
  constexpr int64_t unit = W * L::elements;
  for (int64_t j = 0; j < columns; j += panel_columns, to += panel) {
    for (int64_t half = 0; half < panel_columns; half += W) {
      for (int64_t p = 0; p < depth; p += unit) {
        pack_square<L>(b + (j + half) * ld + p, ld, columns - j - half, depth - p,
                       to + p / L::elements * panel_columns + half, panel_columns);
      }
    }
  }
}

/// A[i.., p..] (rows x depth) as strips [i / strip_rows][p][i % strip_rows], from rows in memory.
/// Rows beyond the last hold anything. Whole vectors are written: what reaches into the next column
/// or strip is overwritten by it.
template <class L>
void pack_rows_of_a(const typename L::element* a, int64_t ld, int64_t rows, int64_t depth,
                    float* to) {
  constexpr int64_t unit = W * L::elements;
  for (int64_t i = 0; i < rows; i += strip_rows, to += strip_size(lanes_of<L>(depth))) {
    for (int64_t p = 0; p < depth; p += unit) {
      pack_square<L>(a + i * ld + p, ld, smaller(strip_rows, rows - i), depth - p,
                     to + p / L::elements * strip_rows, strip_rows);
    }
  }
}

/// The same from columns in memory. Adds each row's sum to sums[] (unless null).
template <class L>
void pack_columns_of_a(const typename L::element* a, int64_t ld, int64_t rows, int64_t depth,
                       float* sums, float* to) {
  const int64_t lanes = lanes_of<L>(depth), strip = strip_size(lanes);
  vf totals[row_block / strip_rows] = {};
  for (int64_t p = 0; p < lanes; ++p) {
    const auto* from = a + p * L::elements * ld;
    float* column = to + p * strip_rows;
    vf* total = totals;
    for (int64_t i = 0; i < rows; i += strip_rows, column += strip, ++total) {
      const int n = static_cast<int>(smaller(W, rows - i));
      const vf x = L::across(from + i, ld, n, depth - p * L::elements);
      store(column, x);
      *total = L::add(*total, x);
    }
  }
  for (int64_t i = 0; sums != nullptr && i < rows; i += strip_rows) {
    const int n = static_cast<int>(smaller(strip_rows, rows - i));
    store(sums + i, load(sums + i, n) + totals[i / strip_rows], n);
  }
}

/// One tile of C: M rows by N vectors. While it is computed the lines of C are fetched. (The next
/// strip of A need not be: the hardware foresees it, and asking for it cost 1 to 5 %.)
template <class L, int M, int N>
struct tile_sums {
  vf acc[M][N];

  TROUPE_INLINE void step(const float* a, const float* b) {
    vf row[N];
#pragma GCC unroll 2
    for (int j = 0; j < N; ++j) row[j] = load(b + j * W);
#pragma GCC unroll 14
    for (int i = 0; i < M; ++i) {
      const vf x = splat(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j) acc[i][j] = L::multiply_add(acc[i][j], x, row[j]);
    }
  }

  TROUPE_INLINE void multiply(int64_t depth, const float* a, const float* b, const float* c,
                              int64_t ldc, prefetcher& ahead) {
#pragma GCC unroll 14
    for (int i = 0; i < M; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j) acc[i][j] = vf{};
    }
    int line = 0;
    for (; depth >= steps_per_line; depth -= steps_per_line) {
      __builtin_prefetch(c + line * W, 1);
      if (++line == N) line = 0, c += ldc;
      ahead.fetch_line();
#pragma GCC unroll 4
      for (int64_t k = 0; k < steps_per_line; ++k) step(a + k * strip_rows, b + k * panel_columns);
      a += steps_per_line * strip_rows;
      b += steps_per_line * panel_columns;
    }
    for (; depth > 0; --depth, a += strip_rows, b += panel_columns) step(a, b);
  }

  /// c = sums + addend(i, j).
  template <class F>
  TROUPE_INLINE void write(float* c, int64_t ldc, F&& addend) const {
#pragma GCC unroll 14
    for (int i = 0; i < M; ++i, c += ldc) {
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j) store(c + j * W, acc[i][j] + addend(i, j));
    }
  }
};

/// The tile at [i0, j0]; the last vector of its rows has `last_lanes` columns.
template <class L, int M, int N>
void product_tile(int64_t depth, const float* a, const float* b, const epilogue& out,
                  prefetcher& ahead, int64_t i0, int64_t j0, int last_lanes) {
  const int64_t ldc = out.partial_ld;
  float* c = out.partial + i0 * ldc + j0;
  tile_sums<L, M, N> sums;
  sums.multiply(depth, a, b, c, ldc, ahead);
  if (!out.simple || last_lanes < W) {
    float square[M * N * W];
    sums.write(square, N * W, [](int, int) { return vf{}; });
    for (int i = 0; i < M; ++i) {
      for (int j = 0; j < N; ++j) {
        out.put(i0 + i, j0 + j * W, load(square + (i * N + j) * W), j + 1 < N ? W : last_lanes);
      }
    }
    return;
  }
  const float *base = out.base(i0, j0), *bias = out.bias(j0);
  if (base == nullptr && bias == nullptr) {
    sums.write(c, ldc, [](int, int) { return vf{}; });
  } else if (bias == nullptr) {
    sums.write(c, ldc, [&](int i, int j) { return load(base + i * ldc + j * W); });
  } else if (base == nullptr) {
    sums.write(c, ldc, [&](int, int j) { return load(bias + j * W); });
  } else {
    sums.write(c, ldc,
               [&](int i, int j) { return load(base + i * ldc + j * W) + load(bias + j * W); });
  }
}

template <class L, int M>
void product_strip(int64_t columns, int64_t depth, const float* a, const float* b,
                   const epilogue& out, prefetcher& ahead, int64_t i0, int64_t j0) {
  if (columns > W) {
    product_tile<L, M, 2>(depth, a, b, out, ahead, i0, j0, static_cast<int>(columns - W));
  } else {
    product_tile<L, M, 1>(depth, a, b, out, ahead, i0, j0, static_cast<int>(columns));
  }
}

/// A packed block of A against a packed block of B. The rows of the last strip are cut in tiles of
/// 8, 4, 2 and 1.
template <class L>
void product_block(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                   const epilogue& out, prefetcher& ahead, int64_t i0, int64_t j0) {
  const int64_t size = strip_size(depth);
  for (int64_t j = 0; j < columns; j += panel_columns, b += panel_size(depth)) {
    const int64_t n = smaller(panel_columns, columns - j);
    const float* strip = a;
    int64_t i = 0;
    const auto rows_of = [&](auto m) {
      constexpr int M = decltype(m)::value;
      product_strip<L, M>(n, depth, strip, b, out, ahead, i0 + i, j0 + j);
      i += M;
      strip += M == strip_rows ? size : M;
    };
    while (i + strip_rows <= rows) rows_of(count_of<strip_rows>{});
    if (strip_rows > 8 && i + 8 <= rows) rows_of(count_of<8>{});
    if (i + 4 <= rows) rows_of(count_of<4>{});
    if (i + 2 <= rows) rows_of(count_of<2>{});
    if (i < rows) rows_of(count_of<1>{});
  }
}

/// The blocks of one product.
template <class L>
struct blocks {
  using T = typename L::element;

  const gemm_args& g;
  int64_t step = equal_blocks<L>(g.k);

  int64_t depth(int64_t p0) const { return smaller(step, g.k - p0); }
  int64_t rows(int64_t i0) const { return smaller(row_block, g.m - i0); }
  int64_t columns(int64_t j0) const { return smaller(column_block, g.n - j0); }
  const T* a(int64_t i0, int64_t p0) const {
    return static_cast<const T*>(g.a) + (g.transposed_a ? p0 * g.lda + i0 : i0 * g.lda + p0);
  }
  const T* b(int64_t p0, int64_t j0) const {
    return static_cast<const T*>(g.b) + (g.transposed_b ? j0 * g.ldb + p0 : p0 * g.ldb + j0);
  }

  void pack_a(int64_t i0, int64_t p0, int64_t j0, float* to) const {
    if (!g.transposed_a) return pack_rows_of_a<L>(a(i0, p0), g.lda, rows(i0), depth(p0), to);
    float* sums = g.a_sums != nullptr && j0 == 0 ? g.a_sums + i0 : nullptr;
    pack_columns_of_a<L>(a(i0, p0), g.lda, rows(i0), depth(p0), sums, to);
  }
  void pack_b(int64_t p0, int64_t j0, float* to) const {
    if (!g.transposed_b) return pack_rows_of_b<L>(b(p0, j0), g.ldb, depth(p0), columns(j0), to);
    pack_columns_of_b<L>(b(p0, j0), g.ldb, depth(p0), columns(j0), to);
  }

  region region_a(int64_t i0, int64_t p0) const {
    if (g.transposed_a) return region_of(a(i0, p0), depth(p0), rows(i0), g.lda);
    return region_of(a(i0, p0), rows(i0), depth(p0), g.lda);
  }
  region region_b(int64_t p0, int64_t j0) const {
    if (g.transposed_b) return region_of(b(p0, j0), columns(j0), depth(p0), g.ldb);
    return region_of(b(p0, j0), depth(p0), columns(j0), g.ldb);
  }
  /// The block of A that follows rows i0.. of depth p0 in the columns j0..
  region next_a(int64_t i0, int64_t p0, int64_t j0) const {
    if (i0 + row_block < g.m) return region_a(i0 + row_block, p0);
    if (p0 + step < g.k) return region_a(0, p0 + step);
    return j0 + column_block < g.n ? region_a(0, 0) : region{};
  }
  region next_b(int64_t p0, int64_t j0) const {
    if (p0 + step < g.k) return region_b(p0 + step, j0);
    return j0 + column_block < g.n ? region_b(0, j0 + column_block) : region{};
  }
};

template <class L>
void product(const gemm_args& g, float* scratch) {
  float* packed_b = scratch;
  float* packed_a = packed_b + packed_b_size;
  float* sums = packed_a + packed_a_size;
  const blocks<L> all{g};
  prefetcher ahead;
  for (int64_t j0 = 0; j0 < g.n; j0 += column_block) {
    const int64_t columns = all.columns(j0);
    for (int64_t p0 = 0; p0 < g.k; p0 += all.step) {
      const int64_t depth = all.depth(p0);
      all.pack_b(p0, j0, packed_b);
      ahead.b = all.next_b(p0, j0);
      const epilogue out(g, p0, depth, sums - j0, column_block);
      for (int64_t i0 = 0; i0 < g.m; i0 += row_block) {
        all.pack_a(i0, p0, j0, packed_a);
        ahead.a = all.next_a(i0, p0, j0);
        product_block<L>(all.rows(i0), columns, lanes_of<L>(depth), packed_a, packed_b, out, ahead,
                         i0, j0);
      }
    }
  }
}

}  // namespace

size_t gemm_memory(const gemm_args& g) {
#if defined(__AMX_BF16__)
  if (g.type == dtype::bf16) return tile_gemm_memory(g);
#endif
  const int64_t partial = g.out_type == dtype::bf16 && g.k > depth_block * narrow_lane::elements
                              ? g.m * column_block
                              : 0;
  return static_cast<size_t>(packed_a_size + packed_b_size + partial) * sizeof(float);
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
  if (g.type == dtype::bf16) return product<narrow_lane>(g, static_cast<float*>(scratch));
  product<single<float>>(g, static_cast<float*>(scratch));
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
