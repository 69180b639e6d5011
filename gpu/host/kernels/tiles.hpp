// AMX tiles: their layout, and packing bfloat16 matrices for them.
//
// TDPBF16PS multiplies a tile of A (16 rows of 32 values along the depth) with a tile of B (16
// rows, each the values of two depths of 16 columns, interleaved) and adds to a tile of 16 x 16
// float32. A packed tile is 1 KiB of consecutive memory either way.
#pragma once

#if defined(__AMX_BF16__)

#include "gpu/host/kernels/vec.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

inline constexpr int64_t tile_values = 512;  // bfloat16 values in a tile
inline constexpr int64_t tile_depth = 32;    // of them along the depth
inline constexpr int64_t tile_edge = 16;     // rows of A, columns of B
inline constexpr int64_t edge = 32;          // rows and columns of C in four tiles

TROUPE_INLINE int64_t round_up(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Lends the calling thread eight tiles of 16 rows of 64 bytes, for as long as it lives.
struct tile_lease {
  tile_lease() {
    alignas(64) uint8_t layout[64] = {};
    layout[0] = 1;
    for (int i = 0; i < 8; ++i) layout[16 + 2 * i] = 64, layout[48 + i] = 16;
    asm volatile("" : : "r"(layout) : "memory");  // gcc 12 takes the intrinsic to read 8 bytes only
    _tile_loadconfig(layout);
  }
  ~tile_lease() { _tile_release(); }
  tile_lease(const tile_lease&) = delete;
  tile_lease& operator=(const tile_lease&) = delete;
};

TROUPE_INLINE __m512i load_values(const bf16_bits* p, int64_t n) {
  if (n >= 32) return _mm512_loadu_si512(p);
  if (n <= 0) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi16((1u << n) - 1, p);
}

/// 32 floats as bfloat16.
TROUPE_INLINE __m512i narrow_two(vf low, vf high) {
  return reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low)));
}

/// Two rows of 32 values -> pairs of columns 0..15 and of columns 16..31.
TROUPE_INLINE void interleave(__m512i even, __m512i odd, __m512i& low, __m512i& high) {
  const __m512i a = _mm512_unpacklo_epi16(even, odd);  // per 128-bit lane: columns 0..3, 8..11, ...
  const __m512i b = _mm512_unpackhi_epi16(even, odd);  // columns 4..7, 12..15, ...
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  low = _mm512_permutex2var_epi64(a, first, b);
  high = _mm512_permutex2var_epi64(a, second, b);
}

/// Transposes 16 x 16 pairs of values and stores them as a tile.
TROUPE_INLINE void store_transposed(vf (&rows)[16], bf16_bits* to) {
  transpose_square(rows);
  for (int i = 0; i < 16; ++i) store_raw(to + i * 32, rows[i]);
}

/// One depth step (up to 32) by up to 32 columns of a row-major matrix with the depth along its
/// rows, as the two B tiles `to` and `to + tile_values`.
TROUPE_INLINE void pack_interleaved(const bf16_bits* from, int64_t ld, int64_t depth,
                                    int64_t columns, bf16_bits* to) {
  for (int64_t p = 0; p < tile_depth; p += 2, to += 32) {
    const __m512i even = load_values(from + p * ld, p < depth ? columns : 0);
    const __m512i odd = load_values(from + (p + 1) * ld, p + 1 < depth ? columns : 0);
    __m512i low, high;
    interleave(even, odd, low, high);
    _mm512_storeu_si512(to, low);
    _mm512_storeu_si512(to + tile_values, high);
  }
}

/// 16 rows (up to) of up to 32 depths, the depth along the columns, transposed to one B tile.
TROUPE_INLINE void pack_transposed(const bf16_bits* from, int64_t ld, int64_t depth, int64_t rows,
                                   bf16_bits* to) {
  vf lines[16];
  for (int i = 0; i < 16; ++i) {
    lines[i] = reinterpret_cast<vf>(load_values(from + i * ld, i < rows ? depth : 0));
  }
  store_transposed(lines, to);
}

/// 16 rows (up to) of up to 32 depths as one A tile.
TROUPE_INLINE void pack_rows(const bf16_bits* from, int64_t ld, int64_t depth, int64_t rows,
                             bf16_bits* to) {
  for (int i = 0; i < 16; ++i) {
    _mm512_storeu_si512(to + i * 32, load_values(from + i * ld, i < rows ? depth : 0));
  }
}

