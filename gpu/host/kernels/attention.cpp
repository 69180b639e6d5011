// Causal attention, forward and backward, in blocks that stay in cache (Dao et al. 2022,
// "FlashAttention").
//
// One call does one head: its rows are first copied to padded float32, then blocks of queries
// meet blocks of keys; of the T x T scores only one block exists at a time. Blocks no query of
// which sees any key of (causality, window, documents) are skipped.

#include "gpu/host/kernels/documents.hpp"
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/micro.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

constexpr int64_t query_block = 48;             // whole tiles of micro.hpp
constexpr int64_t key_block = 128;              // whole vectors
constexpr int64_t score_line = key_block + 16;  // floats between rows of scores: see key_line

TROUPE_INLINE int64_t round_up(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}
TROUPE_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
TROUPE_INLINE int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/// Hands out pieces of a thread's working memory, each on its own cache lines; with no base it
/// counts.
struct carver {
  float* base;
  int64_t used = 0;

  float* take(int64_t floats) {
    float* piece = base != nullptr ? base + used : nullptr;
    used += round_up(floats, 16);
    return piece;
  }
};

constexpr int64_t rows_ahead = 12;  // a head's rows are far apart: no hardware foresees them

/// Asks for a row that will be copied; it need not exist.
template <class T>
TROUPE_INLINE void fetch_row(const T* row, int64_t width) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t d = 0; d < width; d += line) __builtin_prefetch(row + d);
}

/// Copies rows [0, rows) of one head into padded rows of `padded` floats; the padding is zero.
template <class T>
void gather(const T* from, int64_t stride, int64_t rows, int64_t width, int64_t padded, float* to) {
  for (int64_t t = 0; t < rows; ++t, from += stride, to += padded) {
    fetch_row(from + rows_ahead * stride, width);
    int64_t d = 0;
    for (; d + W <= width; d += W) store(to + d, load(from + d));
    if (d < padded) store(to + d, load(from + d, static_cast<int>(width - d)));
  }
}

/// Asks for a row that will be written.
template <class T>
TROUPE_INLINE void fetch_for_writing(T* row, int64_t width) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t d = 0; d < width; d += line) __builtin_prefetch(row + d, 1);
}

template <class T>
void scatter(const float* from, int64_t padded, int64_t rows, int64_t width, T* to,
             int64_t stride) {
  for (int64_t t = 0; t < rows; ++t, from += padded, to += stride) {
    fetch_for_writing(to + rows_ahead * stride, width);
    for_vectors(width, [&](int64_t d, int n) { store_some(to + d, load(from + d), n); });
  }
}

/// to[d * line + t] = from[t * padded + d], t < columns; columns beyond `rows` are zero.
void transpose(const float* from, int64_t padded, int64_t rows, int64_t width, float* to,
               int64_t columns, int64_t line) {
  for (int64_t t = 0; t < columns; t += W) {
    for (int64_t d = 0; d < width; d += W) {
      vf square[W];
      for (int i = 0; i < W; ++i) {
        square[i] = t + i < rows ? load(from + (t + i) * padded + d) : vf{};
      }
      transpose_square(square);
      for (int i = 0; i < W && d + i < width; ++i) store(to + (d + i) * line + t, square[i]);
    }
  }
}

/// Which keys of a block the rows of a tile of queries need: causality saves half of the blocks on
/// the diagonal.
struct causal_tiles {
  int64_t ahead;    ///< the block's first query is that many keys behind its first key
  int64_t queries;  ///< in the block
  int64_t count;    ///< keys in the block, in whole vectors

  /// Keys [0, seen(i)) are all that the tile of query i sees, and at least tile_rows - 1 more, in
  /// whole vectors: so a tile of keys finds zeros where it reaches beyond the diagonal.
  TROUPE_INLINE int64_t seen(int64_t i) const {
    const int64_t end = smaller(queries, (i / tile_rows + 1) * tile_rows);
    return larger(0, smaller(count, round_up(larger(0, ahead + end + tile_rows - 1), W)));
  }
  /// The first query that sees key u.
  TROUPE_INLINE int64_t first_query(int64_t u) const { return larger(0, u - ahead); }
};

/// Floats between rows of transposed keys: an odd number of cache lines, or the rows of a tile, all
/// of them needed at once, would share a few sets of the cache and evict each other.
TROUPE_INLINE int64_t key_line(int64_t seq) {
  return round_up(seq, key_block) + 16;
}

