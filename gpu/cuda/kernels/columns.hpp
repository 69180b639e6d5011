// Sums down the columns of matrices, in a fixed order: the gradients of biases and norm weights.
//
// Two kernels: each block sums a slice of the rows into a row of partial sums; then each column's
// partial sums are added in the order of the slices. Both orders depend on the shape alone (OPS-2).
// Floor: bytes rows * width * size_of(type); one FLOP per element.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

/// Bytes of working memory that launch_add_column_sums needs.
size_t column_sums_scratch(int64_t rows, int64_t width);

/// out[c] += sum of m[r][c] over r; m[rows, width] of `type`.
cudaError_t launch_add_column_sums(cudaStream_t s, const void* m, dtype type, int64_t rows,
                                   int64_t width, float* out, void* scratch);

/// The second half alone: first[c] += sum of partial[0][r][c] over r, second[c] += that of
/// partial[1][r][c] (second null: partial holds one matrix). partial[1 or 2, rows, width].
cudaError_t launch_add_partial_sums(cudaStream_t s, const float* partial, int64_t rows,
                                    int64_t width, float* first, float* second);

}  // namespace troupe::gpu::cuda
