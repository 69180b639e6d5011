// The update of a chunk on the device: AdamW or LAMB, the gradient's norm, the clip factor.
//
// All of it waits for memory alone. A thread takes four neighbouring elements of every array with
// one access each, several of them in flight; spans that start unaligned have their ends done
// element by element: a block works on one tile of one span, and tiles begin at multiples of their
// size within the chunk, wherever the span begins.
//
// Spans travel in the launch's parameters, 64 at a time: there is no table on the device to keep up
// to date, and a captured graph holds all it needs. (The learning rate and the step are parameters
// as well: a graph with an optimizer in it must be updated for each step.)
//
// Bytes per element, P the size of the compute copy (2; 0 where the copy is the master):
//   AdamW 32 + P, one pass.  LAMB 24 + 20 + P, as its norms need one.  norm_squared 4.
// FLOPs per element: AdamW 14, LAMB 30, norm_squared 2.
// AdamW is one launch per 64 spans and needs no scratch; LAMB is three, two in each of its phases;
// norm_squared two. Spans are read before a launch returns.
//
// Invariants
//   DOP-1  Sums are double, over tiles whose borders depend on the spans alone, added in order: the
//     same bits every time and on every GPU (OPS-2). No atomics.
#include "gpu/cuda/kernels/launch.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/cuda/simt.hpp"
#include "gpu/stochastic_rounding.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int block = 256;
constexpr int finish_block = 1024;
constexpr int batch_spans = 64;
constexpr int64_t summing_blocks = 2048;  ///< about as many blocks make partial sums
constexpr int64_t most_partials = summing_blocks + 2 * batch_spans;
static_assert((2 * most_partials) * sizeof(double) + batch_spans * sizeof(float) <=
              optimizer_scratch_bytes);

using quad = pack<float, 4>;

// -- which block does what ------------------------------------------------------------------------

struct span_entry {
  int64_t offset, count;
  int64_t first_tile;  ///< the tile of the chunk in which the span begins
  int first_block;
  bool decay;
};

/// Some spans, as a launch parameter.
struct span_batch {
  span_entry span[batch_spans];
  int64_t tile;  ///< elements
  int count, blocks;
};

/// A block's share: what lies of its span in its tile.
struct share {
  int64_t begin, end;
  int span;
  bool decay;
};

__device__ __forceinline__ share my_share(const span_batch& b) {
  int at = 0;  // the last span whose first block is not behind this one
  for (int step = batch_spans / 2; step > 0; step /= 2)
    if (at + step < b.count && b.span[at + step].first_block <= block_index()) at += step;
  const span_entry& s = b.span[at];
  const int64_t first = (s.first_tile + block_index() - s.first_block) * b.tile;
  const int64_t end = s.offset + s.count;
  return {first > s.offset ? first : s.offset, first + b.tile < end ? first + b.tile : end, at,
          s.decay};
}

/// Elements a block of `block` threads covers with `packs` groups of four each.
template <int packs>
constexpr int64_t stride_of = int64_t{block} * 4 * packs;

/// What a thread does at once: groups of four, a block's width apart.
template <bool is_whole, int number>
struct groups {
  static constexpr bool whole = is_whole;  ///< all their elements are the share's, and aligned
  static constexpr int packs = number;
  int64_t at;
  int64_t begin, end;

  __device__ __forceinline__ int64_t place(int pack) const { return at + pack * 4 * block; }
  __device__ __forceinline__ bool has(int pack, int i) const {
    return whole || (place(pack) + i >= begin && place(pack) + i < end);
  }
  __device__ __forceinline__ quad load(const float* from, int pack) const {
    quad out{};
    if constexpr (whole) {
      out = *reinterpret_cast<const quad*>(from + place(pack));
    } else {
      for (int i = 0; i < 4; ++i)
        if (has(pack, i)) out.v[i] = from[place(pack) + i];
    }
    return out;
  }
  __device__ __forceinline__ void store(float* to, int pack, const quad& values) const {
    if constexpr (whole) {
      *reinterpret_cast<quad*>(to + place(pack)) = values;
    } else {
      for (int i = 0; i < 4; ++i)
        if (has(pack, i)) to[place(pack) + i] = values.v[i];
    }
  }
  __device__ __forceinline__ void store(bf16* to, int pack, const quad& values) const {
    if constexpr (whole) {
      *reinterpret_cast<pack_of_two*>(to + place(pack)) = {
          {pack_bf16(values.v[0], values.v[1]), pack_bf16(values.v[2], values.v[3])}};
    } else {
      for (int i = 0; i < 4; ++i)
        if (has(pack, i)) to[place(pack) + i] = to_bf16(values.v[i]);
    }
  }

