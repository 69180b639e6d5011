// Attention forward on tensor cores: FlashAttention-2 (Dao 2023, Algorithm 1) by mma.sync.
//
// A block of four warps owns 128 queries of one head, 32 a warp; their output stays in registers
// while the block walks over the keys they see, 64 at a time: scores = Q K^T, softmax kept up to
// date (a maximum and a sum per row, in base 2), output = P V with P taken from the scores'
// registers. Keys and values of the next 64 arrive by cp.async during the products of these
// (two stages, one barrier a step). Steps nobody sees are never visited; warps leave out steps only
// others see; only steps on the diagonal, at the window's edge or at a document's border look at
// single pairs.
//
// Work: 4 D FLOPs a visited pair; 64-key steps of 128 queries visit T / 128 more than half of the
// square on the diagonal, most of which the warps leave out again. An exponential a pair: on an
// H100 a step takes 512 cycles of the special function units, and 806 (D 64) or 1,613 (D 128) of
// the tensor cores at mma.sync's peak, hence two blocks a multiprocessor that fill each other's
// gaps. To be expected: 30-40 % of the dense peak at D 128 and T >= 2,048, as FlashAttention-2
// reaches there; wgmma would give about 1.6 times as much.
//
// Registers (of 255): the output D, scores 64; queries in registers take D / 2 more, which fits D
// 64 only: from D 96 on they are read from shared memory again for each step, two fragments to the
// keys' four.
//
// Deterministic (ATT-1): a row belongs to one warp, which adds in the order of the keys.
#include "gpu/cuda/kernels/attention_parts.hpp"
#include "gpu/cuda/kernels/attention_rows.hpp"
#include "gpu/cuda/kernels/attention_tiles.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int rows = 32;                         ///< queries of a warp
constexpr int queries = rows * attention_warps;  ///< of a block
constexpr int keys = 64;                         ///< of a step
constexpr int M = rows / 16;

template <int D>
struct forward_memory {
  static constexpr int stage = keys * pitch<D>;  ///< elements of a tile of keys or values
  static constexpr size_t bytes = tile_bytes<D>(queries + 4 * keys);
  bf16* query = shared_memory<bf16>();

  __device__ __forceinline__ bf16* key(int step) const {
    return query + queries * pitch<D> + (step & 1) * stage;
  }
  __device__ __forceinline__ bf16* value(int step) const { return key(step) + 2 * stage; }
};

/// One warp's rows and one step of keys.
template <int D, class Mask, class Left>
__device__ __forceinline__ void forward_step(const attention_shape& a,
                                             const mask_rows<Mask, true, M>& mask, const Left& left,
                                             const bf16* key, const bf16* value, int first_query,
                                             int first_key, float (&output)[M][D / 8][4],
                                             softmax_state<M>& state) {
  const sight seen = mask.sight_of(first_query, rows, first_key, keys);
  if (seen == sight::nothing) return;
  float scores[M][keys / 8][4];
  multiply_rows<D, M, keys>(scores, left, key + right_lane<D>());
  if (seen == sight::some) hide_unseen(mask, scores, first_query, first_key);
  soften<D, M, keys>(scores, output, state, a.scale * log2_of_e);
  add_product<D, M, keys>(output, scores, value + left_lane<D>());
}

/// Output and lse of a warp's rows; `tile`: the warp's rows of the queries' tile, free by now.
template <int D>
__device__ __forceinline__ void finish_rows(const attention_shape& a, bf16* tile, bf16* out,
                                            float* lse, int there,
                                            const float (&output)[M][D / 8][4],
                                            const softmax_state<M>& state) {
  float factor[M][2];
  SIMT_UNROLL
  for (int m = 0; m < M; ++m) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float sum = quad_sum(state.sum[m][half]);
      factor[m][half] = 1 / sum;
      const int row = 16 * m + 8 * half + lane() / 4;
      if (lane() % 4 == 0 && row < there) lse[row] = state.top[m][half] * a.scale + logf(sum);
    }
  }
  sync_warp();
  put_rows<D, M>(tile, output, [&](int m, int half) { return factor[m][half]; });
  sync_warp();
  store_tile<D, rows>(out, a.out_stride(), tile, there, a.width);
}

