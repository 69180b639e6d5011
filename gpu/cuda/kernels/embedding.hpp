// Embeddings: rows of a table by token, and the gradient of the table.
//
// Backward. Many positions may hold the same token, and float sums must not depend on timing
// (OPS-2), so the positions are sorted by token first, and equal ones are added in order:
//   1. Sort: least significant digit first, at most 9 bits a digit (two passes up to V = 2^18).
//     A pass cuts the positions into tiles of 512; in each, one thread per digit value goes over
//     the tile and counts (then, places) its own: stable, and nothing to race for. About 4 us a
//     kernel at N = 64k, three kernels a pass, whatever C is.
//   2. Pieces: the sorted positions are cut into pieces of 64. A block adds up its piece's runs of
//     equal tokens, for up to 1,024 columns; a run within the piece goes straight to the table
//     (no other block touches that row), one that crosses an end of the piece to a partial sum.
//   3. Runs over several pieces: the block of the piece where the run begins adds the run's partial
//     sums in order. A token in 5 % of 64k positions is a chain of 51 such sums; were all positions
//     of one token, of 1,024.
// So dout is read once, each row of the table that occurs is read and written once, and partial
// sums are at most 1/32 of dout's elements. Sums over positions (position table): a thread adds its
// column over the batch.
//
// Floor, with s = size_of(type), N = B T, U different tokens:
//   forward   bytes N C s (2, or 3 with positions) + 4 N; FLOPs N C with positions
//   backward  bytes N C s (twice with positions) + 8 U C (+ 8 T C); FLOPs N C (2 N C)
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

cudaError_t launch_embedding_forward(cudaStream_t s, const embedding_forward_args& a);

/// Bytes of working memory that the backward pass needs: 16 N + 4 * 2^bits * N / 512 for the sort,
/// N C / 8 for partial sums.
size_t embedding_backward_scratch(const embedding_backward_args& a);
cudaError_t launch_embedding_backward(cudaStream_t s, const embedding_backward_args& a,
                                      void* scratch);

}  // namespace troupe::gpu::cuda