struct forward_memory {
  float *q, *k_t, *v, *scores, *out, *top, *total;
};

forward_memory carve_forward(void* scratch, int64_t seq, int64_t width, size_t* bytes) {
  const int64_t padded = round_up(width, W), keys = round_up(seq, key_block);
  carver c{static_cast<float*>(scratch)};
  forward_memory m{};
  m.q = c.take(query_block * padded);
  m.k_t = c.take(width * key_line(seq));
  m.v = c.take(keys * padded);
  m.scores = c.take(query_block * score_line);
  m.out = c.take(query_block * padded);
  m.top = c.take(query_block);
  m.total = c.take(query_block);
  *bytes = static_cast<size_t>(c.used) * sizeof(float);
  return m;
}

/// Calls f(u, whole) over vectors of [0, count): `whole` ones lie in [first, last), others may
/// lie outside in part or altogether.
template <class F>
TROUPE_INLINE void for_keys(int64_t count, int64_t first, int64_t last, F&& f) {
  const int64_t from = smaller(round_up(first, W), count), to = larger(from, last / W * W);
  for (int64_t u = 0; u < from; u += W) f(u, std::false_type{});
  for (int64_t u = from; u < to; u += W) f(u, std::true_type{});
  for (int64_t u = to; u < count; u += W) f(u, std::false_type{});
}

/// Lanes of a vector at key u that lie in [first, last).
TROUPE_INLINE vi seen_keys(int64_t u, int64_t first, int64_t last) {
  const vi at = lane_numbers() + static_cast<int32_t>(u);
  return (at >= static_cast<int32_t>(first)) & (at < static_cast<int32_t>(last));
}

/// Turns raw scores of one query against keys [0, count) into 2^(scale * score - top), 0 outside
/// [first, last), updating the row's running maximum and sum; returns the factor by which earlier
/// results shrink. `scale` contains log2(e).
TROUPE_INLINE float soften(float* s, int64_t count, int64_t first, int64_t last, float scale,
                           float& top, float& total) {
  vf best = splat(-3.0e38f);
  for_keys(count, first, last, [&](int64_t u, auto whole) {
    const vf x = load(s + u);
    best = max(best, whole ? x : select(seen_keys(u, first, last), x, splat(-3.0e38f)));
  });
  const float highest = max(best) * scale, old = top;
  if (highest > top) top = highest;
  const vf shift = splat(top);
  vf part{};
  for_keys(count, first, last, [&](int64_t u, auto whole) {
    vf e = exp2(load(s + u) * scale - shift);
    if (!whole) e = select(seen_keys(u, first, last), e, vf{});
    store(s + u, e);
    part += e;
  });
  const float shrink = old == top ? 1.0f : exp2(splat(old - top))[0];
  total = total * shrink + sum(part);
  return shrink;
}

