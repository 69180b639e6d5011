// Causal attention of bfloat16 on AMX tiles.
//
// The products are so fast here that the exponentials cost the most. Each head's operands are
// packed to tiles once; forward goes through 32 queries at a time and keeps their output's sums;
// backward computes the scores transposed (keys by queries), because then the weights come out as
// the left operand of the gradients of values and keys, and log-sum-exp and delta are vectors
// along the lanes.
#include "gpu/host/kernels/documents.hpp"
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/tiles.hpp"

#if defined(__AMX_BF16__)

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

constexpr int64_t key_chunk = 512;  // keys whose scores with 32 queries exist at a time
constexpr int64_t block = 128;      // keys by queries whose gradients exist at a time

TROUPE_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
TROUPE_INLINE int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/// Hands out pieces of a thread's working memory, each on its own cache lines; with no base it
/// counts.
struct carver {
  char* base;
  int64_t used = 0;

  template <class T>
  T* take(int64_t count) {
    T* piece = base != nullptr ? reinterpret_cast<T*>(base + used) : nullptr;
    used += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return piece;
  }
};

/// One head's rows in packed qkv (or out). Packing zero-fills rows to a multiple of 32, width
/// likewise.
struct head_rows {
  const bf16_bits* data;
  int64_t ld, seq, width;

  void as_left(bf16_bits* to) const { pack_left({data, ld, seq, width}, to); }
  /// Left operand of the transpose: A tiles of width x rows, the depth along the rows: [width /
  /// 16][rows / 32].
  void as_left_transposed(bf16_bits* to) const {
    const int64_t line = round_up(seq, block) / tile_depth * tile_values;
    for (int64_t d = 0; d < width; d += edge) {
      for (int64_t t = 0; t < seq; t += tile_depth) {
        vf sums[2] = {};  // nobody asks for them: the compiler drops them
        pack_rows_transposed(data + t * ld + d, ld, seq - t, smaller(edge, width - d),
                             to + d / tile_edge * line + t / tile_depth * tile_values, line,
                             sums[0], sums[1]);
      }
    }
  }
  void as_right_transposed(bf16_bits* to) const {
    pack_right_transposed({data, ld, seq, width}, to);
  }
  /// Right operand, the depth along the rows: panels of 32 of the width, [width / 32][row / 32]
  /// pairs of B tiles.
  void as_right(bf16_bits* to) const {
    const int64_t line = round_up(seq, block) / tile_depth * 2 * tile_values;
    for (int64_t d = 0; d < width; d += edge) {
      for (int64_t t = 0; t < seq; t += tile_depth) {
        pack_interleaved(data + t * ld + d, ld, seq - t, smaller(edge, width - d),
                         to + d / edge * line + t / tile_depth * 2 * tile_values);
      }
    }
  }
};

struct forward_memory {
  bf16_bits *q, *k, *v, *weights;
  float *scores, *out, *top, *total;
};

forward_memory carve_forward(void* scratch, int64_t seq, int64_t width, size_t* bytes) {
  const int64_t rows = round_up(seq, block), columns = round_up(width, edge);
  carver c{static_cast<char*>(scratch)};
  forward_memory m{};
  m.q = c.take<bf16_bits>(edge * columns);
  m.k = c.take<bf16_bits>(rows * columns);
  m.v = c.take<bf16_bits>(rows * columns);
  m.weights = c.take<bf16_bits>(edge * key_chunk);
  m.scores = c.take<float>(edge * key_chunk);
  m.out = c.take<float>(edge * columns);
  m.top = c.take<float>(edge);
  m.total = c.take<float>(edge);
  *bytes = static_cast<size_t>(c.used);
  return m;
}

/// Scores [32][keys] of a strip of queries against keys [k0, k0 + keys), raw.
void score_strip(const forward_memory& m, int64_t k0, int64_t keys, int64_t columns) {
  const int64_t steps = columns / tile_depth;
  const tiled_a q{m.q, steps * tile_values, tile_values, 64};
  for (int64_t u = 0; u < keys; u += edge) {
    zero_sums();
    multiply_tiles(q, m.k + (k0 + u) / edge * steps * 2 * tile_values, columns);
    store_sums(m.scores + u, key_chunk);
  }
}

