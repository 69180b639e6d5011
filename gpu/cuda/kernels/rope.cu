// Rotary embedding, in place on the query and key heads of packed rows.
//
// A thread turns a piece of a head and its partner half a head away, in two heads of the same
// token: sine and cosine are read once for both. Every pair has one thread: deterministic. Where
// rows hold several documents, a thread also reads where its token's begins.
// Floor: bytes 2 N (H + K) D size_of(type) + 4 T D (+ 4 N with documents); FLOPs 3 N (H + K) D.
#include "gpu/cuda/kernels/launch.hpp"

#include "gpu/cuda/kernels/pieces.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int block = 256;
constexpr int heads_of_thread = 2;

template <class T, int vec, bool in_documents>
__global__ void rope_kernel(rope_args a, int64_t items) {
  const int64_t item = int64_t{block_index()} * block + thread_index();
  if (item >= items) return;
  const int half = static_cast<int>(a.head_width / 2);
  const int heads = static_cast<int>(a.heads + a.kv_heads);
  const divided by_piece = divide(item, half / vec);
  const divided by_heads =
      divide(by_piece.quotient, (heads + heads_of_thread - 1) / heads_of_thread);
  const int64_t token = by_heads.quotient;
  const int d = by_piece.remainder * vec, first = by_heads.remainder * heads_of_thread;
  const int64_t position = a.first_position + position_of<in_documents>(token, a.seq, a.documents);
  const int64_t row = token * (a.heads + 2 * a.kv_heads) * a.head_width;
  piece<T, vec> low[heads_of_thread], high[heads_of_thread];
  for (int h = 0; h < heads_of_thread; ++h) {
    if (first + h >= heads) continue;
    const int64_t at = row + (first + h) * a.head_width + d;
    low[h] = load<T, vec>(a.qkv, at);
    high[h] = load<T, vec>(a.qkv, at + half);
  }
  float c[vec], s[vec];
  expand(load<float, vec>(a.cosine, position * half + d), c);
  expand(load<float, vec>(a.sine, position * half + d), s);
  for (int h = 0; h < heads_of_thread; ++h) {
    if (first + h >= heads) continue;
    float u[vec], v[vec], turned_u[vec], turned_v[vec];
    expand(low[h], u);
    expand(high[h], v);
    for (int k = 0; k < vec; ++k) {
      const float sine = a.inverse ? -s[k] : s[k];
      turned_u[k] = u[k] * c[k] - v[k] * sine;
      turned_v[k] = v[k] * c[k] + u[k] * sine;
    }
    const int64_t at = row + (first + h) * a.head_width + d;
    store<T, vec>(a.qkv, at, turned_u);
    store<T, vec>(a.qkv, at + half, turned_v);
  }
}

template <class T, int vec>
cudaError_t rope(cudaStream_t s, const rope_args& a) {
  const int64_t groups = (a.heads + a.kv_heads + heads_of_thread - 1) / heads_of_thread;
  const int64_t items = a.batch * a.seq * groups * (a.head_width / 2 / vec);
  const auto kernel =
      a.documents.first != nullptr ? rope_kernel<T, vec, true> : rope_kernel<T, vec, false>;
  return launch(kernel, {blocks_for(items, block)}, block, 0, s, a, items);
}

}  // namespace

cudaError_t launch_rope(cudaStream_t s, const rope_args& a, void*) {
  const int64_t half = a.head_width / 2;
  const bool by_pieces =
      moves_wide(a.type, half, {a.qkv}) && moves_wide(dtype::f32, half, {a.cosine, a.sine});
  if (a.type == dtype::bf16) return by_pieces ? rope<bf16, wide>(s, a) : rope<bf16, 1>(s, a);
  return by_pieces ? rope<float, wide>(s, a) : rope<float, 1>(s, a);
}

}  // namespace troupe::gpu::cuda
