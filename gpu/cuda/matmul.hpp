// Matrix products on the device, in the row-major terms of ops.hpp.
//
// Why a seam: on a GPU the products are cuBLASLt's (cublas_matmul.cpp); the emulated device, which
// tests every kernel on the CPU, has plain loops behind the same call (tests/gpu/emulator).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "gpu/cuda/working_memory.hpp"
#include "gpu/device.hpp"

namespace troupe::gpu::cuda {

/// What else a product does with its elements before they are stored, or with its operands.
enum class epilogue : uint8_t {
  none,
  gelu,           ///< aux = the sum, d = gelu_tanh(the sum, not yet rounded); no c
  gelu_gradient,  ///< d = the sum times the slope of gelu_tanh at aux; no c, no bias
  sums_of_a,      ///< aux[m] = a's sum over K, overwritten; no bias
};

/// d[M,N] = a[M,K] b[K,N] (+ bias[N] in every row) (+ c[M,N]); float32 accumulation, rounded when
/// stored (once where matrices are aligned: MM-1 of cublas_matmul.cpp). Rows may be farther apart
/// than they are long: a stride counts elements, 0 means packed.
struct matmul_args {
  int64_t m = 0, n = 0, k = 0;
  dtype in = dtype::bf16;   ///< of a and b
  dtype out = dtype::bf16;  ///< of bias, c and d: `in`, or f32
  const void* a = nullptr;
  bool a_transposed = false;  ///< memory holds a as [K,M]
  int64_t a_stride = 0;
  const void* b = nullptr;
  bool b_transposed = false;  ///< memory holds b as [N,K]: the weights' [out, in]
  int64_t b_stride = 0;
  const void* bias = nullptr;  ///< optional
  const void* c = nullptr;     ///< optional; d itself or apart from it; rows as far apart as d's
  void* d = nullptr;
  int64_t d_stride = 0;
  epilogue after = epilogue::none;
  /// Of type `out`, apart from d: [M,N], its rows as far apart as d's; [M] for sums_of_a; null
  /// without an epilogue: products that had it left over were wrong on an H100.
  void* aux = nullptr;
};

/// The products of one device. Not thread-safe across streams: one per stream.
class matmul {
 public:
  virtual ~matmul() = default;

  /// Whether run() takes the product with its epilogue; always, where there is none. The library is
  /// asked when a key is new, the answer is kept (MM-4).
  virtual result<bool> fuses(const matmul_args& a) = 0;

  /// Enqueues the product on `s`. f32 inputs are multiplied in full float32 (no TF32): they are for
  /// checking. Nothing is read or written where M or N is 0; an empty sum (K = 0) is 0. Fails with
  /// unavailable where the library has no algorithm for the shape or the epilogue, or refuses the
  /// call, with usage where the arguments contradict each other.
  virtual status run(cudaStream_t s, const matmul_args& a) = 0;
};

/// How products are chosen.
struct matmul_options {
  /// The same bits for the same call, run after run and on every device of the kind: the first
  /// algorithm of the heuristics that does not add parts of K up in the output, one block after
  /// another.
  bool deterministic = true;
  size_t workspace_bytes = product_workspace_bytes;  ///< algorithms may use it, allocated once
};

struct cublas_lt_table;  // gpu/cuda/cublas_lt.hpp

/// cuBLASLt on the current device, loaded when first asked for. Fails with unavailable, saying what
/// to install; with no_memory where the workspace does not fit.
result<std::unique_ptr<matmul>> make_cublas_matmul(const matmul_options& options = {});

/// The same over another table of functions (tests).
result<std::unique_ptr<matmul>> make_cublas_matmul(const matmul_options& options,
                                                   const cublas_lt_table& table);

}  // namespace troupe::gpu::cuda
