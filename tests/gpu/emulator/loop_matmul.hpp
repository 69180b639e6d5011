// Matrix products of the emulated device: plain loops on the emulated stream.
#pragma once

#include <memory>

#include "gpu/cuda/matmul.hpp"

namespace troupe::gpu::cuda {

/// Sums in float64, in the order of k, rounded once. Asynchronous, as the real ones.
std::unique_ptr<matmul> make_loop_matmul();

/// The same, as a library that has no epilogues.
std::unique_ptr<matmul> make_plain_loop_matmul();

}  // namespace troupe::gpu::cuda
