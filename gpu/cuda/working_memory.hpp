// The large parts of a GPU's working memory: the workspace of products, and what the head of a
// model takes: logits of one slab of tokens, which become their gradient, and losses of all tokens.
// Pure, and free of CUDA's headers: what checks a job before it starts counts the same bytes.
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

/// What is allocated where so much is asked for: small blocks leave room to grow in.
constexpr size_t scratch_block_bytes(size_t bytes) {
  constexpr size_t large = size_t{64} << 20;
  return bytes < large ? bytes + bytes / 8 : bytes;
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
  const int64_t columns = std::max<int64_t>(8, p.stride);  // a job's words may not be known yet
  const int64_t row_bytes = columns * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(slab_bytes) / row_bytes);
  const int64_t slabs = (tokens + most - 1) / most;
  const int64_t equal = slabs > 0 ? (tokens + slabs - 1) / slabs : 0;
  constexpr int64_t tile = 128;  // whole tiles of the products, where that changes little
  p.slab = equal > 8 * tile ? std::min(most, (equal + tile - 1) / tile * tile) : equal;
  p.logits_bytes = (static_cast<size_t>(p.slab * row_bytes) + 255) / 256 * 256;
  p.losses_bytes = static_cast<size_t>(tokens) * sizeof(double);
  return p;
}

/// What a rank's operations take of a GPU beside its stage, but for small sums; `vocab` is 0 where
/// the stage has no head.
inline uint64_t rank_scratch_bytes(int64_t tokens, int64_t vocab, size_t memory_bytes) {
  const uint64_t products = product_workspace_bytes;
  if (vocab == 0) return products;
  return products +
         scratch_block_bytes(plan_head(tokens, vocab, slab_bytes_for(memory_bytes)).bytes());
}

}  // namespace troupe::gpu::cuda
