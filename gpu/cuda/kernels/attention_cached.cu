// Attention of the last few rows over keys and values that lie there: a token of generation, one
// query a head (gpu/ops.hpp).
//
// A query alone fills no GPU, so the keys that it sees are parted over blocks, and a block's over
// its warps. A warp takes 32 keys at a time: all lanes together the score of one after the other,
// a lane per column, so that rows are read as they lie in memory; then the sums over the 32
// likewise. Each block leaves its sums with their maximum and total, and a second kernel adds those
// of a query in the order of the keys. In how many parts depends on queries and heads alone, never
// on how long the text is: the memory between both kernels stays as it is from token to token.
//
// Floor, with s = size_of(type) and V keys that a query sees: bytes 2 K V D s, its heads' keys and
// values once; FLOPs 4 H V D.
//
// Invariants: ATT-1 and ATT-2 of attention.cu.
#include "gpu/cuda/kernels/launch.hpp"

#include <algorithm>
#include <limits>

#include "gpu/cuda/kernels/attention_shape.hpp"
#include "gpu/cuda/kernels/pieces.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int cached_warps = 4;
constexpr int cached_threads = 32 * cached_warps;
constexpr int64_t parts_of_one = 32;  ///< of the only query of a GPU, at most

/// Parts that a query's keys are cut into: enough blocks for the whole GPU.
int key_parts(const attention_cached_args& a) {
  return static_cast<int>(
      std::clamp<int64_t>(int64_t{2} * multiprocessors / (a.queries * a.heads), 1, parts_of_one));
}

/// Floats that a block leaves: sums of each column, the maximum, the total.
__device__ __forceinline__ int64_t part_floats(int width) {
  return width + 2;
}

/// The running sums of a warp over its keys.
struct key_sums {
  float* sum;  ///< [D], column d the lane's d % 32
  float top, total;

  /// 32 keys or fewer; `keys` and `values`: rows of the first.
  template <class T>
  __device__ __forceinline__ void add(const attention_shape& a, const float* query, const T* keys,
                                      const T* values, int count) {
    float score = -INFINITY;
    for (int i = 0; i < count; ++i) {
      const T* key = keys + i * a.qkv_stride();
      float product = 0;
      for (int d = lane(); d < a.width; d += 32) product += query[d] * to_float(key[d]);
      product = warp_sum(product);
      if (lane() == i) score = a.scale * product;
    }
    const float higher = fmaxf(top, warp_max(score)), fade = expf(top - higher);
    const float weight = expf(score - higher);
    total = total * fade + warp_sum(weight);
    top = higher;
    for (int d = lane(); d < a.width; d += 32) sum[d] *= fade;
    for (int i = 0; i < count; ++i) {
      const float w = shuffle(weight, i);
      const T* value = values + i * a.qkv_stride();
      for (int d = lane(); d < a.width; d += 32) sum[d] += w * to_float(value[d]);
    }
  }
};