 private:
  using pack_of_two = gpu::cuda::pack<uint32_t, 2>;
};

/// Calls body(groups) for this thread's groups of the share: `packs` of them at a time, but one by
/// one where the share ends, for the sake of registers.
template <int packs, class Body>
__device__ __forceinline__ void each_group(const share& mine, bool aligned, const Body& body) {
  constexpr int64_t last = int64_t{4} * (packs - 1) * block + 4;
  const int64_t first = mine.begin / stride_of<packs> * stride_of<packs>;
  for (int64_t base = first; base < mine.end; base += stride_of<packs>) {
    const int64_t at = base + 4 * thread_index();
    if (aligned && at >= mine.begin && at + last <= mine.end) {
      body(groups<true, packs>{at, mine.begin, mine.end});
    } else {
      for (int p = 0; p < packs; ++p)
        body(groups<false, 1>{at + p * 4 * block, mine.begin, mine.end});
    }
  }
}

// -- the update -----------------------------------------------------------------------------------

/// How the compute copy is written.
enum class copy_kind : uint8_t { none, f32, bf16, bf16_by_chance };

/// What the kernels need of optimizer_step_args.
struct update {
  float *master, *m, *v, *grad;
  void* weight;
  const float* grad_scale;
  float lr, beta1, beta2, rest1, rest2, correct1, correct2, eps, weight_decay, keep;
  rounding_key key;
  uint32_t rounding_first;
  bool aligned;

  /// m and v of four elements from their gradients.
  __device__ __forceinline__ void moments(quad& m4, quad& v4, const quad& g4, float scale) const {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float g = g4.v[i] * scale;
      m4.v[i] = beta1 * m4.v[i] + rest1 * g;
      v4.v[i] = beta2 * v4.v[i] + rest2 * (g * g);
    }
  }
  /// (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
  __device__ __forceinline__ float direction(float m1, float v1) const {
    return m1 * correct1 / (sqrtf(v1 * correct2) + eps);
  }

  /// Writes four new weights: master, compute copy, zeroed gradient.
  template <copy_kind copy, class Groups>
  __device__ __forceinline__ void finish(const Groups& at, int pack, const quad& w) const {
    at.store(master, pack, w);
    at.store(grad, pack, quad{});
    if constexpr (copy == copy_kind::f32) at.store(static_cast<float*>(weight), pack, w);
    if constexpr (copy == copy_kind::bf16) at.store(static_cast<bf16*>(weight), pack, w);
    if constexpr (copy == copy_kind::bf16_by_chance) {
      quad rounded;
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const auto index = rounding_first + static_cast<uint32_t>(at.place(pack) + i);
        rounded.v[i] =
            bits_to_float(round_by_chance(float_to_bits(w.v[i]), random_bits(key, index)));
      }
      at.store(static_cast<bf16*>(weight), pack, rounded);
    }
  }
};

constexpr int step_packs = 2;

template <copy_kind copy>
__global__ SIMT_BLOCK(block, 4) void adamw_kernel(update u, span_batch spans) {
  const share mine = my_share(spans);
  const float scale = *u.grad_scale;
  const float keep = mine.decay ? u.keep : 1.0f;
  each_group<step_packs>(mine, u.aligned, [&](auto at) {
    constexpr int packs = at.packs;
    quad g[packs], m[packs], v[packs], w[packs];
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) {
      g[p] = at.load(u.grad, p);
      m[p] = at.load(u.m, p);
      v[p] = at.load(u.v, p);
      w[p] = at.load(u.master, p);
    }
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) {
      u.moments(m[p], v[p], g[p], scale);
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i)
        w[p].v[i] = w[p].v[i] * keep - u.lr * u.direction(m[p].v[i], v[p].v[i]);
      at.store(u.m, p, m[p]);
      at.store(u.v, p, v[p]);
      u.template finish<copy>(at, p, w[p]);
    }
  });
}

