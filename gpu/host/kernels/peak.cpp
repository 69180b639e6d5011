// Loops of multiply-adds on registers alone: the ceiling that everything else is measured against.
#include "gpu/host/kernels/kernels.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

constexpr int chains = W == 16 ? 24 : 12;  // independent sums: more than latency times ports

}  // namespace

double burn_f32(int64_t rounds) {
  vf acc[chains];
  for (int i = 0; i < chains; ++i) acc[i] = splat(static_cast<float>(i));
  const vf x = splat(0.5f), y = splat(0.25f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < chains; ++i) acc[i] = acc[i] * x + y;
  }
  vf total{};
  for (int i = 0; i < chains; ++i) total += acc[i];
  volatile float keep = sum(total);
  static_cast<void>(keep);
  return static_cast<double>(rounds) * chains * W * 2;
}

#if defined(__AVX512BF16__)
double burn_dot_bf16(int64_t rounds) {
  __m512 acc[chains];
  for (int i = 0; i < chains; ++i) acc[i] = _mm512_setzero_ps();
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < chains; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], x, x);
  }
  __m512 total = _mm512_setzero_ps();
  for (int i = 0; i < chains; ++i) total = _mm512_add_ps(total, acc[i]);
  volatile float keep = sum(reinterpret_cast<vf>(total));
  static_cast<void>(keep);
  return static_cast<double>(rounds) * chains * 32 * 2;
}
#endif

#if defined(__AMX_BF16__)
double burn_tiles_bf16(int64_t rounds) {
  alignas(64) uint8_t layout[64] = {};
  layout[0] = 1;  // palette 1: eight tiles of 16 rows of 64 bytes
  for (int i = 0; i < 8; ++i) layout[16 + 2 * i] = 64, layout[48 + i] = 16;
  asm volatile("" : : "r"(layout) : "memory");  // gcc 12 takes the intrinsic to read 8 bytes only
  _tile_loadconfig(layout);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}
#endif

}  // namespace troupe::gpu::host::TROUPE_VARIANT