template <class T>
void forward_head(const attention_forward_args& a, int64_t b, int64_t h, void* scratch) {
  const int64_t width = a.head_width, padded = round_up(width, W), seq = a.seq;
  const int64_t line = key_line(seq), row = (a.heads + 2 * a.kv_heads) * width;
  const int64_t kv = h / (a.heads / a.kv_heads);
  const T* qkv = static_cast<const T*>(a.qkv) + b * seq * row;
  T* out = static_cast<T*>(a.out) + b * seq * a.heads * width + h * width;
  float* lse = a.lse + (b * a.heads + h) * seq;
  size_t bytes = 0;
  const forward_memory m = carve_forward(scratch, seq, width, &bytes);
  const auto sees = visibility::of_row(a, b);
  const float scale = log2_e / __builtin_sqrtf(static_cast<float>(width));

  const T *q = qkv + h * width, *k = qkv + (a.heads + kv) * width, *v = k + a.kv_heads * width;

  for (int64_t q0 = 0; q0 < seq; q0 += query_block) {
    const int64_t queries = smaller(query_block, seq - q0);
    float* new_v = m.v + q0 * padded;
    gather(k + q0 * row, row, queries, width, padded, new_v);  // K, where V will be
    transpose(new_v, padded, queries, width, m.k_t + q0, round_up(queries, W), line);
    gather(v + q0 * row, row, queries, width, padded, new_v);
    gather(q + q0 * row, row, queries, width, padded, m.q);
    __builtin_memset(m.out, 0, static_cast<size_t>(queries * padded) * sizeof(float));
    for (int64_t i = 0; i < queries; ++i) m.top[i] = -3.0e38f, m.total[i] = 0;
    for (int64_t k0 = sees.first(q0) / key_block * key_block; k0 < q0 + queries; k0 += key_block) {
      const causal_tiles tiles{q0 - k0, queries,
                               round_up(smaller(key_block, q0 + queries - k0), W)};
      multiply_part(queries, tiles.count, {m.q, padded, 1}, m.k_t + k0, line, m.scores, score_line,
                    false, [&](int64_t i, int64_t) {
                      return part{tiles.seen(i), 0, width};
                    });
      const bool last_keys = k0 + key_block >= q0 + queries;
      for (int64_t i = 0; i < queries; ++i) {
        if (last_keys) {  // meanwhile the rows of the next block of queries come
          const int64_t next = (q0 + query_block + i) * row;
          fetch_row(k + next, width);
          fetch_row(v + next, width);
          fetch_row(q + next, width);
          fetch_for_writing(out + (q0 + i) * a.heads * width, width);
        }
        const int64_t count = tiles.seen(i), first = larger(0, sees.first(q0 + i) - k0);
        const int64_t last = smaller(count, q0 + i + 1 - k0);
        const float shrink =
            soften(m.scores + i * score_line, count, first, last, scale, m.top[i], m.total[i]);
        if (shrink == 1.0f) continue;
        for (int64_t d = 0; d < padded; d += W) {
          store(m.out + i * padded + d, load(m.out + i * padded + d) * shrink);
        }
      }
      multiply_part(queries, padded, {m.scores, score_line, 1}, m.v + k0 * padded, padded, m.out,
                    padded, true, [&](int64_t i, int64_t) {
                      return part{padded, 0, smaller(tiles.seen(i), seq - k0)};
                    });
    }
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t d = 0; d < padded; d += W) {
        store(m.out + i * padded + d, load(m.out + i * padded + d) / m.total[i]);
      }
      lse[q0 + i] = m.top[i] / log2_e + __builtin_logf(m.total[i]);
    }
    scatter(m.out, padded, queries, width, out + q0 * a.heads * width, a.heads * width);
  }
}

struct cached_memory {
  float *q, *scores, *out;
};

cached_memory carve_cached(void* scratch, int64_t width, size_t* bytes) {
  const int64_t padded = round_up(width, W);
  carver c{static_cast<float*>(scratch)};
  cached_memory m{};
  m.q = c.take(padded);
  m.scores = c.take(key_block);
  m.out = c.take(padded);
  *bytes = static_cast<size_t>(c.used) * sizeof(float);
  return m;
}

/// Keys and values are read where they lie: each is used once, so copies would only cost.
template <class T>
void cached_query(const attention_cached_args& a, int64_t i, int64_t h, void* scratch) {
  const int64_t width = a.head_width, padded = round_up(width, W);
  const int64_t row = (a.heads + 2 * a.kv_heads) * width, kv = h / (a.heads / a.kv_heads);
  const int64_t t = a.seq - a.queries + i;
  const T* qkv = static_cast<const T*>(a.qkv);
  const T *k = qkv + (a.heads + kv) * width, *v = k + a.kv_heads * width;
  size_t bytes = 0;
  const cached_memory m = carve_cached(scratch, width, &bytes);
  const float scale = log2_e / __builtin_sqrtf(static_cast<float>(width));
  gather(qkv + t * row + h * width, row, 1, width, padded, m.q);
  __builtin_memset(m.out, 0, static_cast<size_t>(padded) * sizeof(float));
  float top = -3.0e38f, total = 0;
  for (int64_t k0 = a.window > 0 ? larger(0, t - a.window + 1) : 0; k0 <= t; k0 += key_block) {
    const int64_t count = smaller(key_block, t + 1 - k0);
    for (int64_t u = 0; u < count; ++u) {
      const T* key = k + (k0 + u) * row;
      fetch_row(key + rows_ahead * row, width);
      fetch_row(v + (k0 + u) * row, width);
      vf products{};
      for_vectors(width,
                  [&](int64_t d, int n) { products += load_some(key + d, n) * load(m.q + d); });
      m.scores[u] = sum(products);
    }
    for (int64_t u = count; u < round_up(count, W); ++u) m.scores[u] = 0;
    const float shrink = soften(m.scores, round_up(count, W), 0, count, scale, top, total);
    for (int64_t d = 0; d < padded; d += W) store(m.out + d, load(m.out + d) * shrink);
    for (int64_t u = 0; u < count; ++u) {
      const T* value = v + (k0 + u) * row;
      const vf weight = splat(m.scores[u]);
      for_vectors(width, [&](int64_t d, int n) {
        store(m.out + d, load(m.out + d) + weight * load_some(value + d, n));
      });
    }
  }
  T* out = static_cast<T*>(a.out) + (i * a.heads + h) * width;
  for_vectors(width, [&](int64_t d, int n) { store_some(out + d, load(m.out + d) / total, n); });
}

