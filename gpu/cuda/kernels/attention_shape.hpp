// Where things are in attention's tensors, and which query sees which key. Shared by the kernels of
// all families; nothing in here needs a GPU.
//
// What a query sees is a type of its own, a mask, and kernels are templates on it: the tuned ones
// are at the limit of their registers, and rows of one document must not pay for others'. Along a
// row both arrays of its documents never fall, so that a tile needs the numbers of its first and of
// its last row, and single pairs that of the row a lane owns: queries ask for where their document
// begins, keys for where theirs ends. Rows of a tile behind the last token take that one's number.
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
