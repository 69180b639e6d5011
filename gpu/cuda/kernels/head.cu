// The softmax and its loss, one block per row of logits; the sum of the losses.
//
// First pass: every thread keeps the maximum of what it has seen and the sum of powers relative to
// it (the online softmax of Milakov & Gimelshein 2018), and leaves the logits in shared memory as
// far as that goes: 58,048 of f32, all of GPT-2's. One barrier joins the sums. Second pass: the
// gradient, of what was kept and of the rest, which is read again from its end, where the level-2
// cache still holds it. Powers are of two, of logits times log2(e): one fused multiply-add each.
#include "gpu/cuda/kernels/head.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/cuda/simt.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int max_block = 1024;  ///< one block per SM, whose shared memory holds most of a row
constexpr int scratch_floats = 64;
constexpr int depth = 4;  ///< 16-byte accesses of a thread that are under way together
constexpr float log2_e = 1.44269504088896341f;
constexpr float lowest = -1e38f;  ///< below every logit; finite, and so times log2_e

/// Elements of T in 16 bytes.
template <class T>
constexpr int width_of = 16 / static_cast<int>(sizeof(T));

using words = pack<uint32_t, 4>;  ///< 16 bytes in as many registers as they fill

__device__ __forceinline__ void unpack(float (&x)[4], const words& in) {
  SIMT_UNROLL
  for (int i = 0; i < 4; ++i) x[i] = bits_to_float(in.v[i]);
}
__device__ __forceinline__ void unpack(float (&x)[8], const words& in) {
  SIMT_UNROLL
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = bits_to_float(in.v[i] << 16);
    x[2 * i + 1] = bits_to_float(in.v[i] & 0xffff0000u);
  }
}

/// Writes N values to to[0..N), which is aligned to them all.
template <int N>
__device__ __forceinline__ void put(float* to, const float (&x)[N]) {
  static_assert(N == 4);
  *reinterpret_cast<pack<float, 4>*>(to) = {x[0], x[1], x[2], x[3]};
}
template <int N>
__device__ __forceinline__ void put(bf16* to, const float (&x)[N]) {
  pack<uint32_t, N / 2> out;
  SIMT_UNROLL
  for (int i = 0; i < N / 2; ++i) out.v[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
  *reinterpret_cast<pack<uint32_t, N / 2>*>(to) = out;
}

/// Calls body(packs, number of the first) with `depth` packs of the row for this thread, packs one
/// block's width apart, from the front or backwards. read(number) gives a pack; the next ones are
/// on their way meanwhile. Every thread makes the same number of calls, always for the same packs;
/// those from `count` on were not read.
template <bool backwards, class Read, class Body>
__device__ __forceinline__ void walk(int count, const Read& read, const Body& body) {
  const int step = depth * block_threads();
  const int groups = (count + step - 1) / step;
  words next[depth];
  const auto fetch = [&](int group) {
    SIMT_UNROLL
    for (int d = 0; d < depth; ++d) {
      const int at = group * step + d * block_threads() + thread_index();
      if (at < count) next[d] = read(at);
    }
  };
  fetch(backwards ? groups - 1 : 0);
  for (int done = 0; done < groups; ++done) {
    const int group = backwards ? groups - 1 - done : done;
    words now[depth];
    SIMT_UNROLL
    for (int d = 0; d < depth; ++d) now[d] = next[d];
    if (done + 1 < groups) fetch(backwards ? group - 1 : group + 1);
    body(now, group * step + thread_index());
  }
}

/// Gives what lies behind the last column of the vocabulary the probability 0.
template <int N>
__device__ __forceinline__ void hide_padding(float (&x)[N], int valid) {
  if (valid >= N) return;
  SIMT_UNROLL
  for (int i = 0; i < N; ++i) x[i] = i < valid ? x[i] : -INFINITY;
}

/// The maximum m of numbers x (times log2(e)), and the sum of 2^(x - m).
struct power_sum {
  float top = lowest * log2_e;
  float sum = 0.0f;

  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N]) {
    float highest = x[0];
    SIMT_UNROLL
    for (int i = 1; i < N; ++i) highest = fmaxf(highest, x[i]);
    rise(fmaxf(top, highest * log2_e));
    SIMT_UNROLL
    for (int i = 0; i < N; ++i) sum += exp2_fast(fmaf(x[i], log2_e, -top));
  }
  __device__ __forceinline__ void rise(float to) {
    sum *= exp2_fast(top - to);
    top = to;
  }
  /// Of the whole warp, in every lane.
  __device__ __forceinline__ void join_warp() {
    rise(warp_max(top));
    sum = warp_sum(sum);
  }
  /// Of the whole block, in every thread.
  __device__ __forceinline__ void join_block(float* scratch) {
    join_warp();
    if (lane() == 0) {
      scratch[warp_index()] = top;
      scratch[scratch_floats / 2 + warp_index()] = sum;
    }
    sync_block();
    const bool there = lane() < block_threads() / 32;
    top = there ? scratch[lane()] : lowest * log2_e;
    sum = there ? scratch[scratch_floats / 2 + lane()] : 0.0f;
    join_warp();
  }
};