/// One query's scores to weights 2^(scale * score - top) in A tiles; visible: [first, last) of
/// `keys`; `scale` contains log2(e). Updates the running maximum and sum; returns the factor by
/// which earlier results shrink.
float soften_row(const float* scores, bf16_bits* weights, int64_t keys, int64_t first, int64_t last,
                 float scale, float& top, float& total) {
  const auto seen = [&](int64_t u) {
    const vi at = lane_numbers() + static_cast<int32_t>(u);
    return (at >= static_cast<int32_t>(first)) & (at < static_cast<int32_t>(last));
  };
  // [from, to): whole pairs of vectors that are visible
  const int64_t from = smaller(round_up(first, 2 * W), keys);
  const int64_t to = larger(from, last / (2 * W) * (2 * W));
  const auto visible = [&](int64_t u) { return u >= from && u < to; };
  vf best = splat(-3.0e38f);
  for (int64_t u = 0; u < keys; u += W) {
    const vf x = load(scores + u);
    best = max(best, visible(u) ? x : select(seen(u), x, splat(-3.0e38f)));
  }
  const float highest = max(best) * scale, old = top;
  if (highest > top) top = highest;
  const vf shift = splat(top);
  vf even{}, odd{};
  for (int64_t u = 0; u < keys; u += 2 * W) {
    vf a = exp2(load(scores + u) * scale - shift), b = exp2(load(scores + u + W) * scale - shift);
    if (!visible(u)) {
      a = select(seen(u), a, vf{});
      b = select(seen(u + W), b, vf{});
    }
    even += a;
    odd += b;
    _mm512_storeu_si512(weights + u / tile_depth * tile_values, narrow_two(a, b));
  }
  const float shrink = old == top ? 1.0f : exp2(splat(old - top))[0];
  total = total * shrink + sum(even + odd);
  return shrink;
}

void scale_rows(float* row, int64_t columns, float factor) {
  for (int64_t d = 0; d < columns; d += W) store(row + d, load(row + d) * factor);
}

/// The softmax of 32 rows of scores and their product with the values, added to m.out.
void weigh_strip(const forward_memory& m, const visibility& sees, int64_t q0, int64_t queries,
                 int64_t k0, int64_t keys, int64_t rows, int64_t columns, float scale) {
  const int64_t line = keys / tile_depth * tile_values;  // of weights, per 16 queries
  for (int64_t i = 0; i < edge; ++i) {
    bf16_bits* weights = m.weights + i / tile_edge * line + i % tile_edge * tile_depth;
    const int64_t t = smaller(q0 + i, q0 + queries - 1);  // rows beyond the last repeat it, unread
    const float shrink =
        soften_row(m.scores + i * key_chunk, weights, keys, larger(0, sees.first(t) - k0),
                   smaller(keys, t + 1 - k0), scale, m.top[i], m.total[i]);
    if (shrink != 1.0f) scale_rows(m.out + i * columns, columns, shrink);
  }
  const tiled_a p{m.weights, line, tile_values, 64};
  for (int64_t d = 0; d < columns; d += edge) {
    load_sums(m.out + d, columns);
    multiply_tiles(p, m.v + (d / edge * rows + k0) / tile_depth * 2 * tile_values, keys);
    store_sums(m.out + d, columns);
  }
}

struct backward_memory {
  bf16_bits *k_left, *v_left, *k_flat, *q_deep, *dout_deep, *q_right, *dout_right;
  bf16_bits *p, *ds, *ds_right;  // [keys][queries] of a block: A tiles, A tiles, B tiles
  float *dq, *dk, *dv, *lse, *delta, *scores, *dp;  // dq is [width][seq]; lse in powers of 2
};

backward_memory carve_backward(void* scratch, int64_t seq, int64_t width, size_t* bytes) {
  const int64_t rows = round_up(seq, block), columns = round_up(width, edge);
  carver c{static_cast<char*>(scratch)};
  backward_memory m{};
  bf16_bits** packed[] = {&m.k_left,    &m.v_left,  &m.k_flat,    &m.q_deep,
                          &m.dout_deep, &m.q_right, &m.dout_right};
  for (bf16_bits** each : packed) *each = c.take<bf16_bits>(rows * columns);
  bf16_bits** blocks[] = {&m.p, &m.ds, &m.ds_right};
  for (bf16_bits** each : blocks) *each = c.take<bf16_bits>(block * block);
  float** sums[] = {&m.dq, &m.dk, &m.dv};
  for (float** each : sums) *each = c.take<float>(rows * columns);
  m.lse = c.take<float>(rows);
  m.delta = c.take<float>(rows);
  m.scores = c.take<float>(edge * edge);
  m.dp = c.take<float>(edge * edge);
  *bytes = static_cast<size_t>(c.used);
  return m;
}

