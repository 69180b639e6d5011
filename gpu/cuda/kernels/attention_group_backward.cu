// Attention backward by groups of four warps, by two kernels like attention_backward.cu, which says
// why two and what they compute; here the products are wgmma, and what streams is read by them from
// shared memory alone.
//
// A block is one group and owns 64 queries (group_query_kernel: dQ, and delta for the other) or 64
// keys (group_key_kernel: dK, dV). Both products of a step that need no exponential, S and dP, are
// enqueued together where registers allow, and the weights are computed during the second.
//
// Registers (of 65,536 a multiprocessor; of a thread): group_query_kernel holds dQ, S and dP, D / 2
// + 32 + 32. group_key_kernel holds dK and dV, D, so that S must be gone when dP comes: of the
// weights only what was rounded for dV stays, twice, and dS is made of that.
//
// Seen on an H200: dQ 357 to 608 TFLOP/s of executed products, dK and dV 300 to 414 (docs/gpu.md).
#include "gpu/cuda/kernels/attention_panels.hpp"
#include "gpu/cuda/kernels/attention_parts.hpp"
#include "gpu/cuda/kernels/attention_rows.hpp"

namespace troupe::gpu::cuda {
namespace {

// -- dQ -------------------------------------------------------------------------------------------

template <int D>
struct group_query_traits {
  static constexpr int keys = 64;  ///< of a step
  static constexpr int blocks = D <= 64 ? 4 : 2;
  static constexpr size_t bytes = panel_bytes<D>(2 * group_rows + 4 * keys);
  static_assert(fit_together(blocks, bytes));
};

/// dquery += dS K of the group's queries and a step's keys.
template <int D, class Mask, int N = group_query_traits<D>::keys>
__device__ __forceinline__ void query_step(const attention_shape& a,
                                           const mask_rows<Mask, true, 1>& mask,
                                           const unsigned char* query, const unsigned char* key,
                                           int first_query, int first_key,
                                           const row_statistics<1>& s,
                                           float (&dquery)[1][D / 8][4]) {
  float weight[1][N / 8][4], slope[1][N / 8][4];
  group_products_begin();
  multiply_panels<D, N>(weight, query, key);
  group_products_commit();
  multiply_panels<D, N>(slope, query + panel_bytes<D>(group_rows), key + panel_bytes<D>(N));
  group_products_commit();
  group_products_wait<1>(weight);
  if (mask.sight_of(first_query, group_rows, first_key, N) != sight::all)
    hide_unseen(mask, weight, first_query + warp_index() * 16, first_key);
  SIMT_UNROLL
  for (int i = 0; i < N / 2; ++i) {
    float& w = weight[0][i / 4][i % 4];
    w = weight_of(w, a.scale * log2_of_e, s.lse[0][i % 4 / 2]);
  }
  group_products_wait<0>(slope);
  SIMT_UNROLL
  for (int i = 0; i < N / 2; ++i) {
    float& ds = slope[0][i / 4][i % 4];
    ds = weight[0][i / 4][i % 4] * (ds - s.delta[0][i % 4 / 2]);
  }
  group_left<N> left(slope);
  group_products_begin(dquery, left.held);
  add_panels<D, N>(dquery, left, key);
  group_products_commit();
  group_products_wait<0>(dquery);
}

/// Grid: order.heads (B H) * order.tiles (blocks of queries).
template <int D, class Mask, class Traits = group_query_traits<D>>
__global__ void SIMT_BLOCK(attention_threads, Traits::blocks)
    group_query_kernel(attention_shape a, block_order order, backward_tensors t) {
  constexpr int keys = Traits::keys;
  const block_place place = place_of_block(order);
  const int b = place.head / a.heads, h = place.head % a.heads;
  const Mask mask(a, t.documents, b);
  const int first_query = (order.tiles - 1 - place.tile) * group_rows;
  const int warp_query = first_query + warp_index() * 16;
  const int seen_end = first_query + group_rows < a.seq ? first_query + group_rows : a.seq;
  const int first_step = mask.first_key(first_query) / keys, steps = (seen_end + keys - 1) / keys;
  auto* query = shared_memory<unsigned char>();
  const auto key = [&](int step) {
    return query + panel_bytes<D>(2 * group_rows + (step & 1) * 2 * keys);
  };
  const int64_t stride = a.qkv_stride(), lane_at = copy_lane<D>(stride);
  const bf16* next = t.qkv + a.qkv_row(b, first_step * keys) + a.key_at(h / a.group) + lane_at;
  const auto fetch = [&](int step) {
    const int there = a.seq - step * keys;
    copy_panels<D, keys>(key(step), next, stride, there, a.width);
    copy_panels<D, keys>(key(step) + panel_bytes<D>(keys), next + a.kv_heads * a.width, stride,
                         there, a.width);
    copy_async_commit();
    next += keys * stride;
  };
  copy_panels<D, group_rows>(query, t.qkv + a.qkv_row(b, first_query) + a.query_at(h) + lane_at,
                             stride, a.seq - first_query, a.width);
  copy_panels<D, group_rows>(
      query + panel_bytes<D>(group_rows),
      t.dout + a.out_row(b, first_query) + a.query_at(h) + copy_lane<D>(a.out_stride()),
      a.out_stride(), a.seq - first_query, a.width);
  fetch(first_step);

  const int64_t warp_out = a.out_row(b, warp_query) + a.query_at(h);
  const int64_t warp_statistics = int64_t{place.head} * a.seq + warp_query;
  const auto statistics = read_statistics<D, 1>(a, t.out + warp_out, t.dout + warp_out,
                                                t.lse + warp_statistics, a.seq - warp_query);
  const mask_rows<Mask, true, 1> seen(mask, first_query, group_rows, warp_query);
  float dquery[1][D / 8][4] = {};
  for (int step = first_step; step < steps; ++step) {
    await_panels();
    if (step + 1 < steps) fetch(step + 1);
    query_step<D>(a, seen, query, key(step), first_query, step * keys, statistics, dquery);
  }
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = 8 * half + lane() / 4;
    if (lane() % 4 == 0 && warp_query + row < a.seq)
      t.delta[warp_statistics + row] = statistics.delta[0][half];
  }
  store_panels<D>(t.dqkv + a.qkv_row(b, first_query) + a.query_at(h), stride, query, dquery,
                  a.seq - first_query, a.width, [&](int) { return a.scale; });
}

// -- dK and dV ------------------------------------------------------------------------------------

template <int D>
struct group_key_traits {
  static constexpr int queries = D <= 64 ? 128 : 64;  ///< of a step
  static constexpr int blocks = 2;
  static constexpr size_t panels = panel_bytes<D>(2 * group_rows + 4 * queries);
  static constexpr size_t bytes = panels + 2 * queries * sizeof(query_statistics);
  static_assert(fit_together(blocks, bytes));
};

/// dvalue += P^T dO and dkey += dS^T Q of the group's keys and a step's queries.
template <int D, class Mask, int N = group_key_traits<D>::queries>
__device__ __forceinline__ void key_step(const attention_shape& a,
                                         const mask_rows<Mask, false, 1>& mask,
                                         const unsigned char* key, const unsigned char* query,
                                         const query_statistics* statistics, int first_query,
                                         int first_key, float (&dkey)[1][D / 8][4],
                                         float (&dvalue)[1][D / 8][4]) {
  const unsigned char* dout = query + panel_bytes<D>(N);
  float scores[1][N / 8][4];
  group_products_begin();
  multiply_panels<D, N>(scores, key, query);
  group_products_commit();
  group_products_wait<0>(scores);
  if (mask.sight_of(first_query, N, first_key, group_rows) != sight::all)
    hide_unseen(mask, scores, first_query, first_key + warp_index() * 16);
  const float scale = a.scale * log2_of_e;
  statistics += lane() % 4 * 2;
  SIMT_UNROLL
  for (int n = 0; n < N / 8; ++n) {
    const auto two = *reinterpret_cast<const pack<float, 4>*>(statistics + 8 * n);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i)
      scores[0][n][i] = weight_of(scores[0][n][i], scale, two.v[i % 2 * 2]);
  }
  group_left<N> weights(scores);
  // Of dV's operand nothing may be read while it multiplies, and no copy that a compiler sees
  // through is one: a number that is 0 makes another of it.
  group_left<N> rounded = weights;
  const auto zero = static_cast<uint32_t>(a.seq >> 31);
  SIMT_UNROLL
  for (int i = 0; i < N / 4; ++i) rounded.held[i / 4][i % 4] ^= zero;
  group_products_begin(dvalue, weights.held, rounded.held);
  multiply_panels<D, N>(scores, key + panel_bytes<D>(group_rows), dout);  // dP
  group_products_commit();
  add_panels<D, N>(dvalue, weights, dout);
  group_products_commit();
  group_products_wait<1>(scores);
  SIMT_UNROLL
  for (int n = 0; n < N / 8; ++n) {
    const auto two = *reinterpret_cast<const pack<float, 4>*>(statistics + 8 * n);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = rounded.held[n / 2][n % 2 * 2 + i / 2];
      const float weight = bits_to_float(i % 2 ? pair & 0xffff0000u : pair << 16);
      scores[0][n][i] = weight * (scores[0][n][i] - two.v[i % 2 * 2 + 1]);
    }
  }
  group_left<N> slopes(scores);
  group_products_begin(dkey, slopes.held);
  add_panels<D, N>(dkey, slopes, query);
  group_products_commit();
  group_products_wait<0>(dkey, dvalue);
}

