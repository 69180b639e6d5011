// Vectors of floats, as wide as the instruction set this file is compiled for.
//
// Why: every kernel file is compiled once per instruction set (gpu/CMakeLists.txt) into a
// namespace of its own, TROUPE_VARIANT; the table chosen at start-up (kernel_table.hpp) leads to
// the best one the machine has.
//
// Invariants
//   VEC-1  Kernel files include no standard header with functions in it: an inline function
//          compiled for a newer machine could be the copy the linker keeps for everyone.
//          Everything here has internal linkage (anonymous namespace).
//   VEC-2  A partial load reads, and a partial store writes, exactly n elements.
#pragma once

#include <stdint.h>

#include "gpu/host/bf16_bits.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef TROUPE_VARIANT
#error "kernel files are compiled per variant; see gpu/CMakeLists.txt"
#endif

#define TROUPE_INLINE [[gnu::always_inline]] inline

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

#if defined(__AVX512F__)
inline constexpr int W = 16;  // floats in a vector
#elif defined(__AVX2__)
inline constexpr int W = 8;
#else
inline constexpr int W = 4;
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef uint32_t vu __attribute__((vector_size(W * 4)));
typedef uint16_t vh __attribute__((vector_size(W * 2)));

TROUPE_INLINE vf splat(float x) {
  return x - vf{};
}
TROUPE_INLINE vf as_float(vi x) {
  return reinterpret_cast<vf>(x);
}
TROUPE_INLINE vi as_int(vf x) {
  return reinterpret_cast<vi>(x);
}

template <class V>
TROUPE_INLINE V load_raw(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
TROUPE_INLINE void store_raw(void* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

TROUPE_INLINE vf widen(vh half) {
#if defined(__AVX512F__)  // gcc makes six instructions of the general form, and two of this
  return reinterpret_cast<vf>(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(half)), 16));
#elif defined(__AVX2__)
  return reinterpret_cast<vf>(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(half)), 16));
#else
  return reinterpret_cast<vf>(__builtin_convertvector(half, vu) << 16);
#endif
}

/// Round to nearest even; NaN stays NaN.
TROUPE_INLINE vh narrow(vf x) {
#if defined(__AVX512BF16__)
  return reinterpret_cast<vh>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x)));
#else
  const vu bits = reinterpret_cast<vu>(x);
  const vu rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const vu quiet = (bits >> 16) | 0x40u;
  const vu is_nan = reinterpret_cast<vu>((bits & 0x7fffffffu) > 0x7f800000u);
  return __builtin_convertvector((rounded & ~is_nan) | (quiet & is_nan), vh);
#endif
}

TROUPE_INLINE vf load(const float* p) {
  return load_raw<vf>(p);
}
TROUPE_INLINE vf load(const bf16_bits* p) {
  return widen(load_raw<vh>(p));
}
TROUPE_INLINE void store(float* p, vf x) {
  store_raw(p, x);
}
TROUPE_INLINE void store(bf16_bits* p, vf x) {
  store_raw(p, narrow(x));
}

/// The first n (0 <= n < W) elements; the rest are zero (VEC-2).
TROUPE_INLINE vf load(const float* p, int n) {
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p));
#else
  vf v{};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * 4);
  return v;
#endif
}
TROUPE_INLINE vf load(const bf16_bits* p, int n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const auto mask = static_cast<__mmask16>((1u << n) - 1);
  return widen(reinterpret_cast<vh>(_mm256_maskz_loadu_epi16(mask, p)));
#else
  vh v{};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * 2);
  return widen(v);
#endif
}
TROUPE_INLINE void store(float* p, vf x, int n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), reinterpret_cast<__m512>(x));
#else
  __builtin_memcpy(p, &x, static_cast<size_t>(n) * 4);
#endif
}
TROUPE_INLINE void store(bf16_bits* p, vf x, int n) {
  const vh half = narrow(x);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1),
                           reinterpret_cast<__m256i>(half));
#else
  __builtin_memcpy(p, &half, static_cast<size_t>(n) * 2);
#endif
}

