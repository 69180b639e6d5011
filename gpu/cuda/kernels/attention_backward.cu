// Attention backward on tensor cores, by two kernels (Dao 2023, Algorithm 2, cut in two).
//
// With S = scale Q K^T, P = exp(S - lse), dP = dO V^T, delta = sums over d of dO * O and
// dS = P * (dP - delta):
//   query_kernel  blocks of queries walk over keys:      S, dP, dQ = scale dS K      (3 products)
//   key_kernel    blocks of keys walk over queries:      S, dP, dV = P^T dO, dK = scale dS^T Q  (4)
// Both compute S and dP with the rows they own on the left and the rows they stream on the right,
// so that P and dS are left operands of the next product where they are, in registers; nothing but
// the tiles ever goes through shared memory. query_kernel computes delta for key_kernel as well.
//
// Why two: one kernel needs 5 products, but its blocks must add to a dQ that others add to. Float
// atomics make results depend on timing (DEV-5); blocks that take turns in a fixed order wait for
// each other, and add T / 64 times 4 bytes per element of dQ through the L2 cache (at D 128 and
// 400 TFLOP/s 1.2 TB/s of atomics). Two kernels execute 14 instead of 10 B H V D FLOPs, share
// nothing, need no clearing, and dQ is rounded once. Of a training step of GPT-2 or Llama at T
// <= 2,048 attention backward is under a tenth, so that the 1.4 costs some 2 % of it.
//
// The traffic from shared memory, in cycles per product of an SM's tensor cores at mma.sync's peak
// (1.0: both are busy all the time; attention_tiles.hpp):
//                 D 64: 32 rows a warp, 32 columns      D 96, 128
//   query_kernel  S, dP 0.63 (rows in registers), dQ 0.63   32 rows:    S, dP 1.25, dQ 0.63
//   key_kernel    S, dP 1.25, dV, dK 0.63                   16 rows:    S, dP 1.56, dV, dK 1.25
// key_kernel at D 128 holds two sums of 16 x 128 a warp (128 registers); 32 rows would spill. To be
// expected: 25-30 % of the dense peak counted in 10 B H V D.
//
// The heads of a group are walked one after the other inside a block of keys (ATT-1): no sums
// between blocks. Tiles nobody sees are never visited, warps leave out what only others see, and
// only pairs at the diagonal, the window's edge and documents' borders are looked at one by one. A
// block's keys may be of several documents: its walk ends with the last key's, whose end is the
// largest.
#include "gpu/cuda/kernels/attention_parts.hpp"
#include "gpu/cuda/kernels/attention_rows.hpp"
#include "gpu/cuda/kernels/attention_tiles.hpp"

