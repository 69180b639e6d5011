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

/// What becomes of a tile's sums, for one block of the depth.
struct outcome {
  /// p0 and depth say which block of g.k this is; `sums` holds partial sums of a bfloat16 result,
  /// `ld` floats a row.
  outcome(const gemm_args& product, int64_t p0, int64_t depth, float* sums, int64_t ld)
      : g(product),
        add_c(p0 == 0 && product.accumulate),
        add_partial(p0 > 0),
        last(p0 + depth == product.k),
        partial(product.out_type == dtype::f32 ? static_cast<float*>(product.c) : sums),
        partial_ld(product.out_type == dtype::f32 ? product.ldc : ld) {
    const bool plain = g.out_type == dtype::f32 && g.bias == nullptr && g.residual == nullptr;
    sums_only = plain || (!last && !add_c);
    adds_to_partial = add_partial || (sums_only && add_c);
  }

  const gemm_args& g;
  bool add_c;        ///< C itself is added (accumulate), in the first block
  bool add_partial;  ///< sums of earlier blocks are added
  bool last;         ///< the result goes to C, else to `partial`
  float* partial;    ///< sums of earlier blocks; C itself if that is float32
  int64_t partial_ld;
  bool sums_only;        ///< all there is to do is to write to `partial`, or add to it
  bool adds_to_partial;  ///< which of the two

  template <class T>
  TROUPE_INLINE void put_typed(int64_t i, int64_t j, vf x, int n) const {
    T* c = static_cast<T*>(g.c) + i * g.ldc + j;
    if (add_c) x += load_some(c, n);
    if (add_partial) x += load_some(partial + i * partial_ld + j, n);
    if (!last) return store_some(partial + i * partial_ld + j, x, n);
    x = g.type == dtype::bf16 ? decorate<bf16_bits>(i, j, x, n) : decorate<float>(i, j, x, n);
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
