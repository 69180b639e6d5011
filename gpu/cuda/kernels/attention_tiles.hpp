// Tiles of attention in shared memory and the tensor-core products on them.
//
// The products are mma.sync with ldmatrix, the fastest that runs on every GPU since 2020. On Hopper
// that reaches at most about 62 % of the dense peak; attention_panels.hpp is for those.
//
// A warp owns 16 M rows of the left operand ("rows" from here on) and meets every row of the right
// one ("columns"). M = 2 halves the traffic from shared memory: each fragment of the right operand
// (512 bytes, 4 cycles of shared memory) then serves four products (6.3 cycles of an SM at its
// mma.sync peak); with M = 1 it is two products (3.2 cycles), and shared memory is the limit.
//
// A tile's row is D elements and 16 bytes of padding: an odd number of 16-byte pieces, so that the
// eight rows of an 8x8 matrix lie in different banks, transposed or not, and every address is one
// base per lane plus a constant. Head widths below D run with columns of zeros up to D.
#pragma once

#include "gpu/cuda/kernels/attention_shape.hpp"
#include "gpu/cuda/simt.hpp"

namespace troupe::gpu::cuda {

constexpr int attention_threads = 128;
constexpr int attention_warps = attention_threads / 32;

/// Elements from a tile's row to the next.
template <int D>
constexpr int pitch = D + 8;

/// Bytes of a tile.
template <int D>
constexpr size_t tile_bytes(int rows) {
  return static_cast<size_t>(rows) * pitch<D> * sizeof(bf16);
}

/// Threads that share a row in copies: as many as divide its 16-byte pieces evenly.
template <int D>
constexpr int row_threads = D % 128 == 0  ? 16
                            : D % 64 == 0 ? 8
                                          : 4;

/// Where in a matrix, whose rows are `stride` elements apart, a thread copies from.
template <int D>
__device__ __forceinline__ int64_t copy_lane(int64_t stride) {
  return thread_index() / row_threads<D> * stride + thread_index() % row_threads<D> * 8;
}

/// Starts copying `Rows` rows to a tile by all threads of the block: the first `there` rows and
/// `width` elements of each from memory, zeros elsewhere. `from` with copy_lane().
template <int D, int Rows>
__device__ __forceinline__ void copy_tile(bf16* tile, const bf16* from, int64_t stride, int there,
                                          int width) {
  constexpr int across = row_threads<D>, at_once = attention_threads / across;
  static_assert(D / 8 % across == 0 && Rows % at_once == 0);
  const int first_row = thread_index() / across, first_column = thread_index() % across * 8;
  tile += first_row * pitch<D> + first_column;
  SIMT_UNROLL
  for (int row = 0; row < Rows; row += at_once) {
    SIMT_UNROLL
    for (int column = 0; column < D; column += across * 8)
      copy_async_16(tile + row * pitch<D> + column, from + column,
                    first_row + row < there && first_column + column < width);
    from += at_once * stride;
  }
}

/// Writes a warp's `Rows` rows of a tile to memory, 16 bytes at a time: the first `there` rows.
template <int D, int Rows>
__device__ __forceinline__ void store_tile(bf16* to, int64_t stride, const bf16* tile, int there,
                                           int width) {
  constexpr int pieces = D / 8, rounds = Rows * pieces / 32;
  static_assert(rounds * 32 == Rows * pieces);
  SIMT_UNROLL
  for (int i = 0; i < rounds; ++i) {
    const int at = i * 32 + lane();
    const int row = at / pieces, column = at % pieces * 8;
    if (row < there && column < width)
      *reinterpret_cast<pack<bf16, 8>*>(to + row * stride + column) =
          *reinterpret_cast<const pack<bf16, 8>*>(tile + row * pitch<D> + column);
  }
}

/// Where a lane reads a left operand (16 x 16, ldmatrix), and a transposed right one.
template <int D>
__device__ __forceinline__ int left_lane() {
  return lane() % 16 * pitch<D> + lane() / 16 * 8;
}
/// Where a lane reads a right operand: two 8-column tiles of 16 elements.
template <int D>
__device__ __forceinline__ int right_lane() {
  return (lane() / 16 * 8 + lane() % 8) * pitch<D> + lane() / 8 % 2 * 8;
}

/// A left operand that stays in shared memory: 16 M rows at `lane_base` (with left_lane()).
template <int D, int M>
struct shared_left {
  const bf16* lane_base;

  __device__ __forceinline__ void load(int step, uint32_t (&a)[M][4]) const {
    SIMT_UNROLL
    for (int m = 0; m < M; ++m) load_matrices(a[m], lane_base + m * 16 * pitch<D> + step * 16);
  }
};

/// A left operand that stays in registers: D M / 4 of them.
template <int D, int M>
struct register_left {
  uint32_t held[D / 16][M][4];

