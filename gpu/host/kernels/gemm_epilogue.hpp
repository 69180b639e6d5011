// What a matrix product does with its sums: earlier partial sums, bias, residual, accumulation,
// rounding.
#pragma once

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/kernels/vec.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

TROUPE_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
TROUPE_INLINE int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/// What becomes of a tile's sums, for one block of the depth. Bias, residual and C itself, where
/// C is added to, join the sums of the first block.
struct epilogue {
  /// p0 and depth say which block of g.k this is; `sums` holds partial sums of a bfloat16 result,
  /// `ld` floats a row.
  epilogue(const gemm_args& product, int64_t p0, int64_t depth, float* sums, int64_t ld)
      : g(product),
        first(p0 == 0),
        last(p0 + depth == product.k),
        add_partial(p0 > 0),
        partial(product.out_type == dtype::f32 ? static_cast<float*>(product.c) : sums),
        partial_ld(product.out_type == dtype::f32 ? product.ldc : ld) {
    const bool floats = g.out_type == dtype::f32 && g.type == dtype::f32;
    const bool plain = g.bias == nullptr && g.residual == nullptr;
    const bool one = g.residual == nullptr || !g.accumulate;
    simple =
        first ? (floats && one) || (plain && (g.out_type == dtype::f32 || !(last || g.accumulate)))
              : !last || g.out_type == dtype::f32;
  }

  const gemm_args& g;
  bool first;        ///< block of the depth
  bool last;         ///< block of the depth: the result goes to C, else to `partial`
  bool add_partial;  ///< sums of earlier blocks are not in the sums yet
  float* partial;    ///< sums of earlier blocks; C itself if that is float32
  int64_t partial_ld;
  bool simple;  ///< `partial` = sums + base() + bias(), all of them float32

  /// What is added at [i, j], rows partial_ld apart; null: nothing.
  TROUPE_INLINE const float* base(int64_t i, int64_t j) const {
    const float* matrix = !first || g.accumulate ? partial : static_cast<const float*>(g.residual);
    return matrix == nullptr ? nullptr : matrix + i * partial_ld + j;
  }
  /// The bias of columns j..; null: none.
  TROUPE_INLINE const float* bias(int64_t j) const {
    return !first || g.bias == nullptr ? nullptr : static_cast<const float*>(g.bias) + j;
  }

  template <class T>
  TROUPE_INLINE void put_typed(int64_t i, int64_t j, vf x, int n) const {
    T* c = static_cast<T*>(g.c) + i * g.ldc + j;
    if (first) {
      if (g.accumulate) x += load_some(c, n);
      x = g.type == dtype::bf16 ? decorate<bf16_bits>(i, j, x, n) : decorate<float>(i, j, x, n);
    } else if (add_partial) {
      x += load_some(partial + i * partial_ld + j, n);
    }
    if (!last) return store_some(partial + i * partial_ld + j, x, n);
    store_some(c, x, n);
  }
  template <class T>
  TROUPE_INLINE vf decorate(int64_t i, int64_t j, vf x, int n) const {
    if (g.bias != nullptr) x += load_some(static_cast<const T*>(g.bias) + j, n);
    if (g.residual != nullptr) {
      x += load_some(static_cast<const T*>(g.residual) + i * g.ldc + j, n);
    }
    return x;
  }
  /// Columns j.. of row i of C get x (n of it).
  TROUPE_INLINE void put(int64_t i, int64_t j, vf x, int n) const {
    g.out_type == dtype::bf16 ? put_typed<bf16_bits>(i, j, x, n) : put_typed<float>(i, j, x, n);
  }
};

}  // namespace
}  // namespace troupe::gpu::host::TROUPE_VARIANT