/// Keys [k0, k0 + 32) by queries [q0, q0 + 32), from raw scores and dout.v (keys by queries):
/// weights p and score gradients ds, as rows of A tiles and, for ds, pairs of B tiles.
void differentiate_square(const backward_memory& m, const visibility& sees, int64_t k0, int64_t q0,
                          int64_t seq, float scale, bf16_bits* p, bf16_bits* ds, int64_t line,
                          bf16_bits* ds_right) {
  const vi query = lane_numbers() + static_cast<int32_t>(q0);
  const int64_t past = smaller(q0 + edge, seq) - 1;
  const bool whole = k0 + edge - 1 <= q0 && sees.first(past) <= k0 && q0 + edge <= seq;
  for (int64_t i = 0; i < edge; i += 2) {
    __m512i pair[2];
    for (int64_t r = i; r < i + 2; ++r) {
      vf w[2], g[2];
      for (int half = 0; half < 2; ++half) {
        const int64_t at = half * W;
        w[half] = exp2(load(m.scores + r * edge + at) * (scale * log2_e) - load(m.lse + q0 + at));
        if (!whole) {
          const vi t = query + static_cast<int32_t>(at);
          const vi seen =
              (t >= static_cast<int32_t>(k0 + r)) & (t < static_cast<int32_t>(sees.end(k0 + r)));
          w[half] = select(seen, w[half], vf{});
        }
        g[half] = scale * w[half] * (load(m.dp + r * edge + at) - load(m.delta + q0 + at));
      }
      const int64_t to = r / tile_edge * line + r % tile_edge * tile_depth;
      _mm512_storeu_si512(p + to, narrow_two(w[0], w[1]));
      pair[r - i] = narrow_two(g[0], g[1]);
      _mm512_storeu_si512(ds + to, pair[r - i]);
    }
    __m512i low, high;
    interleave(pair[0], pair[1], low, high);
    _mm512_storeu_si512(ds_right + i / 2 * tile_depth, low);
    _mm512_storeu_si512(ds_right + i / 2 * tile_depth + tile_values, high);
  }
}

/// C[32 x 32 blocks of rows x columns] += A B over `depth`.
void add_product(const tiled_a& a, const bf16_bits* b, int64_t panel, int64_t rows, int64_t columns,
                 int64_t depth, float* c, int64_t ld) {
  for (int64_t i = 0; i < rows; i += edge) {
    const tiled_a strip{a.data + i / tile_edge * a.row, a.row, a.step, a.stride};
    for (int64_t j = 0; j < columns; j += edge) {
      load_sums(c + i * ld + j, ld);
      multiply_tiles(strip, b + j / edge * panel, depth);
      store_sums(c + i * ld + j, ld);
    }
  }
}