/// Moves m and v; partials[2 b], [2 b + 1]: block b's sums of w^2 and r^2.
__global__ SIMT_BLOCK(block, 4) void lamb_norms_kernel(update u, span_batch spans,
                                                       double* partials) {
  const share mine = my_share(spans);
  const float scale = *u.grad_scale;
  const float decay = mine.decay ? u.weight_decay : 0.0f;
  double w2 = 0, r2 = 0;
  each_group<step_packs>(mine, u.aligned, [&](auto at) {
    constexpr int packs = at.packs;
    quad g[packs], m[packs], v[packs], w[packs];
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) {
      g[p] = at.load(u.grad, p);
      m[p] = at.load(u.m, p);
      v[p] = at.load(u.v, p);
      w[p] = at.load(u.master, p);
    }
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) {
      u.moments(m[p], v[p], g[p], scale);
      at.store(u.m, p, m[p]);
      at.store(u.v, p, v[p]);
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (!at.has(p, i)) continue;
        const double w1 = w[p].v[i];
        const double r = u.direction(m[p].v[i], v[p].v[i]) + decay * w[p].v[i];
        w2 += w1 * w1;
        r2 += r * r;
      }
    }
  });
  auto* scratch = shared_memory<double>();
  w2 = block_sum(w2, scratch);
  r2 = block_sum(r2, scratch + block / 32);
  if (thread_index() == 0) {
    partials[2 * block_index()] = w2;
    partials[2 * block_index() + 1] = r2;
  }
}

template <copy_kind copy>
__global__ SIMT_BLOCK(block, 4) void lamb_apply_kernel(update u, span_batch spans,
                                                       const float* ratios) {
  const share mine = my_share(spans);
  const float decay = mine.decay ? u.weight_decay : 0.0f;
  const float rate = u.lr * ratios[mine.span];
  each_group<step_packs>(mine, u.aligned, [&](auto at) {
    constexpr int packs = at.packs;
    quad m[packs], v[packs], w[packs];
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) {
      m[p] = at.load(u.m, p);
      v[p] = at.load(u.v, p);
      w[p] = at.load(u.master, p);
    }
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float r = u.direction(m[p].v[i], v[p].v[i]) + decay * w[p].v[i];
        w[p].v[i] -= rate * r;
      }
      u.template finish<copy>(at, p, w[p]);
    }
  });
}

// -- sums -----------------------------------------------------------------------------------------

constexpr int norm_packs = 4;

/// partials[b]: block b's sum of squares.
__global__ SIMT_BLOCK(block, 4) void norm_kernel(const float* grad, bool aligned, span_batch spans,
                                                 double* partials) {
  const share mine = my_share(spans);
  double sum = 0;
  each_group<norm_packs>(mine, aligned, [&](auto at) {
    constexpr int packs = at.packs;
    quad g[packs];
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) g[p] = at.load(grad, p);
    SIMT_UNROLL
    for (int p = 0; p < packs; ++p) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const double one = g[p].v[i];  // 0 where it is not the share's
        sum += one * one;
      }
    }
  });
  sum = block_sum(sum, shared_memory<double>());
  if (thread_index() == 0) partials[block_index()] = sum;
}

/// Copies partial sums to shared memory and gives every span to a warp: body(span, sums), in all
/// of its lanes, with the span's `numbers` sums. One block.
template <int numbers, class Body>
__device__ __forceinline__ void sum_partials(const span_batch& spans, const double* partials,
                                             const Body& body) {
  auto* all = shared_memory<double>();
  for (int i = thread_index(); i < numbers * spans.blocks; i += block_threads())
    all[i] = partials[i];
  sync_block();
  for (int s = warp_index(); s < spans.count; s += block_threads() / 32) {
    const int end = s + 1 < spans.count ? spans.span[s + 1].first_block : spans.blocks;
    double sums[numbers] = {};
    for (int b = spans.span[s].first_block + lane(); b < end; b += 32)
      for (int n = 0; n < numbers; ++n) sums[n] += all[numbers * b + n];
    for (int n = 0; n < numbers; ++n) sums[n] = warp_sum(sums[n]);
    body(s, sums);
  }
}

__global__ void finish_norm_kernel(span_batch spans, const double* partials, double* sum,
                                   double* per_span) {
  double* of_span = shared_memory<double>() + spans.blocks;
  sum_partials<1>(spans, partials, [&](int s, const double(&sums)[1]) {
    if (lane() == 0) of_span[s] = sums[0];
  });
  sync_block();
  if (per_span != nullptr && thread_index() < spans.count)
    per_span[thread_index()] += of_span[thread_index()];
  if (thread_index() > 0) return;
  double total = *sum;
  for (int s = 0; s < spans.count; ++s) total += of_span[s];
  *sum = total;
}