/// One part of the keys of one head of one query: blocks by query, then head, then part.
template <class T>
__global__ void cached_part_kernel(attention_shape a, int queries, int parts,
                                   const T* __restrict__ qkv, float* __restrict__ left) {
  const int part = block_index() % parts, row = block_index() / parts, h = row % a.heads;
  const int t = a.seq - queries + row / a.heads;
  const int first = t - a.window + 1 > 0 ? t - a.window + 1 : 0;
  const int each = (t - first + parts) / parts;  // of t + 1 - first keys, rounded up
  const int begin = first + part * each, end = begin + each < t + 1 ? begin + each : t + 1;
  float* query = shared_memory<float>();  // [D], [warps][D], then [warps] of tops, of totals
  float* sums = query + a.width;
  float* tops = sums + cached_warps * a.width;
  float* totals = tops + cached_warps;
  const T* from = qkv + t * a.qkv_stride() + a.query_at(h);
  for (int d = thread_index(); d < a.width; d += cached_threads) query[d] = to_float(from[d]);
  key_sums mine = {sums + warp_index() * a.width, -INFINITY, 0};
  for (int d = lane(); d < a.width; d += 32) mine.sum[d] = 0;
  sync_block();
  for (int key = begin + 32 * warp_index(); key < end; key += 32 * cached_warps) {
    const T* rows = qkv + key * a.qkv_stride();
    mine.add(a, query, rows + a.key_at(h / a.group), rows + a.value_at(h / a.group),
             end - key < 32 ? end - key : 32);
  }
  if (lane() == 0) tops[warp_index()] = mine.top, totals[warp_index()] = mine.total;
  sync_block();
  const int chunks = end > begin ? (end - begin + 31) / 32 : 0;
  const int had_keys = chunks < cached_warps ? chunks : cached_warps;  // warps from 0
  float top = -INFINITY;
  for (int w = 0; w < had_keys; ++w) top = fmaxf(top, tops[w]);
  float* out = left + block_index() * part_floats(a.width);
  for (int d = thread_index(); d < a.width; d += cached_threads) {
    float sum = 0;
    for (int w = 0; w < had_keys; ++w) sum += expf(tops[w] - top) * sums[w * a.width + d];
    out[d] = sum;
  }
  if (thread_index() != 0) return;
  float total = 0;
  for (int w = 0; w < had_keys; ++w) total += expf(tops[w] - top) * totals[w];
  out[a.width] = top;
  out[a.width + 1] = total;
}

/// What the parts of a query's head left, added in their order: a block for each.
template <class T>
__global__ void cached_sum_kernel(int width, int parts, const float* __restrict__ left,
                                  T* __restrict__ out) {
  const int64_t stride = part_floats(width);
  const float* mine = left + block_index() * parts * stride;
  float top = -INFINITY, total = 0;
  for (int p = 0; p < parts; ++p) top = fmaxf(top, mine[p * stride + width]);
  for (int p = 0; p < parts; ++p)
    total += expf(mine[p * stride + width] - top) * mine[p * stride + width + 1];
  for (int d = thread_index(); d < width; d += cached_threads) {
    float sum = 0;
    for (int p = 0; p < parts; ++p)
      sum += expf(mine[p * stride + width] - top) * mine[p * stride + d];
    out[int64_t{block_index()} * width + d] = from_float<T>(sum / total);
  }
}

template <class T>
cudaError_t run_cached(cudaStream_t s, const attention_shape& shape, const attention_cached_args& a,
                       float* left) {
  const int parts = key_parts(a);
  const auto rows = static_cast<unsigned>(a.queries * a.heads);
  const size_t shared =
      sizeof(float) * static_cast<size_t>((1 + cached_warps) * shape.width + 2 * cached_warps);
  const cudaError_t parted =
      launch(cached_part_kernel<T>, {rows * static_cast<unsigned>(parts)}, cached_threads, shared,
             s, shape, static_cast<int>(a.queries), parts, static_cast<const T*>(a.qkv), left);
  if (parted != cudaSuccess) return parted;
  return launch(cached_sum_kernel<T>, {rows}, cached_threads, 0, s, shape.width, parts,
                static_cast<const float*>(left), static_cast<T*>(a.out));
}

}  // namespace

size_t scratch_bytes(const attention_cached_args& a) {
  return sizeof(float) *
         static_cast<size_t>(a.queries * a.heads * key_parts(a) * (a.head_width + 2));
}

cudaError_t launch_attention_cached(cudaStream_t s, const attention_cached_args& a, void* scratch) {
  attention_shape shape;
  const attention_forward_args whole = {1,        a.seq,  a.heads, a.kv_heads, a.head_width,
                                        a.window, a.type, a.qkv,   a.out,      nullptr};
  if (!shape_of(whole, shape) || a.queries < 1 || a.queries > a.seq) return cudaErrorInvalidValue;
  if (a.queries * a.heads > std::numeric_limits<int>::max() / parts_of_one)
    return cudaErrorInvalidValue;
  auto* left = static_cast<float*>(scratch);
  return a.type == dtype::bf16 ? run_cached<bf16>(s, shape, a, left)
                               : run_cached<float>(s, shape, a, left);
}

}  // namespace troupe::gpu::cuda
