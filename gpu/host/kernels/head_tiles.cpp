// The head's softmax gradient on AMX tiles: logits never leave the cache.
//
// Logits of 32 tokens by some hundred words are multiplied into a small buffer and turned at once
// into e^(logit - top of the buffer's row), stored as bfloat16 where the gradient will be; when a
// token's words are all done, its row is scaled to scale * (softmax - onehot). One exponential a
// logit, and a fifth of the memory traffic of writing logits down.
#include "gpu/host/kernels/kernels.hpp"
#include "gpu/host/kernels/tiles.hpp"

#if defined(__AMX_BF16__)

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

TROUPE_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/// How the vocabulary is cut: chunks of so many words that their packed weights stay in the
/// second level cache.
int64_t words_of_chunk(int64_t width) {
  const int64_t fit = (int64_t{256} << 10) / round_up(width, tile_depth) / edge * edge;
  return fit < edge ? edge : fit > 512 ? 512 : fit;
}

struct head_memory {
  bf16_bits *x, *w;                         // all rows as A tiles; one chunk of words as B tiles
  float *logits, *top, *total, *at_target;  // [32][words]; [chunk][row] twice; [row]
};

head_memory carve_head(void* scratch, int64_t rows, int64_t width, int64_t vocab, size_t* bytes) {
  const int64_t depth = round_up(width, tile_depth), words = words_of_chunk(width);
  const int64_t chunks = (vocab + words - 1) / words, padded = round_up(rows, edge);
  char* base = static_cast<char*>(scratch);
  int64_t used = 0;
  const auto take = [&](int64_t size) {
    char* piece = base != nullptr ? base + used : nullptr;
    used += round_up(size, 64);
    return piece;
  };
  head_memory m{};
  m.x = reinterpret_cast<bf16_bits*>(take(padded * depth * 2));
  m.w = reinterpret_cast<bf16_bits*>(take(words * depth * 2));
  m.logits = reinterpret_cast<float*>(take(edge * words * 4));
  m.top = reinterpret_cast<float*>(take(chunks * padded * 4));
  m.total = reinterpret_cast<float*>(take(chunks * padded * 4));
  m.at_target = reinterpret_cast<float*>(take(padded * 4));
  *bytes = static_cast<size_t>(used);
  return m;
}

/// Where the gradient goes; data is null when only the losses are wanted.
struct gradient_rows {
  bf16_bits* data;
  int64_t stride;
};

/// One row of one chunk: its maximum, the sum of e^(logit - maximum), and those as bfloat16
/// (unless null).
void soften_words(const float* logits, int64_t words, bf16_bits* to, float& top, float& total) {
  vf best = splat(logits[0]);
  for_vectors(words, [&](int64_t v, int n) {
    const vf x = load(logits + v);
    best = max(best, n == W ? x : blend_first(x, best, n));
  });
  top = max(best);
  vf sums{};
  for_vectors(words, [&](int64_t v, int n) {
    const vf e = exp(load(logits + v) - top);
    sums += n == W ? e : first_lanes(e, n);
    if (to != nullptr) store_some(to + v, e, n);
  });
  total = sum(sums);
}

/// Tokens [i0, i0 + 32) of the rows against the packed chunk of words [v0, v0 + words).
void score_words(const head_loss_args& a, const head_memory& m, int64_t begin, int64_t i0,
                 int64_t rows, int64_t v0, int64_t words, gradient_rows gradient) {
  const int64_t depth = round_up(a.width, tile_depth), steps = depth / tile_depth;
  const int64_t ld = words_of_chunk(a.width), padded = round_up(rows, edge);
  const tiled_a strip{m.x + i0 / tile_edge * steps * tile_values, steps * tile_values, tile_values,
                      64};
  for (int64_t v = 0; v < words; v += edge) {
    zero_sums();
    multiply_tiles(strip, m.w + v / edge * steps * 2 * tile_values, depth);
    store_sums(m.logits + v, ld);
  }
  const int64_t chunk = v0 / ld;
  for (int64_t i = i0; i < smaller(i0 + edge, rows); ++i) {
    const float* logits = m.logits + (i - i0) * ld;
    const int64_t target = a.targets[begin + i] - v0;
    if (target >= 0 && target < words) m.at_target[i] = logits[target];
    bf16_bits* to = gradient.data != nullptr ? gradient.data + i * gradient.stride + v0 : nullptr;
    soften_words(logits, words, to, m.top[chunk * padded + i], m.total[chunk * padded + i]);
  }
}