  __device__ __forceinline__ void fill(const bf16* lane_base) {
    SIMT_UNROLL
    for (int step = 0; step < D / 16; ++step) shared_left<D, M>{lane_base}.load(step, held[step]);
  }
  __device__ __forceinline__ void load(int step, uint32_t (&a)[M][4]) const {
    SIMT_UNROLL
    for (int m = 0; m < M; ++m) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) a[m][i] = held[step][m][i];
    }
  }
};

/// product[16 M, N] = left[16 M, D] right[N, D]^T; `right` with right_lane().
template <int D, int M, int N, class Left>
__device__ __forceinline__ void multiply_rows(float (&product)[M][N / 8][4], const Left& left,
                                              const bf16* right) {
  SIMT_UNROLL
  for (int m = 0; m < M; ++m) {
    SIMT_UNROLL
    for (int i = 0; i < N / 2; ++i) product[m][i / 4][i % 4] = 0;
  }
  SIMT_UNROLL
  for (int step = 0; step < D / 16; ++step) {
    uint32_t a[M][4];
    left.load(step, a);
    SIMT_UNROLL
    for (int n = 0; n < N / 16; ++n) {
      uint32_t b[4];
      load_matrices(b, right + n * 16 * pitch<D> + step * 16);
      SIMT_UNROLL
      for (int m = 0; m < M; ++m) {
        multiply_bf16(product[m][2 * n], a[m], {b[0], b[1]});
        multiply_bf16(product[m][2 * n + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

/// sum[16 M, D] += left[16 M, N], rounded to bfloat16, times right[N, D]; `right` with left_lane().
template <int D, int M, int N>
__device__ __forceinline__ void add_product(float (&sum)[M][D / 8][4],
                                            const float (&left)[M][N / 8][4], const bf16* right) {
  SIMT_UNROLL
  for (int step = 0; step < N / 16; ++step) {
    uint32_t a[M][4];
    SIMT_UNROLL
    for (int m = 0; m < M; ++m) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {  // a product's layout is that of a left operand, tile by tile
        const auto& tile = left[m][2 * step + i / 2];
        a[m][i] = pack_bf16(tile[i % 2 * 2], tile[i % 2 * 2 + 1]);
      }
    }
    SIMT_UNROLL
    for (int n = 0; n < D / 16; ++n) {
      uint32_t b[4];
      load_matrices_transposed(b, right + step * 16 * pitch<D> + n * 16);
      SIMT_UNROLL
      for (int m = 0; m < M; ++m) {
        multiply_bf16(sum[m][2 * n], a[m], {b[0], b[1]});
        multiply_bf16(sum[m][2 * n + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

/// Puts a warp's sums, times `factor(m, half)` for row 16 m + 8 half + lane / 4, into its rows of a
/// tile. The warp's lanes see them after sync_warp().
template <int D, int M, class Factor>
__device__ __forceinline__ void put_rows(bf16* warp_tile, const float (&sum)[M][D / 8][4],
                                         const Factor& factor) {
  SIMT_UNROLL
  for (int i = 0; i < 2 * M; ++i) {
    const int m = i / 2, half = i % 2;
    bf16* row = warp_tile + (8 * i + lane() / 4) * pitch<D> + lane() % 4 * 2;
    const float f = factor(m, half);
    SIMT_UNROLL
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<uint32_t*>(row + n * 8) =
          pack_bf16(f * sum[m][n][2 * half], f * sum[m][n][2 * half + 1]);
  }
}

/// The order of blocks: heads in sections whose streamed tensors fit the L2 cache together; within
/// a section the longest tiles of all heads first, so that the short ones fill the gaps at the end.
struct block_order {
  int heads, tiles, section;
};

struct block_place {
  int head, tile;  ///< tile 0 is the one to do first
};

__device__ __forceinline__ block_place place_of_block(const block_order& o) {
  const int begin = block_index() / (o.section * o.tiles) * o.section;
  const int within = block_index() % (o.section * o.tiles);
  const int here = o.heads - begin < o.section ? o.heads - begin : o.section;
  return {begin + within % here, within / here};
}

/// `bytes`: what one head's blocks stream; `together`: heads that stream the same.
inline block_order order_of_blocks(int heads, int64_t tiles, int64_t bytes, int together) {
  constexpr int64_t cache = int64_t{24} << 20;  // of the 50 MiB, the rest for what is written
  const int64_t fit = std::max<int64_t>(1, cache / std::max<int64_t>(1, bytes)) * together;
  return {heads, static_cast<int>(tiles), static_cast<int>(std::min<int64_t>(heads, fit))};
}

/// Whether all rows of a tensor can be moved 16 bytes at a time.
inline bool aligned_16(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

}  // namespace troupe::gpu::cuda