/// Grid: order.heads (B K) * order.tiles (blocks of keys).
template <int D, class Mask, class Traits = group_key_traits<D>>
__global__ void SIMT_BLOCK(attention_threads, Traits::blocks)
    group_key_kernel(attention_shape a, block_order order, backward_tensors t) {
  constexpr int queries = Traits::queries;
  const block_place place = place_of_block(order);
  const int b = place.head / a.kv_heads, kv = place.head % a.kv_heads;
  const Mask mask(a, t.documents, b);
  const int first_key = place.tile * group_rows;
  const int last_key = (first_key + group_rows < a.seq ? first_key + group_rows : a.seq) - 1;
  const int begin = first_key / queries * queries, end = mask.end_query(last_key);
  const int visits = (end - begin + queries - 1) / queries * a.group;
  auto* key = shared_memory<unsigned char>();
  const auto query = [&](int visit) {
    return key + panel_bytes<D>(2 * group_rows + (visit & 1) * 2 * queries);
  };
  auto* statistics = reinterpret_cast<query_statistics*>(key + Traits::panels);
  query_walk at(a, t, b, kv * a.group, begin, copy_lane<D>(a.qkv_stride()),
                copy_lane<D>(a.out_stride()));
  const auto fetch = [&](int visit) {
    const int there = a.seq - at.first;
    copy_panels<D, queries>(query(visit), at.query, a.qkv_stride(), there, a.width);
    copy_panels<D, queries>(query(visit) + panel_bytes<D>(queries), at.dout, a.out_stride(), there,
                            a.width);
    copy_async_commit();
  };
  const auto read = [&]() -> query_statistics {
    if (thread_index() >= queries || at.first + thread_index() >= a.seq) return {INFINITY, 0};
    return {t.lse[at.statistics + thread_index()] * log2_of_e,
            t.delta[at.statistics + thread_index()]};
  };
  const auto keep = [&](int visit, const query_statistics& s) {
    if (thread_index() < queries) statistics[(visit & 1) * queries + thread_index()] = s;
  };
  const bf16* from = t.qkv + a.qkv_row(b, first_key) + a.key_at(kv) + copy_lane<D>(a.qkv_stride());
  copy_panels<D, group_rows>(key, from, a.qkv_stride(), a.seq - first_key, a.width);
  copy_panels<D, group_rows>(key + panel_bytes<D>(group_rows), from + a.kv_heads * a.width,
                             a.qkv_stride(), a.seq - first_key, a.width);
  fetch(0);
  keep(0, read());

  const mask_rows<Mask, false, 1> seen(mask, first_key, group_rows, first_key + warp_index() * 16);
  float dkey[1][D / 8][4] = {}, dvalue[1][D / 8][4] = {};
  for (int visit = 0; visit < visits; ++visit) {
    const int first_query = at.first;
    const bool more = visit + 1 < visits;
    query_statistics next{};
    if (more) {
      at.advance(a, begin, end, queries);
      next = read();
    }
    await_panels();
    if (more) fetch(visit + 1);
    key_step<D>(a, seen, key, query(visit), statistics + (visit & 1) * queries, first_query,
                first_key, dkey, dvalue);
    keep(visit + 1, next);
  }
  bf16* to = t.dqkv + a.qkv_row(b, first_key);
  store_panels<D>(to + a.key_at(kv), a.qkv_stride(), key, dkey, a.seq - first_key, a.width,
                  [&](int) { return a.scale; });
  store_panels<D>(to + a.value_at(kv), a.qkv_stride(), key + panel_bytes<D>(group_rows), dvalue,
                  a.seq - first_key, a.width, [](int) { return 1.0f; });
}