/// Grid: order.heads (B H) * order.tiles (blocks of queries).
template <int D, class Mask>
__global__ void SIMT_BLOCK(attention_threads, 2)
    forward_kernel(attention_shape a, block_order order, const bf16* __restrict__ qkv,
                   bf16* __restrict__ out, float* __restrict__ lse, row_documents documents) {
  const block_place place = place_of_block(order);
  const int b = place.head / a.heads, h = place.head % a.heads;
  const Mask mask(a, documents, b);
  const int first_query = (order.tiles - 1 - place.tile) * queries;
  const int warp_query = first_query + warp_index() * rows;
  const int seen_end = first_query + queries < a.seq ? first_query + queries : a.seq;
  const int first_step = mask.first_key(first_query) / keys, steps = (seen_end + keys - 1) / keys;
  const forward_memory<D> memory;
  const int64_t stride = a.qkv_stride(), lane_at = copy_lane<D>(stride);
  const bf16* next = qkv + a.qkv_row(b, first_step * keys) + a.key_at(h / a.group) + lane_at;
  const auto fetch = [&](int step) {
    const int there = a.seq - step * keys;
    copy_tile<D, keys>(memory.key(step), next, stride, there, a.width);
    copy_tile<D, keys>(memory.value(step), next + a.kv_heads * a.width, stride, there, a.width);
    copy_async_commit();
    next += keys * stride;
  };
  copy_tile<D, queries>(memory.query, qkv + a.qkv_row(b, first_query) + a.query_at(h) + lane_at,
                        stride, a.seq - first_query, a.width);
  fetch(first_step);

  const mask_rows<Mask, true, M> seen(mask, warp_query, rows, warp_query);
  bf16* warp_tile = memory.query + warp_index() * rows * pitch<D>;
  constexpr bool hold = D <= 64;
  std::conditional_t<hold, register_left<D, M>, shared_left<D, M>> left;
  if constexpr (!hold) left.lane_base = warp_tile + left_lane<D>();
  float output[M][D / 8][4] = {};
  softmax_state<M> state;
  SIMT_UNROLL
  for (int i = 0; i < M * 2; ++i) {
    state.top[i / 2][i % 2] = -INFINITY;
    state.sum[i / 2][i % 2] = 0;
  }
  for (int step = first_step; step < steps; ++step) {
    copy_async_wait<0>();
    sync_block();  // this step's keys are there; nobody reads those of the step before any more
    if (step + 1 < steps) fetch(step + 1);
    if constexpr (hold) {
      if (step == first_step) left.fill(warp_tile + left_lane<D>());
    }
    forward_step<D>(a, seen, left, memory.key(step), memory.value(step), warp_query, step * keys,
                    output, state);
  }
  finish_rows<D>(a, warp_tile, out + a.out_row(b, warp_query) + a.query_at(h),
                 lse + int64_t{place.head} * a.seq + warp_query, a.seq - warp_query, output, state);
}

template <int D>
cudaError_t launch_width(cudaStream_t s, const attention_shape& a,
                         const attention_forward_args& args) {
  const int64_t tiles = blocks_for(a.seq, queries), blocks = tiles * a.batch_heads;
  if (blocks > std::numeric_limits<int>::max() / 2) return cudaErrorInvalidValue;
  const int64_t streamed = int64_t{a.seq} * a.width * 2 * int64_t{sizeof(bf16)};
  const auto kernel = args.documents.first != nullptr ? forward_kernel<D, document_mask>
                                                      : forward_kernel<D, window_mask>;
  return launch(
      kernel, {static_cast<unsigned>(blocks)}, attention_threads, forward_memory<D>::bytes, s, a,
      order_of_blocks(a.batch_heads, tiles, streamed, a.group), static_cast<const bf16*>(args.qkv),
      static_cast<bf16*>(args.out), args.lse, args.documents);
}

}  // namespace

cudaError_t tiled_attention_forward(cudaStream_t s, const attention_shape& a,
                                    const attention_forward_args& args) {
  if (a.width <= 64) return launch_width<64>(s, a, args);
  return a.width <= 96 ? launch_width<96>(s, a, args) : launch_width<128>(s, a, args);
}

}  // namespace troupe::gpu::cuda
