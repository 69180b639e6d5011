// Rows moved in pieces: what the memory-bound kernels share. Included by kernels only.
//
// A piece is what a thread moves at once: 8 values (16 bytes of bfloat16, twice 16 of float32)
// where rows begin at such boundaries, else one value. Every kernel exists for both.
#pragma once

#include <initializer_list>

#include "gpu/cuda/simt.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

constexpr int wide = 8;               ///< values of a wide piece
constexpr int multiprocessors = 132;  ///< of H100 and H200: what work is cut for, everywhere

/// `vec` values as they lie in memory.
template <class T, int vec>
struct alignas(sizeof(T) * vec) piece {
  T v[vec];
};
template <>
struct alignas(16) piece<bf16, wide> {
  uint32_t pairs[wide / 2];
};

template <class T, int vec>
__device__ __forceinline__ piece<T, vec> load(const void* base, int64_t element) {
  return *reinterpret_cast<const piece<T, vec>*>(static_cast<const T*>(base) + element);
}

template <class T, int vec>
__device__ __forceinline__ void expand(const piece<T, vec>& from, float (&to)[vec]) {
  if constexpr (sizeof(T) == 2 && vec == wide) {
    for (int i = 0; i < wide / 2; ++i) {
      to[2 * i] = bits_to_float(from.pairs[i] << 16);
      to[2 * i + 1] = bits_to_float(from.pairs[i] & 0xffff0000u);
    }
  } else {
    for (int i = 0; i < vec; ++i) to[i] = to_float(from.v[i]);
  }
}

/// Rounds once.
template <class T, int vec>
__device__ __forceinline__ piece<T, vec> shrink(const float (&from)[vec]) {
  piece<T, vec> to;
  if constexpr (sizeof(T) == 2 && vec == wide) {
    for (int i = 0; i < wide / 2; ++i) to.pairs[i] = pack_bf16(from[2 * i], from[2 * i + 1]);
  } else {
    for (int i = 0; i < vec; ++i) to.v[i] = from_float<T>(from[i]);
  }
  return to;
}

template <class T, int vec>
__device__ __forceinline__ void store(void* base, int64_t element, const piece<T, vec>& from) {
  *reinterpret_cast<piece<T, vec>*>(static_cast<T*>(base) + element) = from;
}
template <class T, int vec>
__device__ __forceinline__ void store(void* base, int64_t element, const float (&from)[vec]) {
  store<T, vec>(base, element, shrink<T, vec>(from));
}

/// Quotient and remainder of numbers that are nearly always small: 64-bit division takes four times
/// as long.
struct divided {
  int64_t quotient;
  int remainder;
};
__device__ __forceinline__ divided divide(int64_t a, int b) {
  if (a <= int64_t{0x7fffffff}) {
    const auto q = static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
    return {q, static_cast<int>(static_cast<uint32_t>(a) - q * static_cast<uint32_t>(b))};
  }
  const int64_t q = a / b;
  return {q, static_cast<int>(a - q * b)};
}

/// Where a token of [B,T] is in its row or, with documents, in its document.
template <bool in_documents>
__device__ __forceinline__ int position_of(int64_t token, int64_t seq, const row_documents& d) {
  const int place = divide(token, static_cast<int>(seq)).remainder;
  if constexpr (in_documents) {
    SIMT_ASSERT(d.first[token] >= 0 && d.first[token] <= place);
    return place - d.first[token];
  } else {
    return place;
  }
}

/// Whether rows of `width` values of `type` at each of `bases` (null: absent) can be moved in wide
/// pieces.
inline bool moves_wide(dtype type, int64_t width, std::initializer_list<const void*> bases) {
  if (width % wide != 0) return false;
  for (const void* base : bases)
    if (reinterpret_cast<uintptr_t>(base) % (wide * size_of(type)) != 0) return false;
  return true;
}

}  // namespace troupe::gpu::cuda
