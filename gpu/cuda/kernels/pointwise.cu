// Operations on each element by itself: casts, sums. A thread moves 16 bytes at a time where both
// ends are aligned, single elements otherwise and at the end.
//
// Floor: bytes of memory read and written once (cast: count * (size_of(from) + size_of(to)); add:
// 3 * count * size_of(type); round_by_chance: 6 * count); no FLOPs worth counting. Deterministic:
// every element has one thread.
#include "gpu/cuda/kernels/launch.hpp"

#include "gpu/cuda/simt.hpp"
#include "gpu/stochastic_rounding.hpp"

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

__global__ void round_by_chance_kernel(bf16* __restrict__ to, const float* __restrict__ from,
                                       int64_t count, rounding_key key, uint32_t number,
                                       bool aligned) {
  const int64_t first = (int64_t{block_index()} * block + thread_index()) * wide;
  const auto rounded = [&](float value, int64_t i) {
    const uint32_t random = random_bits(key, number + static_cast<uint32_t>(i));
    return from_float<bf16>(bits_to_float(round_by_chance(float_to_bits(value), random)));
  };
  if (aligned && first + wide <= count) {
    const auto in = *reinterpret_cast<const pack<float, wide>*>(from + first);
    pack<bf16, wide> out;
    for (int i = 0; i < wide; ++i) out.v[i] = rounded(in.v[i], first + i);
    *reinterpret_cast<pack<bf16, wide>*>(to + first) = out;
    return;
  }
  for (int64_t i = first; i < first + wide && i < count; ++i) to[i] = rounded(from[i], i);
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

cudaError_t launch_cast(cudaStream_t s, const cast_args& a, void*) {
  if (a.to == a.from)
    return cudaMemcpyAsync(a.destination, a.source, static_cast<size_t>(a.count) * size_of(a.to),
                           cudaMemcpyDeviceToDevice, s);
  return a.to == dtype::bf16 ? cast<bf16, float>(s, a.destination, a.source, a.count)
                             : cast<float, bf16>(s, a.destination, a.source, a.count);
}

cudaError_t launch_round_by_chance(cudaStream_t s, const round_by_chance_args& a, void*) {
  const bool aligned =
      aligned_to(a.destination, wide * sizeof(bf16)) && aligned_to(a.source, wide * sizeof(float));
  return launch(round_by_chance_kernel, {blocks_for(a.count, int64_t{block} * wide)}, block, 0, s,
                static_cast<bf16*>(a.destination), a.source, a.count,
                make_rounding_key(a.seed, a.step), static_cast<uint32_t>(a.first), aligned);
}

cudaError_t launch_add(cudaStream_t s, const add_args& a, void*) {
  return a.type == dtype::bf16 ? add<bf16>(s, a.y, a.x, a.count) : add<float>(s, a.y, a.x, a.count);
}

}  // namespace troupe::gpu::cuda
