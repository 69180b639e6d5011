// Where things are in attention's tensors, and which query sees which key. Shared by the kernels of
// all families; nothing in here needs a GPU.
//
// What a query sees is a type of its own, a mask, and kernels are templates on it: the tuned ones
// are at the limit of their registers, and rows of one document must not pay for others'. A row's
// documents have their first tokens in order, so that a tile needs the numbers of its first and of
// its last row alone: those two are read at every step (they stay in L1), and one for each row of a
// lane where a step crosses a border. Queries ask for where their documents begin, keys for where
// theirs end. Both arrays end with the row: rows of a tile beyond it take the last one's number.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cuda/simt.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

constexpr float log2_of_e = 1.4426950408889634f;

/// What every attention kernel is told, by value.
struct attention_shape {
  int seq, heads, kv_heads, width;
  int group;        ///< query heads that share a key/value head
  int batch_heads;  ///< B H
  int batch_kv;     ///< B K
  int window;       ///< most keys a query sees; T where the caller set no window
  float scale;      ///< of the scores: 1 / sqrt(D)

  /// Elements from a token to the next in qkv and in out.
  __device__ __forceinline__ int64_t qkv_stride() const {
    return int64_t{heads + 2 * kv_heads} * width;
  }
  __device__ __forceinline__ int64_t out_stride() const { return int64_t{heads} * width; }
  /// Elements before token t of batch row b.
  __device__ __forceinline__ int64_t qkv_row(int b, int t) const {
    return (int64_t{b} * seq + t) * qkv_stride();
  }
  __device__ __forceinline__ int64_t out_row(int b, int t) const {
    return (int64_t{b} * seq + t) * out_stride();
  }
  /// Elements before head h's query, key and value within a token of qkv; kv: a key/value head.
  __device__ __forceinline__ int query_at(int h) const { return h * width; }
  __device__ __forceinline__ int key_at(int kv) const { return (heads + kv) * width; }
  __device__ __forceinline__ int value_at(int kv) const { return (heads + kv_heads + kv) * width; }
};

/// What the queries of a tile see of its keys.
enum class sight : uint8_t { nothing, some, all };

/// Which query sees which key in a row that is one document.
struct window_mask {
  int seq, window;

  __device__ __forceinline__ window_mask(const attention_shape& a, const row_documents&, int)
      : seq(a.seq), window(a.window) {}

  /// The keys that queries first..last see: from first_key(first) to last.
  __device__ __forceinline__ int first_key(int query) const {
    return query - window + 1 > 0 ? query - window + 1 : 0;
  }
  /// One behind the last query that sees a key.
  __device__ __forceinline__ int end_query(int key) const {
    return key < seq - window ? key + window : seq;
  }
};

/// The same in batch row b, which holds several documents.
struct document_mask {
  const int32_t* first;  ///< of the row
  const int32_t* end;
  int seq, window;

  __device__ __forceinline__ document_mask(const attention_shape& a, const row_documents& d, int b)
      : first(d.first + int64_t{b} * a.seq),
        end(d.end + int64_t{b} * a.seq),
        seq(a.seq),
        window(a.window) {}

  __device__ __forceinline__ int first_key(int query) const {
    const int begin = first[query < seq ? query : seq - 1], reached = query - window + 1;
    SIMT_ASSERT(begin >= 0 && begin <= query);
    return begin > reached ? begin : reached;
  }
  __device__ __forceinline__ int end_query(int key) const {
    const int behind = end[key < seq ? key : seq - 1];
    SIMT_ASSERT(behind <= seq && (behind > key || key >= seq));
    return key < behind - window ? key + window : behind;
  }
};

/// Whether a query sees a key; by what the query begins at or, else, by what the key ends at.
template <bool ByQueries>
__device__ __forceinline__ bool sees(const window_mask& mask, int query, int key) {
  return key <= query && query - key < mask.window;
}
template <bool ByQueries>
__device__ __forceinline__ bool sees(const document_mask& mask, int query, int key) {
  if (key > query) return false;
  return ByQueries ? key >= mask.first_key(query) : query < mask.end_query(key);
}

/// Of `queries` from first_query on and `keys` from first_key on.
template <bool ByQueries>
__device__ __forceinline__ sight sight_of(const window_mask& mask, int first_query, int queries,
                                          int first_key, int keys) {
  const int last_query = first_query + queries - 1, last_key = first_key + keys - 1;
  if (first_key > last_query || first_query - last_key >= mask.window) return sight::nothing;
  return last_key <= first_query && last_query - first_key < mask.window ? sight::all : sight::some;
}
template <bool ByQueries>
__device__ __forceinline__ sight sight_of(const document_mask& mask, int first_query, int queries,
                                          int first_key, int keys) {
  const int last_query = first_query + queries - 1, last_key = first_key + keys - 1;
  const bool apart =
      ByQueries ? last_key < mask.first_key(first_query) : first_query >= mask.end_query(last_key);
  if (first_key > last_query || apart) return sight::nothing;
  const bool together =
      ByQueries ? first_key >= mask.first_key(last_query) : last_query < mask.end_query(first_key);
  return last_key <= first_query && together ? sight::all : sight::some;
}

/// The shape, from the arguments of either direction; false where no kernel takes it.
template <class Args>
bool shape_of(const Args& a, attention_shape& out) {
  constexpr int64_t most = std::numeric_limits<int>::max() / 2;
  const bool sane = a.batch >= 0 && a.seq >= 0 && a.seq <= most && a.heads > 0 && a.kv_heads > 0 &&
                    a.head_width > 0 && a.head_width <= 4096 && a.window >= 0 &&
                    a.heads % a.kv_heads == 0 && a.heads <= 65536 && a.batch <= most / a.heads &&
                    a.type != dtype::i32;
  if (!sane) return false;
  out.seq = static_cast<int>(a.seq);
  out.heads = static_cast<int>(a.heads);
  out.kv_heads = static_cast<int>(a.kv_heads);
  out.width = static_cast<int>(a.head_width);
  out.group = out.heads / out.kv_heads;
  out.batch_heads = static_cast<int>(a.batch * a.heads);
  out.batch_kv = static_cast<int>(a.batch * a.kv_heads);
  out.window = static_cast<int>(a.window == 0 ? a.seq : std::min(a.window, a.seq));
  out.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(a.head_width)));
  return true;
}

}  // namespace troupe::gpu::cuda
