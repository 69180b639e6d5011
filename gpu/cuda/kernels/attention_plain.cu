// Attention without tensor cores: float32, for checking, and every head width the others do not
// take. One warp per row (a query; a key for the gradients of keys and values), simple and right.
//
// A warp takes 32 of the other side at a time: each lane the whole score of one, then all lanes
// together, a lane per column, the sums over the 32. Rows and sums lie in shared memory, for
// columns are as many as the caller says.
//
// Work: 4 B H V D FLOPs forward and 14 backward (7 products: the scores are computed again for the
// keys) on the ordinary units: expect a few per cent of the float32 peak. Deterministic (ATT-1).
#include "gpu/cuda/kernels/attention_parts.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int warps = 4;
constexpr int threads = warps * 32;

template <class T>
__device__ __forceinline__ float dot(const float* row, const T* other, int width) {
  float sum = 0;
  for (int d = 0; d < width; ++d) sum += row[d] * to_float(other[d]);
  return sum;
}

/// The warp's row of this block, or -1; grid: blocks of four rows, then heads.
__device__ __forceinline__ int warp_row(const attention_shape& a) {
  const int row = block_index() * warps + warp_index();
  return row < a.seq ? row : -1;
}

/// This warp's array number `which` of `width` floats.
__device__ __forceinline__ float* warp_array(int which, int arrays, int width) {
  return shared_memory<float>() + (warp_index() * arrays + which) * width;
}

template <class T>
__device__ __forceinline__ void read_row(float* to, const T* from, int width) {
  for (int d = lane(); d < width; d += 32) to[d] = to_float(from[d]);
}
__device__ __forceinline__ void clear_row(float* row, int width) {
  for (int d = lane(); d < width; d += 32) row[d] = 0;
}
template <class T>
__device__ __forceinline__ void write_row(T* to, const float* from, float factor, int width) {
  for (int d = lane(); d < width; d += 32) to[d] = from_float<T>(factor * from[d]);
}

/// sum += the weights of 32 lanes, each times its row of `rows`.
template <class T>
__device__ __forceinline__ void add_weighted(float* sum, float weight, const T* rows,
                                             int64_t stride, int count, int width) {
  for (int i = 0; i < count; ++i) {
    const float w = shuffle(weight, i);
    for (int d = lane(); d < width; d += 32) sum[d] += w * to_float(rows[i * stride + d]);
  }
}

template <class T, class Mask>
__global__ void forward_row_kernel(attention_shape a, const T* __restrict__ qkv,
                                   T* __restrict__ out, float* __restrict__ lse,
                                   row_documents documents) {
  const int t = warp_row(a), head = block_index_y() + 65535 * block_index_z();
  if (t < 0 || head >= a.batch_heads) return;
  const int b = head / a.heads, h = head % a.heads;
  float* query = warp_array(0, 2, a.width);
  float* sum = warp_array(1, 2, a.width);
  read_row(query, qkv + a.qkv_row(b, t) + a.query_at(h), a.width);
  clear_row(sum, a.width);
  sync_warp();
  float top = -INFINITY, total = 0;
  for (int first = Mask(a, documents, b).first_key(t); first <= t; first += 32) {
    const int count = t + 1 - first < 32 ? t + 1 - first : 32;
    const T* rows = qkv + a.qkv_row(b, first);
    const T* key = rows + lane() * a.qkv_stride() + a.key_at(h / a.group);
    const float score = lane() < count ? a.scale * dot(query, key, a.width) : -INFINITY;
    const float higher = fmaxf(top, warp_max(score)), fade = expf(top - higher);
    const float weight = expf(score - higher);
    total = total * fade + warp_sum(weight);
    for (int d = lane(); d < a.width; d += 32) sum[d] *= fade;
    add_weighted(sum, weight, rows + a.value_at(h / a.group), a.qkv_stride(), count, a.width);
    top = higher;
  }
  write_row(out + a.out_row(b, t) + a.query_at(h), sum, 1 / total, a.width);
  if (lane() == 0) lse[int64_t{head} * a.seq + t] = top + logf(total);
}

/// dq, and delta = the sum over d of dout * out.
template <class T, class Mask>
__global__ void backward_query_kernel(attention_shape a, const T* __restrict__ qkv,
                                      const T* __restrict__ out, const float* __restrict__ lse,
                                      const T* __restrict__ dout, T* __restrict__ dqkv,
                                      float* __restrict__ delta, row_documents documents) {
  const int t = warp_row(a), head = block_index_y() + 65535 * block_index_z();
  if (t < 0 || head >= a.batch_heads) return;
  const int b = head / a.heads, h = head % a.heads;
  float* query = warp_array(0, 3, a.width);
  float* dout_row = warp_array(1, 3, a.width);
  float* sum = warp_array(2, 3, a.width);
  read_row(query, qkv + a.qkv_row(b, t) + a.query_at(h), a.width);
  read_row(dout_row, dout + a.out_row(b, t) + a.query_at(h), a.width);
  clear_row(sum, a.width);
  sync_warp();
  float share = 0;
  for (int d = lane(); d < a.width; d += 32)
    share += dout_row[d] * to_float(out[a.out_row(b, t) + a.query_at(h) + d]);
  const float row_delta = warp_sum(share), row_lse = lse[int64_t{head} * a.seq + t];
  for (int first = Mask(a, documents, b).first_key(t); first <= t; first += 32) {
    const int count = t + 1 - first < 32 ? t + 1 - first : 32;
    const T* rows = qkv + a.qkv_row(b, first);
    const T* mine = rows + lane() * a.qkv_stride();
    float slope = 0;
    if (lane() < count) {
      const float score = a.scale * dot(query, mine + a.key_at(h / a.group), a.width);
      const float dweight = dot(dout_row, mine + a.value_at(h / a.group), a.width);
      slope = expf(score - row_lse) * (dweight - row_delta);
    }
    add_weighted(sum, slope, rows + a.key_at(h / a.group), a.qkv_stride(), count, a.width);
  }
  write_row(dqkv + a.qkv_row(b, t) + a.query_at(h), sum, a.scale, a.width);
  if (lane() == 0) delta[int64_t{head} * a.seq + t] = row_delta;
}