/// Row i from e^(logit - top of chunk) to scale * (softmax - onehot); returns its loss.
double finish_row(const head_loss_args& a, const head_memory& m, int64_t begin, int64_t i,
                  int64_t rows, gradient_rows gradient) {
  const int64_t ld = words_of_chunk(a.width), padded = round_up(rows, edge);
  const int32_t target = a.targets[begin + i];
  bf16_bits* row = gradient.data != nullptr ? gradient.data + i * gradient.stride : nullptr;
  if (target < 0) {
    if (row != nullptr) __builtin_memset(row, 0, static_cast<size_t>(a.vocab) * sizeof *row);
    return 0;
  }
  float highest = m.top[i];
  for (int64_t v = 0; v < a.vocab; v += ld) {
    const float top = m.top[v / ld * padded + i];
    if (top > highest) highest = top;
  }
  double total = 0;
  for (int64_t v = 0; v < a.vocab; v += ld) {
    const int64_t at = v / ld * padded + i;
    total +=
        static_cast<double>(m.total[at]) * static_cast<double>(exp(splat(m.top[at] - highest))[0]);
  }
  const double lse = static_cast<double>(highest) + __builtin_log(total);
  const double loss = lse - static_cast<double>(m.at_target[i]);
  if (row == nullptr) return loss;
  const auto share = static_cast<float>(static_cast<double>(a.scale) / total);
  for (int64_t v = 0; v < a.vocab; v += ld) {
    const float factor = share * exp(splat(m.top[v / ld * padded + i] - highest))[0];
    for_vectors(smaller(ld, a.vocab - v), [&](int64_t k, int n) {
      store_some(row + v + k, load_some(row + v + k, n) * factor, n);
    });
  }
  store(row + target, share * exp(splat(m.at_target[i] - highest)) - a.scale, 1);
  return loss;
}

}  // namespace

size_t tile_head_memory(int64_t rows, int64_t width, int64_t vocab) {
  size_t bytes = 0;
  carve_head(nullptr, rows, width, vocab, &bytes);
  return bytes;
}

void tile_head_gradient(const head_loss_args& a, int64_t begin, int64_t end, void* gradient,
                        int64_t stride, double* losses, void* scratch) {
  const int64_t rows = end - begin, words = words_of_chunk(a.width);
  size_t bytes = 0;
  const head_memory m = carve_head(scratch, rows, a.width, a.vocab, &bytes);
  const gradient_rows to{static_cast<bf16_bits*>(gradient), stride};
  const bf16_bits* x = static_cast<const bf16_bits*>(a.x) + begin * a.width;
  const auto* w = static_cast<const bf16_bits*>(a.w);
  const tile_lease lease;
  pack_left({x, a.width, rows, a.width}, m.x);
  for (int64_t v0 = 0; v0 < a.vocab; v0 += words) {
    const int64_t count = smaller(words, a.vocab - v0);
    pack_right_transposed({w + v0 * a.width, a.width, count, a.width}, m.w);
    for (int64_t i0 = 0; i0 < rows; i0 += edge) {
      score_words(a, m, begin, i0, rows, v0, count, to);
    }
  }
  for (int64_t i = 0; i < rows; ++i) losses[i] = finish_row(a, m, begin, i, rows, to);
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT

#endif