/// What the kernel needs of softmax_loss_args.
template <class In, class Out>
struct rows_view {
  const In* logits;
  int64_t logits_stride;
  Out* gradient;  ///< null: losses only
  int64_t gradient_stride;
  const int32_t* targets;
  double* losses;
  float scale;
  int vocab, padded_vocab;
  int kept;                ///< packs of the row that stay in shared memory for the second pass
  bool overwrites_unread;  ///< the second pass writes where others may still have to read
};

template <class In, class Out>
__global__ SIMT_BLOCK(max_block, 1) void softmax_loss_kernel(rows_view<In, Out> a) {
  constexpr int W = width_of<In>;
  const int64_t r = block_index();
  const int packs = a.padded_vocab / W;
  const In* logits = a.logits + r * a.logits_stride;
  const auto* row = reinterpret_cast<const words*>(logits);
  Out* gradient = a.gradient + r * a.gradient_stride;
  const int target = a.targets[r];
  SIMT_ASSERT(target < a.vocab);
  if (target < 0) {
    if (thread_index() == 0) a.losses[r] = 0;
    if (a.gradient == nullptr) return;
    for (int p = thread_index(); p < packs; p += block_threads()) {
      const float zeros[W] = {};
      put(gradient + p * W, zeros);
    }
    return;
  }
  const float at_target = thread_index() == 0 ? to_float(logits[target]) : 0.0f;

  auto* scratch = shared_memory<float>();
  auto* kept = reinterpret_cast<words*>(scratch + scratch_floats);
  const auto from_memory = [&](int at) { return row[at]; };
  power_sum all;
  walk<false>(packs, from_memory, [&](const words(&in)[depth], int first) {
    SIMT_UNROLL
    for (int d = 0; d < depth; ++d) {
      const int at = first + d * block_threads();
      if (at >= packs) continue;
      if (at < a.kept) kept[at] = in[d];
      float x[W];
      unpack(x, in[d]);
      hide_padding(x, a.vocab - at * W);
      all.add(x);
    }
  });
  all.join_block(scratch);
  // Back from powers of two by the very factor that led there: it is log2(e) but for 1e-8 of it.
  if (thread_index() == 0)
    a.losses[r] = static_cast<double>(all.top) / static_cast<double>(log2_e) +
                  log(static_cast<double>(all.sum)) - static_cast<double>(at_target);
  if (a.gradient == nullptr) return;

  const float factor = a.scale / all.sum;
  const auto again = [&](int at) { return at < a.kept ? kept[at] : row[at]; };
  walk<true>(packs, again, [&](const words(&in)[depth], int first) {
    if (a.overwrites_unread) sync_block();  // what lies where this group goes has been read by all
    SIMT_UNROLL
    for (int d = 0; d < depth; ++d) {
      const int at = first + d * block_threads();
      if (at >= packs) continue;
      float x[W];
      unpack(x, in[d]);
      hide_padding(x, a.vocab - at * W);
      SIMT_UNROLL
      for (int i = 0; i < W; ++i) x[i] = factor * exp2_fast(fmaf(x[i], log2_e, -all.top));
      if (target / W == at) {
        SIMT_UNROLL
        for (int i = 0; i < W; ++i) x[i] -= target % W == i ? a.scale : 0.0f;
      }
      put(gradient + at * W, x);
    }
  });
}

