// Column sums; see columns.hpp. A warp reads 32 pieces side by side; the 8 warps of a block take
// every eighth row of the slice each, four rows in flight, and are added up in order.
#include "gpu/cuda/kernels/columns.hpp"

#include <algorithm>

#include "gpu/cuda/kernels/pieces.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int warps = 8;
constexpr int block = 32 * warps;
constexpr int in_flight = 4;
constexpr int64_t least_rows = 64;  ///< of a slice

/// Into how many slices the rows are cut: eight blocks for each multiprocessor.
int64_t slices_of(int64_t rows, int64_t width) {
  const int64_t column_blocks = (width + 32 * wide - 1) / (32 * wide);
  const int64_t most = (rows + least_rows - 1) / least_rows;
  return std::clamp<int64_t>(multiprocessors * 8 / column_blocks, 1, std::max<int64_t>(most, 1));
}

template <class T, int vec>
__global__ void slice_sums_kernel(const void* m, int64_t rows, int64_t width, int64_t slice,
                                  float* partial) {
  float* shared = shared_memory<float>();  // [warps][32 * vec]
  const int64_t column = (int64_t{block_index()} * 32 + lane()) * vec;
  const int64_t begin = block_index_y() * slice;
  const int64_t end = begin + slice < rows ? begin + slice : rows;
  float sum[vec] = {};
  if (column < width) {
    for (int64_t r = begin + warp_index(); r < end; r += in_flight * warps) {
      piece<T, vec> got[in_flight] = {};
      for (int i = 0; i < in_flight; ++i)
        if (r + i * warps < end) got[i] = load<T, vec>(m, (r + i * warps) * width + column);
      for (int i = 0; i < in_flight; ++i) {
        float v[vec];
        expand(got[i], v);
        for (int k = 0; k < vec; ++k) sum[k] += v[k];
      }
    }
  }
  for (int k = 0; k < vec; ++k) shared[(warp_index() * 32 + lane()) * vec + k] = sum[k];
  sync_block();
  const int mine = thread_index();
  const int64_t out = int64_t{block_index()} * 32 * vec + mine;
  if (mine >= 32 * vec || out >= width) return;
  float total = 0;
  for (int w = 0; w < warps; ++w) total += shared[w * 32 * vec + mine];
  partial[block_index_y() * width + out] = total;
}

/// Adds `rows` partial sums to each of 32 columns.
__global__ void partial_sums_kernel(const float* __restrict__ partial, int64_t rows, int64_t width,
                                    float* first, float* second) {
  float* shared = shared_memory<float>();  // [warps][32]
  const int64_t column = int64_t{block_index()} * 32 + lane();
  const float* from = partial + block_index_y() * rows * width;
  float sum = 0;
  if (column < width) {
    for (int64_t r = warp_index(); r < rows; r += wide * warps) {
      float got[wide];
      for (int i = 0; i < wide; ++i)
        got[i] = r + i * warps < rows ? from[(r + i * warps) * width + column] : 0.0f;
      for (int i = 0; i < wide; ++i) sum += got[i];
    }
  }
  shared[thread_index()] = sum;
  sync_block();
  if (warp_index() > 0 || column >= width) return;
  float total = 0;
  for (int w = 0; w < warps; ++w) total += shared[w * 32 + lane()];
  float* out = block_index_y() == 0 ? first : second;
  out[column] += total;
}

template <class T, int vec>
cudaError_t slice_sums(cudaStream_t s, const void* m, int64_t rows, int64_t width, int64_t slices,
                       float* partial) {
  const int64_t slice = (rows + slices - 1) / slices;
  return launch(slice_sums_kernel<T, vec>,
                {blocks_for(width, 32 * vec), static_cast<unsigned>(slices)}, block,
                sizeof(float) * warps * 32 * vec, s, m, rows, width, slice, partial);
}

}  // namespace

size_t column_sums_scratch(int64_t rows, int64_t width) {
  return sizeof(float) * static_cast<size_t>(slices_of(rows, width) * width);
}

cudaError_t launch_add_column_sums(cudaStream_t s, const void* m, dtype type, int64_t rows,
                                   int64_t width, float* out, void* scratch) {
  const int64_t slices = slices_of(rows, width);
  auto* partial = static_cast<float*>(scratch);
  const bool by_pieces = moves_wide(type, width, {m});
  const auto sums = type == dtype::bf16
                        ? (by_pieces ? slice_sums<bf16, wide> : slice_sums<bf16, 1>)
                        : (by_pieces ? slice_sums<float, wide> : slice_sums<float, 1>);
  const cudaError_t summed = sums(s, m, rows, width, slices, partial);
  if (summed != cudaSuccess) return summed;
  return launch_add_partial_sums(s, partial, slices, width, out, nullptr);
}

cudaError_t launch_add_partial_sums(cudaStream_t s, const float* partial, int64_t rows,
                                    int64_t width, float* first, float* second) {
  return launch(partial_sums_kernel, {blocks_for(width, 32), second != nullptr ? 2u : 1u}, block,
                sizeof(float) * block, s, partial, rows, width, first, second);
}

}  // namespace troupe::gpu::cuda
