// How the head of a model uses a GPU's working memory: logits of one slab of tokens, which become
// their gradient, and losses of all tokens. Pure, and free of CUDA's headers: what checks a job
// before it starts counts the same bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace troupe::gpu::cuda {

/// Workspace of a stream's products: what cuBLAS itself takes on Hopper.
inline constexpr size_t product_workspace_bytes = size_t{32} << 20;

/// Elements between rows of logits: as many as the vocabulary, rounded up to 8.
constexpr int64_t slab_stride(int64_t vocab) {
  return (vocab + 7) / 8 * 8;
}

/// Logits of the head that exist at once, at most, on a device with so much memory: a 32nd of it,
/// as a power of two, so that devices of a kind have the same.
constexpr size_t slab_bytes_for(size_t memory_bytes) {
  constexpr size_t least = size_t{256} << 20, most = size_t{2} << 30;
  return std::clamp(std::bit_floor(memory_bytes / 32), least, most);
}

/// Slabs that tokens are cut into.
struct head_plan {
  int64_t slab;    ///< tokens
  int64_t stride;  ///< elements between rows of logits
  size_t logits_bytes, losses_bytes;
  size_t bytes() const { return logits_bytes + losses_bytes; }
};

inline head_plan plan_head(int64_t tokens, int64_t vocab, size_t slab_bytes) {
  head_plan p{};
  p.stride = slab_stride(vocab);
  const int64_t row_bytes = std::max<int64_t>(8, p.stride) * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(slab_bytes) / row_bytes);
  const int64_t slabs = (tokens + most - 1) / most;
  const int64_t even = slabs > 0 ? (tokens + slabs - 1) / slabs : 0;
  constexpr int64_t tile = 128;  // whole tiles of the products, where that changes little
  p.slab = even > 8 * tile ? std::min(most, (even + tile - 1) / tile * tile) : even;
  p.logits_bytes = (static_cast<size_t>(p.slab * row_bytes) + 255) / 256 * 256;
  p.losses_bytes = static_cast<size_t>(tokens) * sizeof(double);
  return p;
}

}  // namespace troupe::gpu::cuda
