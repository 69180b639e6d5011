// Attention forward by groups of four warps: FlashAttention-2 (Dao 2023, Algorithm 1) by wgmma.
//
// A block is one group and owns 64 queries of one head; their output stays in registers while it
// walks over the keys they see, 64 at a time: scores = Q K^T, softmax kept up to date (a maximum
// and a sum per row, in base 2), output = P V with P taken from the scores' registers. The next 64
// keys and values arrive during the products of these (two stages). Four blocks (D 128: two)
// share a multiprocessor, so that the exponentials of one, as long as its products at D 64, are
// behind the products of the others.
//
// Deterministic (ATT-1): a row belongs to one warp, which adds in the order of the keys. The result
// has the bits of attention_forward.cu's.
#include "gpu/cuda/kernels/attention_panels.hpp"
#include "gpu/cuda/kernels/attention_parts.hpp"
#include "gpu/cuda/kernels/attention_rows.hpp"

namespace troupe::gpu::cuda {
namespace {

template <int D>
struct group_forward_traits {
  static constexpr int keys = 64;  ///< of a step
  static constexpr int blocks = D <= 64 ? 4 : 2;
  static constexpr size_t bytes = panel_bytes<D>(group_rows + 4 * keys);
  static_assert(fit_together(blocks, bytes));
};

/// Grid: order.heads (B H) * order.tiles (blocks of queries).
template <int D, class Mask, class Traits = group_forward_traits<D>>
__global__ void SIMT_BLOCK(attention_threads, Traits::blocks)
    group_forward_kernel(attention_shape a, block_order order, const bf16* __restrict__ qkv,
                         bf16* __restrict__ out, float* __restrict__ lse, row_documents documents) {
  constexpr int keys = Traits::keys;
  const block_place place = place_of_block(order);
  const int b = place.head / a.heads, h = place.head % a.heads;
  const Mask mask(a, documents, b);
  const int first_query = (order.tiles - 1 - place.tile) * group_rows;
  const int warp_query = first_query + warp_index() * 16;
  const int seen_end = first_query + group_rows < a.seq ? first_query + group_rows : a.seq;
  const int first_step = mask.first_key(first_query) / keys, steps = (seen_end + keys - 1) / keys;
  auto* query = shared_memory<unsigned char>();
  const auto key = [&](int step) {
    return query + panel_bytes<D>(group_rows + (step & 1) * 2 * keys);
  };
  const int64_t stride = a.qkv_stride(), lane_at = copy_lane<D>(stride);
  const bf16* next = qkv + a.qkv_row(b, first_step * keys) + a.key_at(h / a.group) + lane_at;
  const auto fetch = [&](int step) {
    const int there = a.seq - step * keys;
    copy_panels<D, keys>(key(step), next, stride, there, a.width);
    copy_panels<D, keys>(key(step) + panel_bytes<D>(keys), next + a.kv_heads * a.width, stride,
                         there, a.width);
    copy_async_commit();
    next += keys * stride;
  };
  copy_panels<D, group_rows>(query, qkv + a.qkv_row(b, first_query) + a.query_at(h) + lane_at,
                             stride, a.seq - first_query, a.width);
  fetch(first_step);

  const mask_rows<Mask, true, 1> seen(mask, first_query, group_rows, warp_query);
  float output[1][D / 8][4] = {};
  softmax_state<1> state{{{-INFINITY, -INFINITY}}, {{0, 0}}};
  for (int step = first_step; step < steps; ++step) {
    await_panels();
    if (step + 1 < steps) fetch(step + 1);
    float scores[1][keys / 8][4];
    group_products_begin();
    multiply_panels<D, keys>(scores, query, key(step));
    group_products_commit();
    group_products_wait<0>(scores);
    if (seen.sight_of(first_query, group_rows, step * keys, keys) != sight::all)
      hide_unseen(seen, scores, warp_query, step * keys);
    soften<D, 1, keys>(scores, output, state, a.scale * log2_of_e);
    group_left<keys> weights(scores);
    group_products_begin(output, weights.held);
    add_panels<D, keys>(output, weights, key(step) + panel_bytes<D>(keys));
    group_products_commit();
    group_products_wait<0>(output);
  }
  float factor[2];
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float sum = quad_sum(state.sum[0][half]);
    factor[half] = 1 / sum;
    const int query_row = warp_query + 8 * half + lane() / 4;
    if (lane() % 4 == 0 && query_row < a.seq)
      lse[int64_t{place.head} * a.seq + query_row] = state.top[0][half] * a.scale + logf(sum);
  }
  store_panels<D>(out + a.out_row(b, first_query) + a.query_at(h), a.out_stride(), query, output,
                  a.seq - first_query, a.width, [&](int half) { return factor[half]; });
}

template <int D>
cudaError_t launch_width(cudaStream_t s, const attention_shape& a,
                         const attention_forward_args& args) {
  const int64_t tiles = blocks_for(a.seq, group_rows), blocks = tiles * a.batch_heads;
  if (blocks > std::numeric_limits<int>::max() / 2) return cudaErrorInvalidValue;
  const int64_t streamed = int64_t{a.seq} * a.width * 2 * int64_t{sizeof(bf16)};
  const auto kernel = args.documents.first != nullptr ? group_forward_kernel<D, document_mask>
                                                      : group_forward_kernel<D, window_mask>;
  return launch(
      kernel, {static_cast<unsigned>(blocks)}, attention_threads, group_forward_traits<D>::bytes, s,
      a, order_of_blocks(a.batch_heads, tiles, streamed, a.group),
      static_cast<const bf16*>(args.qkv), static_cast<bf16*>(args.out), args.lse, args.documents);
}

}  // namespace

cudaError_t group_attention_forward(cudaStream_t s, const attention_shape& a,
                                    const attention_forward_args& args) {
  return a.width <= 64 ? launch_width<64>(s, a, args) : launch_width<128>(s, a, args);
}

}  // namespace troupe::gpu::cuda