/// |w| / |r|, 1 where it does not apply.
__device__ __forceinline__ float trust_ratio(double w2, double r2, bool applies) {
  return applies && w2 > 0 && r2 > 0 ? static_cast<float>(sqrt(w2) / sqrt(r2)) : 1.0f;
}

__global__ void lamb_ratios_kernel(span_batch spans, bool trust_always, const double* partials,
                                   float* ratios) {
  sum_partials<2>(spans, partials, [&](int s, const double(&sums)[2]) {
    if (lane() == 0) ratios[s] = trust_ratio(sums[0], sums[1], spans.span[s].decay || trust_always);
  });
}

/// Adds the sums of span s to norms[2 s], [2 s + 1].
__global__ void lamb_sums_kernel(span_batch spans, const double* partials, double* norms) {
  sum_partials<2>(spans, partials, [&](int s, const double(&sums)[2]) {
    if (lane() > 0) return;
    norms[2 * s] += sums[0];
    norms[2 * s + 1] += sums[1];
  });
}

/// The ratios from the sums of several devices, `stride` apart, added in order. One thread a span.
__global__ void lamb_row_ratios_kernel(span_batch spans, bool trust_always, const double* norms,
                                       int64_t rows, int64_t stride, float* ratios) {
  const int s = thread_index();
  if (s >= spans.count) return;
  double w2 = 0, r2 = 0;
  for (int64_t row = 0; row < rows; ++row) {
    w2 += norms[row * stride + 2 * s];
    r2 += norms[row * stride + 2 * s + 1];
  }
  ratios[s] = trust_ratio(w2, r2, spans.span[s].decay || trust_always);
}

__global__ void clip_scale_kernel(const double* norm_squared, float max_norm, float* scale) {
  if (thread_index() > 0) return;
  const double factor = static_cast<double>(max_norm) / (sqrt(*norm_squared) + 1e-6);
  *scale = max_norm == 0 ? 1.0f : static_cast<float>(factor < 1.0 ? factor : 1.0);
}

// -- launches -------------------------------------------------------------------------------------

bool aligned_to(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

/// Divides the spans into tiles of `tile` elements.
span_batch make_batch(const parameter_span* spans, int count, int64_t tile) {
  span_batch b{};
  b.count = count;
  b.tile = tile;
  for (int i = 0; i < count; ++i) {
    const parameter_span& s = spans[i];
    const int64_t first = s.offset / tile;
    const int64_t tiles = s.count > 0 ? (s.offset + s.count + tile - 1) / tile - first : 0;
    b.span[i] = {s.offset, s.count, first, b.blocks, s.decay};
    b.blocks += static_cast<int>(tiles);
  }
  return b;
}

/// The same in so few tiles that all their partial sums fit into scratch.
span_batch make_summing_batch(const parameter_span* spans, int count) {
  constexpr int64_t least = stride_of<norm_packs>;
  static_assert(least % stride_of<step_packs> == 0);
  int64_t total = 0;
  for (int i = 0; i < count; ++i) total += spans[i].count;
  const int64_t strides = (total + summing_blocks * least - 1) / (summing_blocks * least);
  return make_batch(spans, count, std::max(strides, int64_t{1}) * least);
}

/// Calls f(first span, how many) for batches of spans until one fails.
template <class F>
cudaError_t each_batch(int64_t span_count, const F& f) {
  cudaError_t outcome = cudaSuccess;
  for (int64_t first = 0; first < span_count && outcome == cudaSuccess; first += batch_spans)
    outcome = f(first, static_cast<int>(std::min<int64_t>(batch_spans, span_count - first)));
  return outcome;
}

update update_of(const optimizer_step_args& a) {
  update u{};
  u.master = a.master, u.m = a.m, u.v = a.v, u.grad = a.grad, u.weight = a.weight;
  u.grad_scale = a.grad_scale;
  u.lr = a.lr, u.beta1 = a.beta1, u.beta2 = a.beta2, u.eps = a.eps;
  u.rest1 = static_cast<float>(1.0 - static_cast<double>(a.beta1));
  u.rest2 = static_cast<float>(1.0 - static_cast<double>(a.beta2));
  const auto t = static_cast<double>(a.step);
  u.correct1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(a.beta1), t)));
  u.correct2 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(a.beta2), t)));
  u.weight_decay = a.weight_decay;
  u.keep = static_cast<float>(1.0 - static_cast<double>(a.lr) * a.weight_decay);
  u.key = make_rounding_key(a.rounding_seed, a.step);
  u.rounding_first = static_cast<uint32_t>(a.rounding_first);
  u.aligned = aligned_to(a.master, 16) && aligned_to(a.m, 16) && aligned_to(a.v, 16) &&
              aligned_to(a.grad, 16) && aligned_to(a.weight, 4 * size_of(a.weight_type));
  return u;
}

