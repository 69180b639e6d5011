// Matrix products on the device, in the row-major terms of ops.hpp.
//
// Why a seam: on a GPU the products are cuBLASLt's (cublas_matmul.cpp); the emulated device, which
// tests every kernel on the CPU, has plain loops behind the same call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "gpu/device.hpp"

namespace troupe::gpu::cuda {

/// d[M,N] = a[M,K] b[K,N] (+ bias[N] in every row) (+ c[M,N]); float32 accumulation, rounded once
/// when stored. Rows may be farther apart than they are long: a stride counts elements, 0 means
/// packed.
struct matmul_args {
  int64_t m = 0, n = 0, k = 0;
  dtype in = dtype::bf16;   ///< of a, b and bias
  dtype out = dtype::bf16;  ///< of c and d: `in`, or f32
  const void* a = nullptr;
  bool a_transposed = false;  ///< memory holds a as [K,M]
  int64_t a_stride = 0;
  const void* b = nullptr;
  bool b_transposed = false;  ///< memory holds b as [N,K]: the weights' [out, in]
  int64_t b_stride = 0;
  const void* bias = nullptr;  ///< optional
  const void* c = nullptr;     ///< optional; may equal d; rows as far apart as d's
  void* d = nullptr;
  int64_t d_stride = 0;
};

/// The products of one device. Not thread-safe across streams: one per stream.
class matmul {
 public:
  virtual ~matmul() = default;

  /// Enqueues the product on `s`. f32 inputs are multiplied in full float32 (no TF32): they are for
  /// checking. Fails with unavailable where the library has no algorithm for the shape.
  virtual status run(cudaStream_t s, const matmul_args& a) = 0;
};

/// How products are chosen.
struct matmul_options {
  /// The same bits for the same call, run after run and on every device of the kind: the first
  /// algorithm of the heuristics that does not split K by atomics.
  bool deterministic = true;
  size_t workspace_bytes = size_t{32} << 20;
};

/// cuBLASLt, loaded when first asked for. Fails with unavailable, saying what to install.
result<std::unique_ptr<matmul>> make_cublas_matmul(const matmul_options& options = {});

}  // namespace troupe::gpu::cuda