/// Keys [k0, k0 + keys) against queries [q0, q0 + queries): multiples of 32, at most `block` each.
void backward_block(const backward_memory& m, const visibility& sees, int64_t k0, int64_t keys,
                    int64_t q0, int64_t queries, int64_t seq, int64_t columns, float scale) {
  const int64_t rows = round_up(seq, block), steps = columns / tile_depth;
  const int64_t line = queries / tile_depth * tile_values;    // of p and ds, per 16 keys
  const int64_t panel = keys / tile_depth * 2 * tile_values;  // of ds_right, per 32 queries
  for (int64_t k = 0; k < keys; k += edge) {
    const int64_t left = (k0 + k) / tile_edge * steps * tile_values;
    for (int64_t q = 0; q < queries; q += edge) {
      const int64_t deep = (q0 + q) / edge * steps * 2 * tile_values;
      zero_sums();
      multiply_tiles({m.k_left + left, steps * tile_values, tile_values, 64}, m.q_deep + deep,
                     columns);
      store_sums(m.scores, edge);
      zero_sums();
      multiply_tiles({m.v_left + left, steps * tile_values, tile_values, 64}, m.dout_deep + deep,
                     columns);
      store_sums(m.dp, edge);
      const int64_t to = k / tile_edge * line + q / tile_depth * tile_values;
      differentiate_square(m, sees, k0 + k, q0 + q, seq, scale, m.p + to, m.ds + to, line,
                           m.ds_right + q / edge * panel + k / tile_depth * 2 * tile_values);
    }
  }
  const int64_t right = rows / tile_depth * 2 * tile_values, at = q0 / tile_depth * 2 * tile_values;
  add_product({m.p, line, tile_values, 64}, m.dout_right + at, right, keys, columns, queries,
              m.dv + k0 * columns, columns);
  add_product({m.ds, line, tile_values, 64}, m.q_right + at, right, keys, columns, queries,
              m.dk + k0 * columns, columns);
  const int64_t flat = rows / tile_depth * tile_values;
  add_product({m.k_flat + k0 / tile_depth * tile_values, flat, tile_values, 64}, m.ds_right, panel,
              columns, queries, keys, m.dq + q0, rows);
}

/// Rows of sums to bfloat16.
void write_rows(const float* from, int64_t columns, int64_t seq, int64_t width, bf16_bits* to,
                int64_t ld) {
  for (int64_t t = 0; t < seq; ++t) {
    for_vectors(width, [&](int64_t d, int n) {
      store_some(to + t * ld + d, load(from + t * columns + d), n);
    });
  }
}

/// The same from [width][rows] sums.
void write_transposed(const float* from, int64_t rows, int64_t seq, int64_t width, bf16_bits* to,
                      int64_t ld) {
  for (int64_t t = 0; t < seq; t += W) {
    for (int64_t d = 0; d < width; d += W) {
      vf square[W];
      for (int i = 0; i < W; ++i) square[i] = load(from + (d + i) * rows + t);
      transpose_square(square);
      const int n = static_cast<int>(smaller(W, width - d));
      for (int i = 0; i < W && t + i < seq; ++i) store_some(to + (t + i) * ld + d, square[i], n);
    }
  }
}

/// Packs one query head and its dout; delta[t] = sum of dout * out; log-sum-exp, padded.
void prepare_query_head(const attention_backward_args& a, const backward_memory& m, int64_t b,
                        int64_t h) {
  const int64_t row = (a.heads + 2 * a.kv_heads) * a.head_width, out_row = a.heads * a.head_width;
  const int64_t rows = round_up(a.seq, block), out_at = b * a.seq * out_row + h * a.head_width;
  const head_rows q{static_cast<const bf16_bits*>(a.qkv) + b * a.seq * row + h * a.head_width, row,
                    a.seq, a.head_width};
  const head_rows dout{static_cast<const bf16_bits*>(a.dout) + out_at, out_row, a.seq,
                       a.head_width};
  const auto* out = static_cast<const bf16_bits*>(a.out) + out_at;
  const float* lse = a.lse + (b * a.heads + h) * a.seq;
  q.as_right_transposed(m.q_deep);
  q.as_right(m.q_right);
  dout.as_right_transposed(m.dout_deep);
  dout.as_right(m.dout_right);
  for (int64_t t = 0; t < rows; ++t) {
    vf total{};
    for (int64_t d = 0; t < a.seq && d < a.head_width; d += W) {
      const int n = static_cast<int>(smaller(W, a.head_width - d));
      total += load_some(out + t * out_row + d, n) * load_some(dout.data + t * out_row + d, n);
    }
    m.delta[t] = sum(total);
    m.lse[t] = t < a.seq ? lse[t] * log2_e : 0.0f;
  }
}

void clear(float* sums, size_t count) {
  __builtin_memset(sums, 0, count * sizeof(float));
}

}  // namespace

attention_scratch tile_attention_memory(int64_t seq, int64_t head_width) {
  attention_scratch need{};
  carve_forward(nullptr, seq, head_width, &need.forward_bytes);
  carve_backward(nullptr, seq, head_width, &need.backward_bytes);
  return need;
}