namespace troupe::gpu::cuda {
namespace {

// -- dQ -------------------------------------------------------------------------------------------

template <int D>
struct query_kernel_traits {
  static constexpr int M = 2, rows = 16 * M, queries = rows * attention_warps;
  static constexpr int step = 32;                 ///< keys multiplied together
  static constexpr int keys = D <= 64 ? 64 : 32;  ///< keys of a stage: two blocks must fit
  static constexpr bool hold = D <= 64;           ///< rows of Q and dO stay in registers
  static constexpr size_t bytes = tile_bytes<D>(2 * queries + 4 * keys);
  using left = std::conditional_t<hold, register_left<D, M>, shared_left<D, M>>;
};

/// dquery += dS K of a warp's rows and `step` keys.
template <int D, class Mask, class Traits = query_kernel_traits<D>, int M = Traits::M>
__device__ __forceinline__ void query_step(const attention_shape& a,
                                           const mask_rows<Mask, true, M>& mask,
                                           const typename Traits::left& query,
                                           const typename Traits::left& dout, const bf16* key,
                                           const bf16* value, int first_query, int first_key,
                                           const row_statistics<M>& s,
                                           float (&dquery)[M][D / 8][4]) {
  constexpr int N = Traits::step;
  const sight seen = mask.sight_of(first_query, Traits::rows, first_key, N);
  if (seen == sight::nothing) return;
  float weight[M][N / 8][4], slope[M][N / 8][4];
  multiply_rows<D, M, N>(weight, query, key + right_lane<D>());
  if (seen == sight::some) hide_unseen(mask, weight, first_query, first_key);
  multiply_rows<D, M, N>(slope, dout, value + right_lane<D>());
  const float scale = a.scale * log2_of_e;
  SIMT_UNROLL
  for (int m = 0; m < M; ++m) {
    SIMT_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      const int half = i % 4 / 2;
      float& ds = slope[m][i / 4][i % 4];
      ds = weight_of(weight[m][i / 4][i % 4], scale, s.lse[m][half]) * (ds - s.delta[m][half]);
    }
  }
  add_product<D, M, N>(dquery, slope, key + left_lane<D>());
}

/// Grid: order.heads (B H) * order.tiles (blocks of queries).
template <int D, class Mask>
__global__ void SIMT_BLOCK(attention_threads, 2)
    query_kernel(attention_shape a, block_order order, backward_tensors t) {
  using traits = query_kernel_traits<D>;
  constexpr int M = traits::M, queries = traits::queries, keys = traits::keys;
  const block_place place = place_of_block(order);
  const int b = place.head / a.heads, h = place.head % a.heads;
  const Mask mask(a, t.documents, b);
  const int first_query = (order.tiles - 1 - place.tile) * queries;
  const int warp_query = first_query + warp_index() * traits::rows;
  const int seen_end = first_query + queries < a.seq ? first_query + queries : a.seq;
  const int first_tile = mask.first_key(first_query) / keys, tiles = (seen_end + keys - 1) / keys;
  bf16* query_tile = shared_memory<bf16>();
  bf16* dout_tile = query_tile + queries * pitch<D>;
  const auto key_tile = [&](int tile) {
    return dout_tile + (queries + (tile & 1) * 2 * keys) * pitch<D>;
  };
  const int64_t stride = a.qkv_stride(), lane_at = copy_lane<D>(stride);
  const bf16* next = t.qkv + a.qkv_row(b, first_tile * keys) + a.key_at(h / a.group) + lane_at;
  const auto fetch = [&](int tile) {
    const int there = a.seq - tile * keys;
    bf16* to = key_tile(tile);
    copy_tile<D, keys>(to, next, stride, there, a.width);
    copy_tile<D, keys>(to + keys * pitch<D>, next + a.kv_heads * a.width, stride, there, a.width);
    copy_async_commit();
    next += keys * stride;
  };
  copy_tile<D, queries>(query_tile, t.qkv + a.qkv_row(b, first_query) + a.query_at(h) + lane_at,
                        stride, a.seq - first_query, a.width);
  copy_tile<D, queries>(
      dout_tile, t.dout + a.out_row(b, first_query) + a.query_at(h) + copy_lane<D>(a.out_stride()),
      a.out_stride(), a.seq - first_query, a.width);
  fetch(first_tile);

  const int64_t warp_out = a.out_row(b, warp_query) + a.query_at(h);
  const int64_t warp_statistics = int64_t{place.head} * a.seq + warp_query;
  const auto statistics = read_statistics<D, M>(a, t.out + warp_out, t.dout + warp_out,
                                                t.lse + warp_statistics, a.seq - warp_query);
  const mask_rows<Mask, true, M> seen(mask, warp_query, traits::rows, warp_query);
  bf16* warp_tile = query_tile + warp_index() * traits::rows * pitch<D>;
  typename traits::left query, dout;
  if constexpr (!traits::hold) {
    query.lane_base = warp_tile + left_lane<D>();
    dout.lane_base = query.lane_base + queries * pitch<D>;
  }
  float dquery[M][D / 8][4] = {};
  for (int tile = first_tile; tile < tiles; ++tile) {
    copy_async_wait<0>();
    sync_block();  // this tile's keys are there; nobody reads those of the tile before any more
    if (tile + 1 < tiles) fetch(tile + 1);
    if constexpr (traits::hold) {
      if (tile == first_tile) {
        query.fill(warp_tile + left_lane<D>());
        dout.fill(warp_tile + queries * pitch<D> + left_lane<D>());
      }
    }
    for (int part = 0; part < keys; part += traits::step) {
      const bf16* key = key_tile(tile) + part * pitch<D>;
      query_step<D>(a, seen, query, dout, key, key + keys * pitch<D>, warp_query,
                    tile * keys + part, statistics, dquery);
    }
  }
  SIMT_UNROLL
  for (int i = 0; i < 2 * M; ++i) {
    const int row = 8 * i + lane() / 4;
    if (lane() % 4 == 0 && warp_query + row < a.seq)
      t.delta[warp_statistics + row] = statistics.delta[i / 2][i % 2];
  }
  sync_warp();
  put_rows<D, M>(warp_tile, dquery, [&](int, int) { return a.scale; });
  sync_warp();
  store_tile<D, traits::rows>(t.dqkv + a.qkv_row(b, warp_query) + a.query_at(h), a.qkv_stride(),
                              warp_tile, a.seq - warp_query, a.width);
}

// -- dK and dV ------------------------------------------------------------------------------------

template <int D>
struct key_kernel_traits {
  static constexpr int M = D <= 64 ? 2 : 1, rows = 16 * M, keys = rows * attention_warps;
  static constexpr int step = D <= 64 ? 32 : 64;  ///< queries multiplied together
  static constexpr int queries = 64;              ///< of a stage
  static constexpr size_t statistics = 2 * queries * sizeof(pack<float, 2>);
  static constexpr size_t bytes = statistics + tile_bytes<D>(2 * keys + 4 * queries);
};

/// dkey += dS^T Q and dvalue += P^T dO of a warp's rows and `step` queries.
template <int D, class Mask, class Traits = key_kernel_traits<D>, int M = Traits::M>
__device__ __forceinline__ void key_step(const attention_shape& a,
                                         const mask_rows<Mask, false, M>& mask,
                                         const shared_left<D, M>& key,
                                         const shared_left<D, M>& value, const bf16* query,
                                         const bf16* dout, const query_statistics* statistics,
                                         int first_query, int first_key, float (&dkey)[M][D / 8][4],
                                         float (&dvalue)[M][D / 8][4]) {
  constexpr int N = Traits::step;
  const sight seen = mask.sight_of(first_query, N, first_key, Traits::rows);
  if (seen == sight::nothing) return;
  float weight[M][N / 8][4], slope[M][N / 8][4];
  multiply_rows<D, M, N>(weight, key, query + right_lane<D>());
  if (seen == sight::some) hide_unseen(mask, weight, first_query, first_key);
  const float scale = a.scale * log2_of_e;
  statistics += lane() % 4 * 2;
  SIMT_UNROLL
  for (int n = 0; n < N / 8; ++n) {
    const auto two = *reinterpret_cast<const pack<float, 4>*>(statistics + 8 * n);
    SIMT_UNROLL
    for (int i = 0; i < 4 * M; ++i) {
      float& w = weight[i / 4][n][i % 4];
      w = weight_of(w, scale, two.v[i % 2 * 2]);
    }
  }
  add_product<D, M, N>(dvalue, weight, dout + left_lane<D>());
  multiply_rows<D, M, N>(slope, value, dout + right_lane<D>());
  SIMT_UNROLL
  for (int n = 0; n < N / 8; ++n) {
    const auto two = *reinterpret_cast<const pack<float, 4>*>(statistics + 8 * n);
    SIMT_UNROLL
    for (int i = 0; i < 4 * M; ++i)
      slope[i / 4][n][i % 4] =
          weight[i / 4][n][i % 4] * (slope[i / 4][n][i % 4] - two.v[i % 2 * 2 + 1]);
  }
  add_product<D, M, N>(dkey, slope, query + left_lane<D>());
}

/// Grid: order.heads (B K) * order.tiles (blocks of keys).
template <int D, class Mask>
__global__ void SIMT_BLOCK(attention_threads, 2)
    key_kernel(attention_shape a, block_order order, backward_tensors t) {
  using traits = key_kernel_traits<D>;
  constexpr int M = traits::M, keys = traits::keys, queries = traits::queries;
  const block_place place = place_of_block(order);
  const int b = place.head / a.kv_heads, kv = place.head % a.kv_heads;
  const Mask mask(a, t.documents, b);
  const int first_key = place.tile * keys, warp_key = first_key + warp_index() * traits::rows;
  const int last_key = (first_key + keys < a.seq ? first_key + keys : a.seq) - 1;
  const int begin = first_key / queries * queries, end = mask.end_query(last_key);
  const int visits = (end - begin + queries - 1) / queries * a.group;
  auto* statistics = shared_memory<query_statistics>();
  bf16* key_tile = reinterpret_cast<bf16*>(statistics + 2 * queries);
  bf16* value_tile = key_tile + keys * pitch<D>;
  const auto query_tile = [&](int visit) {
    return value_tile + (keys + (visit & 1) * 2 * queries) * pitch<D>;
  };
  query_walk at(a, t, b, kv * a.group, begin, copy_lane<D>(a.qkv_stride()),
                copy_lane<D>(a.out_stride()));
  const auto fetch = [&](int visit) {
    bf16* to = query_tile(visit);
    const int there = a.seq - at.first;
    copy_tile<D, queries>(to, at.query, a.qkv_stride(), there, a.width);
    copy_tile<D, queries>(to + queries * pitch<D>, at.dout, a.out_stride(), there, a.width);
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
  copy_tile<D, keys>(key_tile, from, a.qkv_stride(), a.seq - first_key, a.width);
  copy_tile<D, keys>(value_tile, from + a.kv_heads * a.width, a.qkv_stride(), a.seq - first_key,
                     a.width);
  fetch(0);
  keep(0, read());

  const mask_rows<Mask, false, M> seen(mask, warp_key, traits::rows, warp_key);
  bf16* warp_tile = key_tile + warp_index() * traits::rows * pitch<D>;
  const shared_left<D, M> key{warp_tile + left_lane<D>()};
  const shared_left<D, M> value{key.lane_base + keys * pitch<D>};
  float dkey[M][D / 8][4] = {}, dvalue[M][D / 8][4] = {};
  for (int visit = 0; visit < visits; ++visit) {
    const int first_query = at.first;
    const bool more = visit + 1 < visits;
    query_statistics next{};
    if (more) {
      at.advance(a, begin, end, queries);
      next = read();  // lanes part at the last query: the barrier, not a product, unites them
    }
    copy_async_wait<0>();
    sync_block();  // this visit's queries are there; nobody reads those of the last any more
    if (more) fetch(visit + 1);
    for (int part = 0; part < queries; part += traits::step) {
      const bf16* query = query_tile(visit) + part * pitch<D>;
      key_step<D>(a, seen, key, value, query, query + queries * pitch<D>,
                  statistics + (visit & 1) * queries + part, first_query + part, warp_key, dkey,
                  dvalue);
    }
    keep(visit + 1, next);
  }
  sync_warp();
  put_rows<D, M>(warp_tile, dkey, [&](int, int) { return a.scale; });
  put_rows<D, M>(warp_tile + keys * pitch<D>, dvalue, [](int, int) { return 1.0f; });
  sync_warp();
  bf16* to = t.dqkv + a.qkv_row(b, warp_key);
  store_tile<D, traits::rows>(to + a.key_at(kv), a.qkv_stride(), warp_tile, a.seq - warp_key,
                              a.width);
  store_tile<D, traits::rows>(to + a.value_at(kv), a.qkv_stride(), warp_tile + keys * pitch<D>,
                              a.seq - warp_key, a.width);
}

// -- launching ------------------------------------------------------------------------------------

template <int D, class Mask>
cudaError_t launch_masked(cudaStream_t s, const attention_shape& a, const backward_tensors& t) {
  constexpr int64_t most = std::numeric_limits<int>::max() / 2;
  const int64_t pair = int64_t{a.seq} * a.width * 2 * int64_t{sizeof(bf16)};
  const int64_t query_tiles = blocks_for(a.seq, query_kernel_traits<D>::queries);
  const int64_t key_tiles = blocks_for(a.seq, key_kernel_traits<D>::keys);
  if (query_tiles * a.batch_heads > most || key_tiles * a.batch_kv > most)
    return cudaErrorInvalidValue;
  const cudaError_t queries =
      launch(query_kernel<D, Mask>, {static_cast<unsigned>(query_tiles * a.batch_heads)},
             attention_threads, query_kernel_traits<D>::bytes, s, a,
             order_of_blocks(a.batch_heads, query_tiles, pair, a.group), t);
  if (queries != cudaSuccess) return queries;
  return launch(key_kernel<D, Mask>, {static_cast<unsigned>(key_tiles * a.batch_kv)},
                attention_threads, key_kernel_traits<D>::bytes, s, a,
                order_of_blocks(a.batch_kv, key_tiles, pair * a.group, 1), t);
}

template <int D>
cudaError_t launch_width(cudaStream_t s, const attention_shape& a, const backward_tensors& t) {
  return t.documents.first != nullptr ? launch_masked<D, document_mask>(s, a, t)
                                      : launch_masked<D, window_mask>(s, a, t);
}

}  // namespace

cudaError_t tiled_attention_backward(cudaStream_t s, const attention_shape& a,
                                     const attention_backward_args& args, float* delta) {
  const backward_tensors t = tensors_of(args, delta);
  if (a.width <= 64) return launch_width<64>(s, a, t);
  return a.width <= 96 ? launch_width<96>(s, a, t) : launch_width<128>(s, a, t);
}

}  // namespace troupe::gpu::cuda