// -- launching ------------------------------------------------------------------------------------

template <int D, class Mask>
cudaError_t launch_masked(cudaStream_t s, const attention_shape& a, const backward_tensors& t) {
  constexpr int64_t most = std::numeric_limits<int>::max() / 2;
  const int64_t pair = int64_t{a.seq} * a.width * 2 * int64_t{sizeof(bf16)};
  const int64_t tiles = blocks_for(a.seq, group_rows);
  if (tiles * a.batch_heads > most) return cudaErrorInvalidValue;
  const cudaError_t queries =
      launch(group_query_kernel<D, Mask>, {static_cast<unsigned>(tiles * a.batch_heads)},
             attention_threads, group_query_traits<D>::bytes, s, a,
             order_of_blocks(a.batch_heads, tiles, pair, a.group), t);
  if (queries != cudaSuccess) return queries;
  return launch(group_key_kernel<D, Mask>, {static_cast<unsigned>(tiles * a.batch_kv)},
                attention_threads, group_key_traits<D>::bytes, s, a,
                order_of_blocks(a.batch_kv, tiles, pair * a.group, 1), t);
}

template <int D>
cudaError_t launch_width(cudaStream_t s, const attention_shape& a, const backward_tensors& t) {
  return t.documents.first != nullptr ? launch_masked<D, document_mask>(s, a, t)
                                      : launch_masked<D, window_mask>(s, a, t);
}

}  // namespace

cudaError_t group_attention_backward(cudaStream_t s, const attention_shape& a,
                                     const attention_backward_args& args, float* delta) {
  const backward_tensors t = tensors_of(args, delta);
  return a.width <= 64 ? launch_width<64>(s, a, t) : launch_width<128>(s, a, t);
}

}  // namespace troupe::gpu::cuda