TROUPE_INLINE vf dot(vf sum, __m512bh a, __m512bh b) {
  return reinterpret_cast<vf>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), a, b));
}

/// Up to 32 depths (rows in memory) of up to 32 columns, transposed to the two A tiles `to`
/// (columns 0..15) and `to + second` (columns 16..31). Their sums over the depth are added to
/// sum_low and sum_high.
TROUPE_INLINE void pack_rows_transposed(const bf16_bits* from, int64_t ld, int64_t depth,
                                        int64_t columns, bf16_bits* to, int64_t second, vf& sum_low,
                                        vf& sum_high) {
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
  vf low[16], high[16];
  for (int64_t p = 0; p < 16; ++p) {
    __m512i a, b;
    interleave(load_values(from + 2 * p * ld, 2 * p < depth ? columns : 0),
               load_values(from + (2 * p + 1) * ld, 2 * p + 1 < depth ? columns : 0), a, b);
    low[p] = reinterpret_cast<vf>(a);
    high[p] = reinterpret_cast<vf>(b);
    sum_low = dot(sum_low, reinterpret_cast<__m512bh>(a), ones);
    sum_high = dot(sum_high, reinterpret_cast<__m512bh>(b), ones);
  }
  store_transposed(low, to);
  store_transposed(high, to + second);
}

/// Rows of a row-major matrix. Packing zero-fills rows to a multiple of 32, and the width likewise.
struct matrix_rows {
  const bf16_bits* data;
  int64_t ld, rows, width;
};

/// Left operand: A tiles of rows x width, [row / 16][depth / 32].
inline void pack_left(const matrix_rows& x, bf16_bits* to) {
  for (int64_t t = 0; t < round_up(x.rows, edge); t += tile_edge) {
    for (int64_t d = 0; d < x.width; d += tile_depth, to += tile_values) {
      const int64_t depth = x.width - d < tile_depth ? x.width - d : tile_depth;
      pack_rows(x.data + t * x.ld + d, x.ld, depth, x.rows - t, to);
    }
  }
}

/// Right operand, the depth along the width: panels of 32 rows, [row / 32][depth / 32] pairs of B
/// tiles.
inline void pack_right_transposed(const matrix_rows& x, bf16_bits* to) {
  for (int64_t t = 0; t < x.rows; t += edge) {
    for (int64_t d = 0; d < x.width; d += tile_depth, to += 2 * tile_values) {
      const bf16_bits* from = x.data + t * x.ld + d;
      const int64_t depth = x.width - d < tile_depth ? x.width - d : tile_depth;
      pack_transposed(from, x.ld, depth, x.rows - t, to);
      pack_transposed(from + tile_edge * x.ld, x.ld, depth, x.rows - t - tile_edge,
                      to + tile_values);
    }
  }
}

/// Where the tiles of a block of A are: tile (i, p) at data + i * row + p * step, its rows
/// `stride` bytes apart.
struct tiled_a {
  const bf16_bits* data;
  int64_t row, step, stride;  // values per 16 rows; values per 32 depths; bytes
};

TROUPE_INLINE void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/// Tiles 0..3 hold 32 x 32 sums: from memory, to memory, and plus a strip of A times a panel of B.
TROUPE_INLINE void load_sums(const float* c, int64_t ld) {
  const int64_t stride = ld * 4;
  _tile_loadd(0, c, stride);
  _tile_loadd(1, c + tile_edge, stride);
  _tile_loadd(2, c + tile_edge * ld, stride);
  _tile_loadd(3, c + tile_edge * ld + tile_edge, stride);
}

TROUPE_INLINE void store_sums(float* c, int64_t ld) {
  const int64_t stride = ld * 4;
  _tile_stored(0, c, stride);
  _tile_stored(1, c + tile_edge, stride);
  _tile_stored(2, c + tile_edge * ld, stride);
  _tile_stored(3, c + tile_edge * ld + tile_edge, stride);
}

TROUPE_INLINE void multiply_tiles(const tiled_a& a, const bf16_bits* b, int64_t depth) {
  const bf16_bits *a0 = a.data, *a1 = a.data + a.row;
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
  }
}

}  // namespace
}  // namespace troupe::gpu::host::TROUPE_VARIANT

#endif
