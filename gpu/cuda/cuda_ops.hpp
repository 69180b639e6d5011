// The mathematics of a CUDA device: every operation as launches of kernels and products.
//
// Who does what: kernels/ holds what moves through memory once (rows, activations, optimizers,
// sums), the softmax of the head and attention; products are a matmul's (cuBLASLt). Here an
// operation becomes launches on its stream, with the stream's working memory.
//
// Invariants
//   COP-1  A stream's products are its own: the first operation on a stream makes its matmul, whose
//     workspace later ones of that stream use in turn.
//   COP-2  The head's logits exist for one slab of tokens at a time, `slab_bytes` of them; slabs
//     depend on the shape, and on how much memory a device of its kind has, alone (DEV-5).
//   COP-3  An activation or a bias gradient that its product does not take (matmul::fuses) follows
//     in a pass of its own; which of both it is depends on shape, type and alignment alone.
//   COP-4  The head's words are multiplied together as far as 8 divides their number, the up to 7
//     others apart: for all 50,257 at once the library chooses kernels a sixth as fast (H100).
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "gpu/cuda/matmul.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

class cuda_device;

/// Makes the products of one more stream, on the current device.
using matmul_factory = std::function<result<std::unique_ptr<matmul>>()>;

struct cuda_ops_options {
  /// Logits of the head that exist at once, at most; none: by the device's memory. Each slab reads
  /// and writes all of dw: with few tokens that takes most of the time.
  std::optional<size_t> slab_bytes = {};
  bool fused_bias_gradients = false;  ///< as in cuda_options
};

/// Operations for streams that are all cuda_stream. A stream whose products cannot be made fails
/// with their error (DEV-3).
std::unique_ptr<gpu::ops> make_cuda_ops(matmul_factory products,
                                        const cuda_ops_options& options = {});

/// The operations of `owner` with the products it has: cuBLASLt's (device_ops.cpp), or those of
/// whoever emulates it. Fails with unavailable where a library they need is missing.
result<std::unique_ptr<gpu::ops>> make_device_ops(cuda_device& owner,
                                                    const cuda_ops_options& options = {});

}  // namespace troupe::gpu::cuda