/// dk and dv: over the heads of the group, and their queries, in order.
template <class T, class Mask>
__global__ void backward_key_kernel(attention_shape a, const T* __restrict__ qkv,
                                    const float* __restrict__ lse, const T* __restrict__ dout,
                                    const float* __restrict__ delta, T* __restrict__ dqkv,
                                    row_documents documents) {
  const int u = warp_row(a), head = block_index_y() + 65535 * block_index_z();
  if (u < 0 || head >= a.batch_kv) return;
  const int b = head / a.kv_heads, kv = head % a.kv_heads;
  float* key = warp_array(0, 4, a.width);
  float* value = warp_array(1, 4, a.width);
  float* dkey = warp_array(2, 4, a.width);
  float* dvalue = warp_array(3, 4, a.width);
  read_row(key, qkv + a.qkv_row(b, u) + a.key_at(kv), a.width);
  read_row(value, qkv + a.qkv_row(b, u) + a.value_at(kv), a.width);
  clear_row(dkey, a.width);
  clear_row(dvalue, a.width);
  sync_warp();
  const Mask mask(a, documents, b);
  for (int h = kv * a.group; h < (kv + 1) * a.group; ++h) {
    const int64_t statistics = (int64_t{b} * a.heads + h) * a.seq;
    for (int first = u; first < mask.end_query(u); first += 32) {
      const int count = mask.end_query(u) - first < 32 ? mask.end_query(u) - first : 32;
      const T* queries = qkv + a.qkv_row(b, first) + a.query_at(h);
      const T* douts = dout + a.out_row(b, first) + a.query_at(h);
      float weight = 0, slope = 0;
      if (lane() < count) {
        const float score = a.scale * dot(key, queries + lane() * a.qkv_stride(), a.width);
        const float dweight = dot(value, douts + lane() * a.out_stride(), a.width);
        weight = expf(score - lse[statistics + first + lane()]);
        slope = weight * (dweight - delta[statistics + first + lane()]);
      }
      add_weighted(dvalue, weight, douts, a.out_stride(), count, a.width);
      add_weighted(dkey, slope, queries, a.qkv_stride(), count, a.width);
    }
  }
  write_row(dqkv + a.qkv_row(b, u) + a.key_at(kv), dkey, a.scale, a.width);
  write_row(dqkv + a.qkv_row(b, u) + a.value_at(kv), dvalue, 1, a.width);
}

/// Rows by heads: more heads than y counts go on in z.
grid_size rows_by_heads(const attention_shape& a, int heads) {
  const auto y = static_cast<unsigned>(std::min(heads, 65535));
  return {blocks_for(a.seq, warps), y, blocks_for(heads, 65535)};
}

size_t arrays_bytes(const attention_shape& a, int arrays) {
  return static_cast<size_t>(a.width) * sizeof(float) * static_cast<size_t>(arrays * warps);
}

template <class T>
cudaError_t forward(cudaStream_t s, const attention_shape& a, const attention_forward_args& args) {
  const auto kernel = args.documents.first != nullptr ? forward_row_kernel<T, document_mask>
                                                      : forward_row_kernel<T, window_mask>;
  return launch(kernel, rows_by_heads(a, a.batch_heads), threads, arrays_bytes(a, 2), s, a,
                static_cast<const T*>(args.qkv), static_cast<T*>(args.out), args.lse,
                args.documents);
}

template <class T, class Mask>
cudaError_t masked_backward(cudaStream_t s, const attention_shape& a,
                            const attention_backward_args& args, float* delta) {
  const auto* qkv = static_cast<const T*>(args.qkv);
  const auto* dout = static_cast<const T*>(args.dout);
  auto* dqkv = static_cast<T*>(args.dqkv);
  const cudaError_t queries = launch(
      backward_query_kernel<T, Mask>, rows_by_heads(a, a.batch_heads), threads, arrays_bytes(a, 3),
      s, a, qkv, static_cast<const T*>(args.out), args.lse, dout, dqkv, delta, args.documents);
  if (queries != cudaSuccess) return queries;
  return launch(backward_key_kernel<T, Mask>, rows_by_heads(a, a.batch_kv), threads,
                arrays_bytes(a, 4), s, a, qkv, args.lse, dout, static_cast<const float*>(delta),
                dqkv, args.documents);
}

template <class T>
cudaError_t backward(cudaStream_t s, const attention_shape& a, const attention_backward_args& args,
                     float* delta) {
  return args.documents.first != nullptr ? masked_backward<T, document_mask>(s, a, args, delta)
                                         : masked_backward<T, window_mask>(s, a, args, delta);
}

}  // namespace

cudaError_t plain_attention_forward(cudaStream_t s, const attention_shape& a,
                                    const attention_forward_args& args) {
  return args.type == dtype::bf16 ? forward<bf16>(s, a, args) : forward<float>(s, a, args);
}

cudaError_t plain_attention_backward(cudaStream_t s, const attention_shape& a,
                                     const attention_backward_args& args, float* delta) {
  return args.type == dtype::bf16 ? backward<bf16>(s, a, args, delta)
                                  : backward<float>(s, a, args, delta);
}

}  // namespace troupe::gpu::cuda