void tile_attention_forward(const attention_forward_args& a, int64_t b, int64_t h, void* scratch) {
  const int64_t width = a.head_width, columns = round_up(width, edge), seq = a.seq;
  const int64_t row = (a.heads + 2 * a.kv_heads) * width, rows = round_up(seq, block);
  const int64_t kv = h / (a.heads / a.kv_heads), out_row = a.heads * width;
  const auto* qkv = static_cast<const bf16_bits*>(a.qkv) + b * seq * row;
  auto* out = static_cast<bf16_bits*>(a.out) + b * seq * out_row + h * width;
  float* lse = a.lse + (b * a.heads + h) * seq;
  size_t bytes = 0;
  const forward_memory m = carve_forward(scratch, seq, width, &bytes);
  const auto sees = visibility::of_row(a, b);
  const float scale = log2_e / __builtin_sqrtf(static_cast<float>(width));
  const tile_lease lease;

  head_rows{qkv + (a.heads + kv) * width, row, seq, width}.as_right_transposed(m.k);
  head_rows{qkv + (a.heads + a.kv_heads + kv) * width, row, seq, width}.as_right(m.v);
  for (int64_t q0 = 0; q0 < seq; q0 += edge) {
    const int64_t queries = smaller(edge, seq - q0), end = q0 + queries;
    head_rows{qkv + q0 * row + h * width, row, queries, width}.as_left(m.q);
    clear(m.out, static_cast<size_t>(edge * columns));
    for (int64_t i = 0; i < edge; ++i) m.top[i] = -3.0e38f, m.total[i] = 0;
    for (int64_t k0 = sees.first(q0) / edge * edge; k0 < end; k0 += key_chunk) {
      const int64_t keys = smaller(key_chunk, round_up(end - k0, edge));
      score_strip(m, k0, keys, columns);
      weigh_strip(m, sees, q0, queries, k0, keys, rows, columns, scale);
    }
    for (int64_t i = 0; i < queries; ++i) {
      scale_rows(m.out + i * columns, columns, 1.0f / m.total[i]);
      lse[q0 + i] = m.top[i] / log2_e + __builtin_logf(m.total[i]);
    }
    write_rows(m.out, columns, queries, width, out + q0 * out_row, out_row);
  }
}

void tile_attention_backward(const attention_backward_args& a, int64_t b, int64_t kv,
                             void* scratch) {
  const int64_t width = a.head_width, columns = round_up(width, edge), seq = a.seq;
  const int64_t row = (a.heads + 2 * a.kv_heads) * width, rows = round_up(seq, block);
  const int64_t group = a.heads / a.kv_heads;
  const auto* qkv = static_cast<const bf16_bits*>(a.qkv) + b * seq * row;
  auto* dqkv = static_cast<bf16_bits*>(a.dqkv) + b * seq * row;
  size_t bytes = 0;
  const backward_memory m = carve_backward(scratch, seq, width, &bytes);
  const auto sees = visibility::of_row(a, b);
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(width));
  const int64_t k_at = (a.heads + kv) * width, v_at = k_at + a.kv_heads * width;
  const tile_lease lease;

  clear(m.dk, static_cast<size_t>(rows * columns));
  clear(m.dv, static_cast<size_t>(rows * columns));
  const head_rows k{qkv + k_at, row, seq, width}, v{qkv + v_at, row, seq, width};
  k.as_left(m.k_left);
  v.as_left(m.v_left);
  k.as_left_transposed(m.k_flat);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    prepare_query_head(a, m, b, h);
    clear(m.dq, static_cast<size_t>(rows * columns));
    for (int64_t k0 = 0; k0 < seq; k0 += block) {
      const int64_t keys = smaller(block, round_up(seq - k0, edge));
      const int64_t last = sees.end(smaller(seq, k0 + keys) - 1);  // past all who see these keys
      for (int64_t q0 = k0; q0 < last; q0 += block) {
        backward_block(m, sees, k0, keys, q0, smaller(block, round_up(last - q0, edge)), seq,
                       columns, scale);
      }
    }
    write_transposed(m.dq, rows, seq, width, dqkv + h * width, row);
  }
  write_rows(m.dk, columns, seq, width, dqkv + k_at, row);
  write_rows(m.dv, columns, seq, width, dqkv + v_at, row);
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT

#endif