struct backward_memory {
  float *q, *dout, *k, *v, *dq, *dk, *dv, *k_t, *v_t, *p, *ds, *delta, *out;
};

backward_memory carve_backward(void* scratch, int64_t seq, int64_t width, size_t* bytes) {
  const int64_t padded = round_up(width, W);
  carver c{static_cast<float*>(scratch)};
  backward_memory m{};
  float** wholes[] = {&m.q, &m.dout, &m.k, &m.v, &m.dq, &m.dk, &m.dv};
  for (float** whole : wholes) *whole = c.take(seq * padded);
  m.k_t = c.take(width * score_line);
  m.v_t = c.take(width * score_line);
  m.p = c.take(query_block * score_line);
  m.ds = c.take(query_block * score_line);
  m.delta = c.take(seq);
  m.out = c.take(query_block * padded);
  *bytes = static_cast<size_t>(c.used) * sizeof(float);
  return m;
}

/// From raw scores in p and dout.v in ds: p = softmax weight, ds = scale * p * (ds - delta).
TROUPE_INLINE void weigh(float* p, float* ds, int64_t count, int64_t first, int64_t last,
                         float scale, float lse, float delta) {
  const float to_log2 = scale * log2_e;
  const vf shift = splat(lse * log2_e);
  for_keys(count, first, last, [&](int64_t u, auto whole) {
    vf w = exp2(load(p + u) * to_log2 - shift);
    if (!whole) w = select(seen_keys(u, first, last), w, vf{});
    store(p + u, w);
    store(ds + u, scale * w * (load(ds + u) - delta));
  });
}

/// One block of keys against every block of queries that sees it.
void backward_keys(const attention_backward_args& a, const visibility& sees,
                   const backward_memory& m, const float* lse, int64_t k0) {
  const int64_t width = a.head_width, padded = round_up(width, W), seq = a.seq;
  const int64_t in_block = smaller(key_block, seq - k0);
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(width));
  transpose(m.k + k0 * padded, padded, in_block, width, m.k_t, key_block, score_line);
  transpose(m.v + k0 * padded, padded, in_block, width, m.v_t, key_block, score_line);
  for (int64_t q0 = k0 / query_block * query_block; q0 < seq; q0 += query_block) {
    const int64_t queries = smaller(query_block, seq - q0);
    if (!sees.meets(q0, q0 + queries, k0, k0 + in_block)) break;  // later queries see less of it
    const int64_t keys = smaller(in_block, q0 + queries - k0);
    const causal_tiles tiles{q0 - k0, queries, round_up(keys, W)};
    const float *q = m.q + q0 * padded, *dout = m.dout + q0 * padded;
    const auto scores = [&](int64_t i, int64_t) { return part{tiles.seen(i), 0, width}; };
    multiply_part(queries, tiles.count, {q, padded, 1}, m.k_t, score_line, m.p, score_line, false,
                  scores);
    multiply_part(queries, tiles.count, {dout, padded, 1}, m.v_t, score_line, m.ds, score_line,
                  false, scores);
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t t = q0 + i;
      weigh(m.p + i * score_line, m.ds + i * score_line, tiles.seen(i),
            larger(0, sees.first(t) - k0), smaller(keys, t + 1 - k0), scale, lse[t], m.delta[t]);
    }
    const auto of_keys = [&](int64_t u, int64_t) {
      return part{padded, smaller(tiles.first_query(u), queries), queries};
    };
    multiply_part(keys, padded, {m.p, 1, score_line}, dout, padded, m.dv + k0 * padded, padded,
                  true, of_keys);
    multiply_part(keys, padded, {m.ds, 1, score_line}, q, padded, m.dk + k0 * padded, padded, true,
                  of_keys);
    multiply_part(queries, padded, {m.ds, score_line, 1}, m.k + k0 * padded, padded,
                  m.dq + q0 * padded, padded, true, [&](int64_t i, int64_t) {
                    return part{padded, 0, smaller(tiles.seen(i), keys)};
                  });
  }
}

