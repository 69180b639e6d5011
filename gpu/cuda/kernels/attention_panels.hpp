// Tiles of attention in shared memory as groups of four warps multiply them (wgmma; simt.hpp).
//
// A tile of Rows x D elements is D / 64 panels, one behind the other, each Rows times 128 bytes;
// the 16-byte pieces of a row are swapped by the row's number, which is what keeps eight rows, or
// eight columns, in different banks. Head widths below D run with columns of zeros up to D.
//
// A block is one group: 64 rows of the left operands are its own, 16 a warp, and as many blocks as
// registers allow share a multiprocessor, in their own time: while one takes exponentials another
// multiplies. Two or three groups in a block, with half the traffic from L2, meet at every step
// instead: on an H200 they took as long at best and half as long again at worst (docs/gpu.md).
#pragma once

#include "gpu/cuda/kernels/attention_tiles.hpp"

namespace troupe::gpu::cuda {

constexpr int group_rows = 64;  ///< of a group's left operands

/// Whether a multiprocessor of Hopper has the shared memory of so many blocks: 228 KiB, of which
/// each block costs 1 KiB more than it has.
constexpr bool fit_together(int blocks, size_t bytes) {
  return static_cast<size_t>(blocks) * (bytes + 1024) <= 228 * 1024;
}

/// Bytes of a tile.
template <int D>
constexpr size_t panel_bytes(int rows) {
  return static_cast<size_t>(rows) * D * sizeof(bf16);
}

/// Bytes before a row's piece of eight elements.
template <int Rows>
__device__ __forceinline__ int piece_at(int row, int piece) {
  return piece / 8 * Rows * 128 + row * 128 + ((piece % 8 ^ row % 8) * 16);
}

/// Starts copying `Rows` rows to a tile by all threads of the block: the first `there` rows and
/// `width` elements of each from memory, zeros elsewhere. `from` with copy_lane().
template <int D, int Rows>
__device__ __forceinline__ void copy_panels(unsigned char* tile, const bf16* from, int64_t stride,
                                            int there, int width) {
  constexpr int across = D / 8, at_once = attention_threads / across;
  static_assert(across == row_threads<D> && at_once % 8 == 0 && Rows % at_once == 0);
  const int first_row = thread_index() / across, piece = thread_index() % across;
  unsigned char* to = tile + piece_at<Rows>(first_row, piece);
  SIMT_UNROLL
  for (int row = 0; row < Rows; row += at_once) {
    copy_async_16(to + row * 128, from, first_row + row < there && piece * 8 < width);
    from += at_once * stride;
  }
}

/// This step's copies are there for everybody's products, and nobody reads the step before any
/// more.
__device__ __forceinline__ void await_panels() {
  copy_async_wait<0>();
  fence_shared();
  sync_block();
}

/// Enqueues product[64,N] = left[64,D] right[N,D]^T.
template <int D, int N>
__device__ __forceinline__ void multiply_panels(float (&product)[1][N / 8][4],
                                                const unsigned char* left,
                                                const unsigned char* right) {
  const shared_operand a = operand_of(left, 0, 1024), b = operand_of(right, 0, 1024);
  SIMT_UNROLL
  for (int step = 0; step < D / 16; ++step) {
    const int across = step % 4 * 32;
    group_multiply<N>(product[0], a.at(step / 4 * group_rows * 128 + across),
                      b.at(step / 4 * N * 128 + across), step == 0);
  }
}

/// A product, rounded to bfloat16, as the left operand of the next: its layout is one already.
template <int N>
struct group_left {
  uint32_t held[N / 16][4];

  __device__ __forceinline__ explicit group_left(const float (&p)[1][N / 8][4]) {
    SIMT_UNROLL
    for (int i = 0; i < N / 4; ++i) {
      const auto& tile = p[0][i / 4 * 2 + i % 4 / 2];
      held[i / 4][i % 4] = pack_bf16(tile[i % 2 * 2], tile[i % 2 * 2 + 1]);
    }
  }
};

/// Enqueues sum[64,D] += left[64,N] right[N,D].
template <int D, int N>
__device__ __forceinline__ void add_panels(float (&sum)[1][D / 8][4], const group_left<N>& left,
                                           const unsigned char* right) {
  const shared_operand b = operand_of(right, N * 128, 1024);
  SIMT_UNROLL
  for (int step = 0; step < N / 16; ++step)
    group_multiply_add<D>(sum[0], left.held[step], b.at(step * 2048));
}

/// Writes the group's sums, times `factor(half)` for a lane's two rows, by way of a tile of 64 rows
/// that is of no use any more. `there`: the group's rows that exist.
template <int D, class Factor>
__device__ __forceinline__ void store_panels(bf16* to, int64_t stride, unsigned char* tile,
                                             const float (&sum)[1][D / 8][4], int there, int width,
                                             const Factor& factor) {
  sync_block();  // the products of other warps that read the tile are over
  const int warp_row = warp_index() * 16;
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + half * 8 + lane() / 4;
    const float f = factor(half);
    SIMT_UNROLL
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<uint32_t*>(tile + piece_at<group_rows>(row, n) + lane() % 4 * 4) =
          pack_bf16(f * sum[0][n][2 * half], f * sum[0][n][2 * half + 1]);
  }
  sync_warp();
  constexpr int pieces = D / 8;
  SIMT_UNROLL
  for (int i = 0; i < 16 * pieces / 32; ++i) {
    const int at = i * 32 + lane(), row = warp_row + at / pieces, piece = at % pieces;
    if (row < there && piece * 8 < width)
      *reinterpret_cast<pack<bf16, 8>*>(to + row * stride + piece * 8) =
          *reinterpret_cast<const pack<bf16, 8>*>(tile + piece_at<group_rows>(row, piece));
  }
}

}  // namespace troupe::gpu::cuda