/// The launches of LAMB up to its ratios, as far as the call's phase goes.
cudaError_t lamb_ratios(cudaStream_t s, const optimizer_step_args& a, const update& u,
                        int64_t first, int count, double* partials, float* ratios) {
  using phase = optimizer_step_args::phase;
  double* norms = a.norms == nullptr ? nullptr : a.norms + 2 * first;
  const span_batch sums = make_summing_batch(a.spans + first, count);
  if (a.part == phase::apply)
    return launch(lamb_row_ratios_kernel, {1}, batch_spans, 0, s, sums, a.trust_always, norms,
                  a.norm_rows, a.norm_stride, ratios);
  const auto blocks = static_cast<unsigned>(sums.blocks);
  const cudaError_t outcome = launch(lamb_norms_kernel, {blocks}, block,
                                     2 * (block / 32) * sizeof(double), s, u, sums, partials);
  if (outcome != cudaSuccess) return outcome;
  const size_t shared = 2 * blocks * sizeof(double);
  if (a.part == phase::norms)
    return launch(lamb_sums_kernel, {1}, finish_block, shared, s, sums, partials, norms);
  return launch(lamb_ratios_kernel, {1}, finish_block, shared, s, sums, a.trust_always, partials,
                ratios);
}

template <copy_kind copy>
cudaError_t step(cudaStream_t s, const optimizer_step_args& a, void* scratch) {
  const update u = update_of(a);
  auto* partials = static_cast<double*>(scratch);
  auto* ratios = reinterpret_cast<float*>(partials + 2 * most_partials);
  return each_batch(a.span_count, [&](int64_t first, int count) {
    const span_batch tiles = make_batch(a.spans + first, count, stride_of<step_packs>);
    const grid_size grid{static_cast<unsigned>(tiles.blocks)};
    if (a.kind == optimizer_step_args::rule::adamw)
      return launch(adamw_kernel<copy>, grid, block, 0, s, u, tiles);
    const cudaError_t outcome = lamb_ratios(s, a, u, first, count, partials, ratios);
    if (outcome != cudaSuccess || a.part == optimizer_step_args::phase::norms) return outcome;
    return launch(lamb_apply_kernel<copy>, grid, block, 0, s, u, tiles, ratios);
  });
}

}  // namespace

cudaError_t launch_optimizer_step(cudaStream_t s, const optimizer_step_args& a, void* scratch) {
  if (a.weight == a.master) return step<copy_kind::none>(s, a, scratch);
  if (a.weight_type == dtype::f32) return step<copy_kind::f32>(s, a, scratch);
  return a.stochastic_rounding ? step<copy_kind::bf16_by_chance>(s, a, scratch)
                               : step<copy_kind::bf16>(s, a, scratch);
}

cudaError_t launch_norm_squared(cudaStream_t s, const norm_squared_args& a, void* scratch) {
  auto* partials = static_cast<double*>(scratch);
  return each_batch(a.span_count, [&](int64_t first, int count) {
    const span_batch sums = make_summing_batch(a.spans + first, count);
    const auto blocks = static_cast<unsigned>(sums.blocks);
    const cudaError_t outcome = launch(norm_kernel, {blocks}, block, (block / 32) * sizeof(double),
                                       s, a.grad, aligned_to(a.grad, 16), sums, partials);
    if (outcome != cudaSuccess) return outcome;
    return launch(finish_norm_kernel, {1}, finish_block, (blocks + batch_spans) * sizeof(double), s,
                  sums, partials, a.sum, a.per_span == nullptr ? nullptr : a.per_span + first);
  });
}

cudaError_t launch_clip_scale(cudaStream_t s, const clip_scale_args& a, void*) {
  return launch(clip_scale_kernel, {1}, 32, 0, s, a.norm_squared, a.max_norm, a.scale);
}

}  // namespace troupe::gpu::cuda
