// Matrix products by float32 multiply-add: C = A B, in the blocks of Goto & van de Geijn (2008).
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
// operands are widened while they are packed.
#include "gpu/host/kernels/gemm_outcome.hpp"
#include "gpu/host/kernels/kernels.hpp"

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

/// Elements between strips of A and between panels of B: never a multiple of 4 KiB, at which they
/// would evict each other while they are written side by side.
constexpr int64_t strip_size(int64_t depth) {
  return depth * strip_rows + W;
}
constexpr int64_t panel_size(int64_t depth) {
  return depth * panel_columns + W;
}
constexpr int64_t packed_a_size = row_block / strip_rows * strip_size(depth_block);
constexpr int64_t packed_b_size = column_block / panel_columns * panel_size(depth_block);

/// The depth cut into equal blocks, whole vectors, of at most depth_block.
int64_t equal_blocks(int64_t depth) {
  const int64_t blocks = (depth + depth_block - 1) / depth_block;
  return ((depth + blocks - 1) / blocks + W - 1) / W * W;
}

/// A block of a matrix as it lies in memory.
struct region {
  const char* data;
  int64_t rows, bytes, stride;  // of a row; between rows, in bytes

  /// Asks the second level cache for a line that has not been asked for; false: all have been.
  TROUPE_INLINE bool fetch_line() {
    if (rows <= 0) return false;
    __builtin_prefetch(data + at, 0, 2);
    at += 64;
    if (at < bytes) return true;
    at = 0;
    data += stride;
    --rows;
    return true;
  }
  int64_t at = 0;
};

/// The blocks that will be packed next, fetched while the present ones are multiplied: otherwise
/// packing would wait for the third level cache, a tenth of the time.
struct forerunner {
  region a{}, b{};

  TROUPE_INLINE void fetch_line() {
    if (!a.fetch_line()) b.fetch_line();
  }
};

/// Columns of B, W rows in memory (n of them, the others zero) of k elements each, to rows of a
/// panel.
template <class T>
TROUPE_INLINE void pack_columns(const T* from, int64_t ld, int n, int k, float* to) {
  vf square[W];
  for (int i = 0; i < W; ++i) square[i] = i < n ? load_some(from + i * ld, k) : vf{};
  transpose_square(square);
  for (int i = 0; i < k; ++i) store(to + i * panel_columns, square[i]);
}

/// B[p.., j..] (depth x columns) as panels [j / panel_columns][p][j % panel_columns]. Columns beyond
/// the last are zero.
template <class T>
void pack_b(const T* b, int64_t ld, bool transposed, int64_t depth, int64_t columns, float* to) {
  const int64_t panel = panel_size(depth);
  for (int64_t p = 0; !transposed && p < depth; ++p) {
    const T* row = b + p * ld;
    for (int64_t j = 0; j < columns; j += panel_columns) {
      float* line = to + j / panel_columns * panel + p * panel_columns;
      const int n = static_cast<int>(smaller(panel_columns, columns - j));
      store(line, load_some(row + j, n < W ? n : W));
      store(line + W, n <= W ? vf{} : load_some(row + j + W, n - W));
    }
  }
  for (int64_t j = 0; transposed && j < columns; j += W) {
    float* half = to + j / panel_columns * panel + j % panel_columns;
    const int n = static_cast<int>(smaller(W, columns - j));
    for (int64_t p = 0; p < depth; p += W) {
      const int k = static_cast<int>(smaller(W, depth - p));
      pack_columns(b + j * ld + p, ld, n, k, half + p * panel_columns);
    }
  }
  if (!transposed || columns % panel_columns == 0 || columns % panel_columns > W) return;
  float* half = to + columns / panel_columns * panel + W;
  for (int64_t p = 0; p < depth; ++p) store(half + p * panel_columns, vf{});
}

/// A[i.., p..] (rows x depth) as strips [i / strip_rows][p][i % strip_rows]. Rows beyond the last
/// hold anything. Whole vectors are written: what reaches into the next column or strip is
/// overwritten by it.
template <class T>
void pack_a(const T* a, int64_t ld, bool transposed, int64_t rows, int64_t depth, float* to) {
  const int64_t strip = strip_size(depth);
  for (int64_t p = 0; transposed && p < depth; ++p) {
    const T* from = a + p * ld;
    float* column = to + p * strip_rows;
    int64_t i = 0;
    for (; i + W <= rows; i += strip_rows, column += strip) store(column, load(from + i));
    for (; i < rows; i += strip_rows, column += strip) {
      store(column, load(from + i, static_cast<int>(rows - i)));
    }
  }
  for (int64_t i = 0; !transposed && i < rows; i += strip_rows, to += strip) {
    const int64_t count = smaller(strip_rows, rows - i);
    for (int64_t p = 0; p < depth; p += W) {
      const int k = static_cast<int>(smaller(W, depth - p));
      vf square[W];
      for (int r = 0; r < W; ++r) {
        square[r] = r < count ? load_some(a + (i + r) * ld + p, k) : vf{};
      }
      transpose_square(square);
      for (int r = 0; r < k; ++r) store(to + (p + r) * strip_rows, square[r]);
    }
  }
}