/// delta[t] = sum over d of dout * out.
template <class T>
void row_products(const T* out, int64_t stride, const backward_memory& m, int64_t seq,
                  int64_t width, int64_t padded) {
  for (int64_t t = 0; t < seq; ++t) {
    vf total{};
    for_vectors(width, [&](int64_t d, int n) {
      total += load_some(out + t * stride + d, n) * load(m.dout + t * padded + d);
    });
    m.delta[t] = sum(total);
  }
}

template <class T>
void backward_kv_head(const attention_backward_args& a, int64_t b, int64_t kv, void* scratch) {
  const int64_t width = a.head_width, padded = round_up(width, W), seq = a.seq;
  const int64_t row = (a.heads + 2 * a.kv_heads) * width, out_row = a.heads * width;
  const int64_t group = a.heads / a.kv_heads;
  const T* qkv = static_cast<const T*>(a.qkv) + b * seq * row;
  T* dqkv = static_cast<T*>(a.dqkv) + b * seq * row;
  size_t bytes = 0;
  const backward_memory m = carve_backward(scratch, seq, width, &bytes);
  const int64_t k_at = (a.heads + kv) * width, v_at = k_at + a.kv_heads * width;
  const auto sees = visibility::of_row(a, b);
  const size_t whole = static_cast<size_t>(seq * padded) * sizeof(float);

  gather(qkv + k_at, row, seq, width, padded, m.k);
  gather(qkv + v_at, row, seq, width, padded, m.v);
  __builtin_memset(m.dk, 0, whole);
  __builtin_memset(m.dv, 0, whole);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const int64_t out_at = b * seq * out_row + h * width;
    gather(qkv + h * width, row, seq, width, padded, m.q);
    gather(static_cast<const T*>(a.dout) + out_at, out_row, seq, width, padded, m.dout);
    row_products(static_cast<const T*>(a.out) + out_at, out_row, m, seq, width, padded);
    __builtin_memset(m.dq, 0, whole);
    const float* lse = a.lse + (b * a.heads + h) * seq;
    for (int64_t k0 = 0; k0 < seq; k0 += key_block) backward_keys(a, sees, m, lse, k0);
    scatter(m.dq, padded, seq, width, dqkv + h * width, row);
  }
  scatter(m.dk, padded, seq, width, dqkv + k_at, row);
  scatter(m.dv, padded, seq, width, dqkv + v_at, row);
}

}  // namespace

attention_scratch attention_memory(int64_t seq, int64_t head_width) {
  attention_scratch need{};
  carve_forward(nullptr, seq, head_width, &need.forward_bytes);
  carve_backward(nullptr, seq, head_width, &need.backward_bytes);
  carve_cached(nullptr, head_width, &need.cached_bytes);
#if defined(__AMX_BF16__)
  const attention_scratch tiles = tile_attention_memory(seq, head_width);
  if (tiles.forward_bytes > need.forward_bytes) need.forward_bytes = tiles.forward_bytes;
  if (tiles.backward_bytes > need.backward_bytes) need.backward_bytes = tiles.backward_bytes;
#endif
  return need;
}

void attention_forward(const attention_forward_args& a, int64_t b, int64_t h, void* scratch) {
#if defined(__AMX_BF16__)
  if (a.type == dtype::bf16) return tile_attention_forward(a, b, h, scratch);
#endif
  if (a.type == dtype::bf16) return forward_head<bf16_bits>(a, b, h, scratch);
  forward_head<float>(a, b, h, scratch);
}

void attention_cached(const attention_cached_args& a, int64_t i, int64_t h, void* scratch) {
  if (a.type == dtype::bf16) return cached_query<bf16_bits>(a, i, h, scratch);
  cached_query<float>(a, i, h, scratch);
}

void attention_backward(const attention_backward_args& a, int64_t b, int64_t kv_head,
                        void* scratch) {
#if defined(__AMX_BF16__)
  if (a.type == dtype::bf16) return tile_attention_backward(a, b, kv_head, scratch);
#endif
  if (a.type == dtype::bf16) return backward_kv_head<bf16_bits>(a, b, kv_head, scratch);
  backward_kv_head<float>(a, b, kv_head, scratch);
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
