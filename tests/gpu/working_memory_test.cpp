// How large the slab of logits is, by the device's memory and the shape.
#include "gpu/cuda/working_memory.hpp"

#include <doctest/doctest.h>

using namespace troupe::gpu::cuda;

namespace {

constexpr size_t mib = size_t{1} << 20, gib = size_t{1} << 30;

}  // namespace

TEST_CASE("COP-2: a slab is a 32nd of the device's memory, as a power of two") {
  CHECK(slab_bytes_for(0) == 256 * mib);
  CHECK(slab_bytes_for(8 * gib) == 256 * mib);
  CHECK(slab_bytes_for(24 * gib) == 512 * mib);
  CHECK(slab_bytes_for(40 * gib) == gib);
  CHECK(slab_bytes_for(79 * gib) == 2 * gib);  // an H100's 80 GB
  CHECK(slab_bytes_for(139 * gib) == 2 * gib);
}

TEST_CASE("COP-2: slabs are equal, in whole tiles, and have all tokens") {
  struct {
    int64_t tokens, vocab;
    size_t bytes;
    int64_t slab;
  } const cases[] = {{16'384, 50'257, 2 * gib, 8192},   {8192, 128'256, 2 * gib, 4096},
                     {16'384, 50'257, 256 * mib, 1280}, {8192, 128'256, 256 * mib, 512},
                     {100, 50'257, 256 * mib, 100},     {7, 1000, 1, 1},
                     {0, 50'257, 256 * mib, 0},         {3000, 0, 48'000, 1500}};
  for (const auto& c : cases) {
    CAPTURE(c.tokens);
    CAPTURE(c.vocab);
    const auto p = plan_head(c.tokens, c.vocab, c.bytes);
    CHECK(p.slab == c.slab);
    CHECK(p.stride % 8 == 0);
    CHECK(p.stride >= c.vocab);
    if (p.slab > 1) CHECK(p.logits_bytes <= c.bytes + 256);
  }
}

TEST_CASE("what a rank takes beside its stage: a workspace, and with the head a slab") {
  CHECK(rank_scratch_bytes(8192, 0, 80 * gib) == 32 * mib);
  const auto llama = rank_scratch_bytes(8192, 128'256, 79 * gib);
  CHECK(llama >= 32 * mib + size_t{4096} * 128'256 * 4);
  CHECK(llama <= 32 * mib + 2 * gib + mib);
  CHECK(scratch_block_bytes(mib) == mib + mib / 8);
  CHECK(scratch_block_bytes(2 * gib) == 2 * gib);
}
