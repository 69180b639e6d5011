// Casts and sums: a thread moves 16 bytes at a time where both ends are aligned, single elements
// otherwise and at the end.
#include "gpu/cuda/kernels/pointwise.hpp"

#include "gpu/cuda/simt.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int block = 256;
constexpr int wide = 8;  ///< elements a thread takes together

template <class To, class From>
__global__ void cast_kernel(To* __restrict__ to, const From* __restrict__ from, int64_t count,
                            bool aligned) {
  const int64_t first = (int64_t{block_index()} * block + thread_index()) * wide;
  if (aligned && first + wide <= count) {
    const auto in = *reinterpret_cast<const pack<From, wide>*>(from + first);
    pack<To, wide> out;
    for (int i = 0; i < wide; ++i) out.v[i] = from_float<To>(to_float(in.v[i]));
    *reinterpret_cast<pack<To, wide>*>(to + first) = out;
    return;
  }
  for (int64_t i = first; i < first + wide && i < count; ++i)
    to[i] = from_float<To>(to_float(from[i]));
}

template <class T>
__global__ void add_kernel(T* y, const T* __restrict__ x, int64_t count, bool aligned) {
  const int64_t first = (int64_t{block_index()} * block + thread_index()) * wide;
  if (aligned && first + wide <= count) {
    auto sum = *reinterpret_cast<const pack<T, wide>*>(y + first);
    const auto in = *reinterpret_cast<const pack<T, wide>*>(x + first);
    for (int i = 0; i < wide; ++i) sum.v[i] = from_float<T>(to_float(sum.v[i]) + to_float(in.v[i]));
    *reinterpret_cast<pack<T, wide>*>(y + first) = sum;
    return;
  }
  for (int64_t i = first; i < first + wide && i < count; ++i)
    y[i] = from_float<T>(to_float(y[i]) + to_float(x[i]));
}

bool aligned_to(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

template <class To, class From>
cudaError_t cast(cudaStream_t s, void* to, const void* from, int64_t count) {
  const bool aligned = aligned_to(to, wide * sizeof(To)) && aligned_to(from, wide * sizeof(From));
  return launch(cast_kernel<To, From>, {blocks_for(count, int64_t{block} * wide)}, block, 0, s,
                static_cast<To*>(to), static_cast<const From*>(from), count, aligned);
}

template <class T>
cudaError_t add(cudaStream_t s, void* y, const void* x, int64_t count) {
  const bool aligned = aligned_to(y, wide * sizeof(T)) && aligned_to(x, wide * sizeof(T));
  return launch(add_kernel<T>, {blocks_for(count, int64_t{block} * wide)}, block, 0, s,
                static_cast<T*>(y), static_cast<const T*>(x), count, aligned);
}

}  // namespace

cudaError_t launch_cast(cudaStream_t s, void* destination, dtype to, const void* source, dtype from,
                        int64_t count) {
  if (to == from)
    return cudaMemcpyAsync(destination, source, static_cast<size_t>(count) * size_of(to),
                           cudaMemcpyDeviceToDevice, s);
  return to == dtype::bf16 ? cast<bf16, float>(s, destination, source, count)
                           : cast<float, bf16>(s, destination, source, count);
}

cudaError_t launch_add(cudaStream_t s, void* y, const void* x, dtype type, int64_t count) {
  return type == dtype::bf16 ? add<bf16>(s, y, x, count) : add<float>(s, y, x, count);
}

}  // namespace troupe::gpu::cuda