__global__ SIMT_BLOCK(max_block, 1) void sum_losses_kernel(const double* losses, int64_t count,
                                                           double* loss_sum) {
  double sum = 0;
  for (int64_t i = thread_index(); i < count; i += depth * block_threads()) {
    double some[depth];
    SIMT_UNROLL
    for (int d = 0; d < depth; ++d) {
      const int64_t at = i + d * block_threads();
      some[d] = at < count ? losses[at] : 0.0;
    }
    SIMT_UNROLL
    for (int d = 0; d < depth; ++d) sum += some[d];
  }
  sum = block_sum(sum, shared_memory<double>());
  if (thread_index() == 0) *loss_sum += sum;
}

bool aligned_to(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

/// Whether the bytes of both slabs share an address.
bool overlap(const softmax_loss_args& a) {
  const auto bytes = [&](dtype type, int64_t stride) {
    return static_cast<uintptr_t>((a.rows - 1) * stride + slab_stride(a.vocab)) * size_of(type);
  };
  const auto x = reinterpret_cast<uintptr_t>(a.logits), g = reinterpret_cast<uintptr_t>(a.gradient);
  return x < g + bytes(a.gradient_type, a.gradient_stride) &&
         g < x + bytes(a.logits_type, a.logits_stride);
}

bool valid_gradient(const softmax_loss_args& a) {
  if (a.gradient == nullptr) return true;
  if (a.logits_type == dtype::bf16 && a.gradient_type == dtype::f32) return false;
  const size_t access = a.logits_type == a.gradient_type ? 16 : 8;
  if (a.gradient_stride < a.vocab || a.gradient_stride % 8 != 0) return false;
  if (!aligned_to(a.gradient, access)) return false;
  if (!overlap(a)) return true;
  const auto allowed = in_place_gradient(const_cast<void*>(a.logits), a.logits_type,
                                         a.logits_stride, a.gradient_type);
  return a.gradient == allowed.data && a.gradient_stride == allowed.stride;
}

template <class In, class Out>
cudaError_t run(cudaStream_t s, const softmax_loss_args& a) {
  constexpr auto scratch_bytes = static_cast<int64_t>(scratch_floats * sizeof(float));
  constexpr auto most_kept = (static_cast<int64_t>(max_shared_bytes) - scratch_bytes) / 16;
  const int64_t packs = slab_stride(a.vocab) / width_of<In>;
  rows_view<In, Out> view{};
  view.logits = static_cast<const In*>(a.logits), view.logits_stride = a.logits_stride;
  view.targets = a.targets, view.losses = a.losses, view.scale = a.scale;
  view.vocab = static_cast<int>(a.vocab),
  view.padded_vocab = static_cast<int>(slab_stride(a.vocab));
  if (a.gradient != nullptr) {
    view.gradient = static_cast<Out*>(a.gradient), view.gradient_stride = a.gradient_stride;
    view.kept = static_cast<int>(std::min(packs, most_kept));
    view.overwrites_unread = a.logits_type != a.gradient_type && view.kept < packs && overlap(a);
  }
  const int64_t wanted = packs / depth / 32 * 32 + 32;
  return launch(softmax_loss_kernel<In, Out>, {static_cast<unsigned>(a.rows)},
                static_cast<int>(std::min<int64_t>(wanted, max_block)),
                static_cast<size_t>(scratch_bytes + 16 * view.kept), s, view);
}

}  // namespace

slab_gradient in_place_gradient(void* logits, dtype logits_type, int64_t logits_stride,
                                dtype gradient_type) {
  if (logits_type == gradient_type) return {logits, logits_stride};
  return {static_cast<bf16*>(logits) + logits_stride, 2 * logits_stride};
}

cudaError_t launch_softmax_loss(cudaStream_t s, const softmax_loss_args& a) {
  const bool valid = a.rows >= 0 && a.rows <= INT32_MAX && a.vocab > 0 &&
                     a.vocab <= INT32_MAX - 8 && a.logits_stride >= a.vocab &&
                     a.logits_stride % 8 == 0 && aligned_to(a.logits, 16) && valid_gradient(a);
  if (!valid) return cudaErrorInvalidValue;
  if (a.logits_type == dtype::bf16) return run<bf16, bf16>(s, a);
  return a.gradient_type == dtype::f32 ? run<float, float>(s, a) : run<float, bf16>(s, a);
}

cudaError_t launch_sum_losses(cudaStream_t s, const double* losses, int64_t count,
                              double* loss_sum) {
  return launch(sum_losses_kernel, {1}, max_block, 32 * sizeof(double), s, losses, count, loss_sum);
}

}  // namespace troupe::gpu::cuda
