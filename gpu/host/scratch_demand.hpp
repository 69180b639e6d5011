// What single operations ask of scratch memory; by the files of these operations, whose arithmetic
// it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/host/kernels/kernel_table.hpp"

namespace troupe::gpu::host {

/// What one operation needs while it runs.
struct scratch_demand {
  size_t operation = 0;  ///< of its stream's scratch
  size_t packing = 0;    ///< of that for matrix products
  size_t dnnl = 0;       ///< kept by oneDNN for its shape, over all threads
};

/// Of a product that a team of so many threads makes.
scratch_demand demand_of(const kernel_table& k, const gemm_args& whole, int threads);
scratch_demand demand_of(const kernel_table& k, const linear_forward_args& a, int threads);
scratch_demand demand_of(const kernel_table& k, const linear_backward_input_args& a, int threads);
scratch_demand demand_of(const kernel_table& k, const linear_backward_weight_args& a, int threads);
/// Of the head with its loss and gradients.
scratch_demand demand_of(const kernel_table& k, const head_loss_args& a, int threads);

/// Into how many sums, a double each, the norm of so many elements is cut.
int64_t norm_blocks(int64_t elements);

}  // namespace troupe::gpu::host