TROUPE_INLINE vf max(vf a, vf b) {
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(
      _mm512_max_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<vf>(
      _mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a > b ? a : b;
#endif
}
TROUPE_INLINE vf min(vf a, vf b) {
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(
      _mm512_min_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<vf>(
      _mm256_min_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a < b ? a : b;
#endif
}
TROUPE_INLINE vf sqrt(vf x) {
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(_mm512_sqrt_ps(reinterpret_cast<__m512>(x)));
#elif defined(__AVX2__)
  return reinterpret_cast<vf>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#else
  vf r;
  for (int i = 0; i < W; ++i) r[i] = __builtin_sqrtf(x[i]);
  return r;
#endif
}

/// Lanes 0..W-1 added (or compared) as a tree of halves: the same order every time.
TROUPE_INLINE float sum(vf x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(reinterpret_cast<__m512>(x));
#else
  float lane[W];
  store_raw(lane, x);
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
#endif
}
TROUPE_INLINE float max(vf x) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(reinterpret_cast<__m512>(x));
#else
  float lane[W];
  store_raw(lane, x);
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  }
  return lane[0];
#endif
}

/// A number as a type.
template <int N>
struct count_of {
  static constexpr int value = N;
};

/// Calls f(offset, n) over [0, count) in whole vectors (n == W) and one partial one (n < W).
template <class F>
TROUPE_INLINE void for_vectors(int64_t count, F&& f) {
  int64_t i = 0;
  for (; i + W <= count; i += W) f(i, W);
  if (i < count) f(i, static_cast<int>(count - i));
}
template <class T>
TROUPE_INLINE vf load_some(const T* p, int n) {
  return n == W ? load(p) : load(p, n);
}
template <class T>
TROUPE_INLINE void store_some(T* p, vf x, int n) {
  n == W ? store(p, x) : store(p, x, n);
}

/// Lanes 0..n-1 of x; zero in the others.
TROUPE_INLINE vf first_lanes(vf x, int n) {
  float lane[W] = {};
  __builtin_memcpy(lane, &x, static_cast<size_t>(n) * sizeof(float));
  return load_raw<vf>(lane);
}

/// Lanes 0..n-1 of x; those of `rest` in the others.
TROUPE_INLINE vf blend_first(vf x, vf rest, int n) {
  __builtin_memcpy(&rest, &x, static_cast<size_t>(n) * sizeof(float));
  return rest;
}

/// yes where mask is set, no elsewhere.
TROUPE_INLINE vf select(vi mask, vf yes, vf no) {
  return as_float((as_int(yes) & mask) | (as_int(no) & ~mask));
}

/// 0, 1, ..., W-1.
TROUPE_INLINE vi lane_numbers() {
  vi lane;
  for (int i = 0; i < W; ++i) lane[i] = i;
  return lane;
}

/// Transposes the W x W matrix whose rows these are.
TROUPE_INLINE void transpose_square(vf (&r)[W]) {
#if defined(__AVX512F__)
  __m512 t[16], u[16];
  for (int i = 0; i < 16; ++i) u[i] = reinterpret_cast<__m512>(r[i]);
  for (int i = 0; i < 16; i += 2) {  // pairs of rows
    t[i] = _mm512_unpacklo_ps(u[i], u[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(u[i], u[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // 4 x 4 blocks within 128-bit lanes
    u[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {  // 4 x 4 of those blocks
    const __m512 a = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xdd);
    const __m512 c = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x88);
    const __m512 d = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xdd);
    r[i] = reinterpret_cast<vf>(_mm512_shuffle_f32x4(a, c, 0x88));
    r[i + 8] = reinterpret_cast<vf>(_mm512_shuffle_f32x4(a, c, 0xdd));
    r[i + 4] = reinterpret_cast<vf>(_mm512_shuffle_f32x4(b, d, 0x88));
    r[i + 12] = reinterpret_cast<vf>(_mm512_shuffle_f32x4(b, d, 0xdd));
  }
#else
  float square[W][W];
  __builtin_memcpy(square, r, sizeof square);
  for (int i = 0; i < W; ++i) {
    float column[W];
    for (int j = 0; j < W; ++j) column[j] = square[j][i];
    r[i] = load_raw<vf>(column);
  }
#endif
}

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2 (Cephes expf).
TROUPE_INLINE vf exp_tail(vf r) {
  vf p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  return p * r + 5.0000001201e-1f;
}

/// e^x to 1 unit in the last place or so; 0 below -87.3, clamped above 88.7 (finite). NaN gives
/// NaN. Cody-Waite reduction, polynomial of degree 7.
TROUPE_INLINE vf exp(vf x) {
#if defined(__AVX512F__)
  const __m512 raw = reinterpret_cast<__m512>(x);
  const __mmask16 kept = _mm512_cmp_ps_mask(raw, _mm512_set1_ps(-87.33654f), _CMP_NLT_UQ);
  const vf bounded =
      reinterpret_cast<vf>(_mm512_min_ps(_mm512_set1_ps(88.72f), raw));  // second, if NaN
  const __m512 whole = _mm512_roundscale_ps(
      reinterpret_cast<__m512>(bounded * 1.44269504088896341f), _MM_FROUND_TO_NEAREST_INT);
  const vf n = reinterpret_cast<vf>(whole);
  vf r = bounded - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  const vf p = exp_tail(r) * (r * r) + r + 1.0f;
  return reinterpret_cast<vf>(_mm512_maskz_scalef_ps(kept, reinterpret_cast<__m512>(p), whole));
#else
  const vf low = splat(-87.33654f);
  const vi tiny = x < low;
  const vf bounded = max(min(x, splat(88.72f)), low);
  const vf magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const vf rounded = bounded * 1.44269504088896341f + magic;
  const vf n = rounded - magic;
  vf r = bounded - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  const vf p = exp_tail(r) * (r * r) + r + 1.0f;
  // 2^n in two factors, so that n = 128 does not overflow the exponent field on its own.
  const vi whole = as_int(rounded) - as_int(magic);
  const vi half = whole >> 1;
  const vf scaled = p * as_float((half + 127) << 23) * as_float((whole - half + 127) << 23);
  const vi nan = x != x;
  return as_float((as_int(scaled) & ~tiny & ~nan) | (as_int(x) & nan));
#endif
}

inline constexpr float log2_e = 1.44269504088896341f;

/// 2^x for x <= 127 to 2 units in the last place: half the work of exp, for the weights of
/// attention. Less than 2^-126 may come out as 0.
TROUPE_INLINE vf exp2(vf x) {
#if defined(__AVX512F__)
  const __m512 whole = _mm512_roundscale_ps(reinterpret_cast<__m512>(x), _MM_FROUND_TO_NEAREST_INT);
  const vf r = x - reinterpret_cast<vf>(whole);
#else
  const vf magic = splat(12582912.0f);  // as in exp
  const vf bounded = max(x, splat(-127.0f));
  const vf rounded = bounded + magic;
  const vf r = bounded - (rounded - magic);
#endif
  vf p = splat(1.54614447e-4f);  // interpolates 2^r at Chebyshev's points of [-1/2, 1/2]
  p = p * r + 1.34004282e-3f;
  p = p * r + 9.61805668e-3f;
  p = p * r + 5.55032723e-2f;
  p = p * r + 2.40226509e-1f;
  p = p * r + 6.93147207e-1f;
  p = p * r + 1.0f;
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(_mm512_scalef_ps(reinterpret_cast<__m512>(p), whole));
#else
  const vi exponent = as_int(rounded) - as_int(magic) + 127;  // 0 makes a zero
  return p * as_float(exponent << 23);
#endif
}

/// 1 / x for ordinary x: an estimate of 14 bits and one step of Newton's where division is slow.
TROUPE_INLINE vf reciprocal(vf x) {
#if defined(__AVX512F__)
  const vf y = reinterpret_cast<vf>(_mm512_rcp14_ps(reinterpret_cast<__m512>(x)));
  return y + y * (1.0f - x * y);
#else
  return 1.0f / x;
#endif
}

/// 1 / (1 + e^-x) for |x| < 10^20, to 1e-6 for |x| < 10 (relative).
TROUPE_INLINE vf sigmoid(vf x) {
  return reciprocal(1.0f + exp2(max(x, splat(-80.0f)) * -log2_e));
}

}  // namespace
}  // namespace troupe::gpu::host::TROUPE_VARIANT