/// One tile of C: M rows by N vectors. While it is computed the lines of C and the next strip of A
/// are fetched.
template <int M, int N>
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
      for (int j = 0; j < N; ++j) acc[i][j] += x * row[j];
    }
  }

  TROUPE_INLINE void multiply(int64_t depth, const float* a, const float* b, const float* next,
                              const float* c, int64_t ldc, forerunner& ahead) {
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
      for (int64_t v = 0; v < steps_per_line * strip_rows; v += 16) __builtin_prefetch(next + v);
#pragma GCC unroll 4
      for (int64_t k = 0; k < steps_per_line; ++k) step(a + k * strip_rows, b + k * panel_columns);
      a += steps_per_line * strip_rows;
      b += steps_per_line * panel_columns;
      next += steps_per_line * strip_rows;
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
template <int M, int N>
void product_tile(int64_t depth, const float* a, const float* b, const float* next,
                  const outcome& out, forerunner& ahead, int64_t i0, int64_t j0, int last_lanes) {
  const int64_t ldc = out.partial_ld;
  float* c = out.partial + i0 * ldc + j0;
  tile_sums<M, N> sums;
  sums.multiply(depth, a, b, next, c, ldc, ahead);
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

template <int M>
void product_strip(int64_t columns, int64_t depth, const float* a, const float* b,
                   const float* next, const outcome& out, forerunner& ahead, int64_t i0,
                   int64_t j0) {
  if (columns > W) {
    product_tile<M, 2>(depth, a, b, next, out, ahead, i0, j0, static_cast<int>(columns - W));
  } else {
    product_tile<M, 1>(depth, a, b, next, out, ahead, i0, j0, static_cast<int>(columns));
  }
}

/// A packed block of A against a packed block of B.
void product_block(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                   const outcome& out, forerunner& ahead, int64_t i0, int64_t j0) {
  const int64_t size = strip_size(depth);
  for (int64_t j = 0; j < columns; j += panel_columns, b += panel_size(depth)) {
    const int64_t n = smaller(panel_columns, columns - j);
    const float* strip = a;
    int64_t i = 0;
    for (; i + strip_rows <= rows; i += strip_rows, strip += size) {
      const float* next = i + 2 * strip_rows <= rows ? strip + size : a;
      product_strip<strip_rows>(n, depth, strip, b, next, out, ahead, i0 + i, j0 + j);
    }
    for (; i + 4 <= rows; i += 4, strip += 4) {
      product_strip<4>(n, depth, strip, b, a, out, ahead, i0 + i, j0 + j);
    }
    for (; i < rows; ++i, ++strip) {
      product_strip<1>(n, depth, strip, b, a, out, ahead, i0 + i, j0 + j);
    }
  }
}

/// The blocks of one product.
template <class T>
struct blocks {
  const gemm_args& g;
  int64_t step = equal_blocks(g.k);

  int64_t depth(int64_t p0) const { return smaller(step, g.k - p0); }
  int64_t rows(int64_t i0) const { return smaller(row_block, g.m - i0); }
  int64_t columns(int64_t j0) const { return smaller(column_block, g.n - j0); }
  const T* a(int64_t i0, int64_t p0) const {
    return static_cast<const T*>(g.a) + (g.transposed_a ? p0 * g.lda + i0 : i0 * g.lda + p0);
  }
  const T* b(int64_t p0, int64_t j0) const {
    return static_cast<const T*>(g.b) + (g.transposed_b ? j0 * g.ldb + p0 : p0 * g.ldb + j0);
  }

  static region region_of(const T* data, int64_t rows, int64_t width, int64_t ld) {
    constexpr int64_t size = sizeof(T);
    return {reinterpret_cast<const char*>(data), rows, width * size, ld * size};
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

template <class T>
void product(const gemm_args& g, float* scratch) {
  float* packed_b = scratch;
  float* packed_a = packed_b + packed_b_size;
  float* sums = packed_a + packed_a_size;
  const blocks<T> all{g};
  forerunner ahead;
  for (int64_t j0 = 0; j0 < g.n; j0 += column_block) {
    const int64_t columns = all.columns(j0);
    for (int64_t p0 = 0; p0 < g.k; p0 += all.step) {
      const int64_t depth = all.depth(p0);
      pack_b(all.b(p0, j0), g.ldb, g.transposed_b, depth, columns, packed_b);
      ahead.b = all.next_b(p0, j0);
      const outcome out(g, p0, depth, sums - j0, column_block);
      for (int64_t i0 = 0; i0 < g.m; i0 += row_block) {
        pack_a(all.a(i0, p0), g.lda, g.transposed_a, all.rows(i0), depth, packed_a);
        ahead.a = all.next_a(i0, p0, j0);
        product_block(all.rows(i0), columns, depth, packed_a, packed_b, out, ahead, i0, j0);
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
  if (g.type == dtype::bf16) return product<bf16_bits>(g, static_cast<float*>(scratch));
  product<float>(g, static_cast<float*>(scratch));
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
