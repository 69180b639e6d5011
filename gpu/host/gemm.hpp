// Matrix products of one thread: C[M,N] (+)= A[M,K] B[K,N], by oneDNN.
//
// Why one thread: the team splits a product itself, so that oneDNN and our kernels never fight over threads,
// and a product's bits depend only on its shape and the split.
//
// Invariants
//   GEMM-1  After the first call with a shape a thread allocates nothing (OPS-1).
//   GEMM-2  oneDNN is held to the instruction set of the kernels (TROUPE_ISA).
#pragma once

#include <cstdint>

#include "gpu/device.hpp"

namespace troupe::gpu::host {

/// One product. Rows of C are contiguous; A and B may be transposed in memory.
struct gemm_args {
  int64_t m, n, k;
  dtype type;                      ///< of A, B, bias, residual
  dtype out_type;                  ///< of C: type, or f32
  const void* a;
  int64_t lda;                     ///< elements between rows of A in memory
  bool transposed_a = false;       ///< memory holds A^T [K,M]
  const void* b;
  int64_t ldb;
  bool transposed_b = false;       ///< memory holds B^T [N,K]
  void* c;
  int64_t ldc;
  bool accumulate = false;         ///< C += instead of =
  const void* bias = nullptr;      ///< [N], optional
  const void* residual = nullptr;  ///< [M,N] with C's row stride, optional
};

/// Runs the product on the calling thread. Throws what oneDNN throws (the stream catches it).
void gemm(const gemm_args& a);

}  // namespace troupe::gpu::host
