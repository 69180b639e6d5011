// The emulated machine that tests the GPU's kernels: barriers, shuffles, tensor-core products and
// what it refuses.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "gpu/cuda/simt.hpp"
#include "tests/gpu/last_words.hpp"

using namespace troupe::gpu::cuda;
using troupe::gpu::testing::last_words;

namespace {

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("emulated GPU: a barrier lets nobody pass before all have come") {
  std::vector<int> sums(6 * 96, -1);
  emulator::run_grid({3, 2, 1}, 96, 96 * sizeof(int), [&] {
    int* shared = shared_memory<int>();
    const int t = thread_index();
    for (int round = 0; round < 3; ++round) {
      shared[t] = t * (round + 1);
      sync_block();
      int sum = 0;
      for (int i = 0; i < 96; ++i) sum += shared[i];
      sync_block();
      if (sum != 4560 * (round + 1)) return;
    }
    sums[static_cast<size_t>((block_index_y() * 3 + block_index()) * 96 + t)] = t;
  });
  for (size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == static_cast<int>(i % 96));
}

TEST_CASE("emulated GPU: a missing barrier gives another result than one thread after the other") {
  bool differs = false;
  emulator::run_grid({8, 1, 1}, 64, 64 * sizeof(int), [&] {
    int* shared = shared_memory<int>();
    const int t = thread_index();
    shared[t] = 1;
    sync_warp();  // of the warp only: the other warp's half may not be there yet
    int sum = 0;
    for (int i = 0; i < 64; ++i) sum += shared[i] == 1;
    if (sum != 64) differs = true;
  });
  CHECK(differs);
}

TEST_CASE("emulated GPU: memory that is used again without a barrier between shows") {
  bool differs = false;
  emulator::run_grid({8, 1, 1}, 128, 4 * sizeof(float), [&] {
    float* scratch = shared_memory<float>();
    const float first = block_sum(1.0f, scratch);
    const float second = block_sum(2.0f, scratch);  // its writers may pass the first one's readers
    if (first != 128 || second != 256) differs = true;
  });
  CHECK(differs);
}

TEST_CASE("emulated GPU: sums over a warp and a block") {
  emulator::run_grid({1, 1, 1}, 160, 5 * sizeof(float), [] {
    CHECK(warp_sum(lane() + 1) == 528);
    CHECK(warp_max(static_cast<float>((lane() * 7) % 32)) == 31.0f);
    CHECK(shuffle(thread_index(), 5) == warp_index() * 32 + 5);
    CHECK(block_sum(1.5f, shared_memory<float>()) == 240.0f);
  });
}

TEST_CASE("emulated GPU: the tensor-core product of loaded matrices is the product of loops") {
  uint16_t a[16][16], b[16][8];
  float want[16][8] = {};
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k)
      a[i][k] = to_bf16(static_cast<float>((i * 5 + k * 3) % 11 - 5)).bits;
    for (int j = 0; j < 8; ++j) b[i][j] = to_bf16(static_cast<float>((i * 7 + j) % 9 - 4)).bits;
  }
  const auto value = [](uint16_t bits) { return to_float(bf16{bits}); };
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < 16; ++k) want[i][j] += value(a[i][k]) * value(b[k][j]);
  float got[16][8];
  emulator::run_grid({1, 1, 1}, 32, sizeof a + sizeof b, [&] {
    auto* sa = shared_memory<uint16_t>();
    auto* sb = sa + 256;
    for (int i = lane(); i < 256; i += 32) sa[i] = (&a[0][0])[i];
    for (int i = lane(); i < 128; i += 32) sb[i] = (&b[0][0])[i];
    sync_block();
    uint32_t left[4], right[4];
    // a: matrices (rows 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
    load_matrices(left, sa + (lane() % 16) * 16 + (lane() / 16) * 8);
    // b, whose columns a lane needs: rows 0-7 and 8-15, each transposed (twice over: x4).
    load_matrices_transposed(right, sb + (lane() % 16) * 8);
    float d[4] = {};
    multiply_bf16(d, left, {right[0], right[1]});
    const int g = lane() / 4, t = lane() % 4;
    got[g][2 * t] = d[0];
    got[g][2 * t + 1] = d[1];
    got[g + 8][2 * t] = d[2];
    got[g + 8][2 * t + 1] = d[3];
  });
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) CHECK(got[i][j] == want[i][j]);
}

TEST_CASE("emulated GPU: asynchronous copies arrive when they are waited for") {
  alignas(16) static const int source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  emulator::run_grid({1, 1, 1}, 32, 32 * 32, [] {
    int* mine = shared_memory<int>() + 8 * thread_index();
    copy_async_16(mine, source, true);
    copy_async_commit();
    copy_async_16(mine + 4, source + 4, false);
    copy_async_commit();
    CHECK(mine[0] == -1);
    copy_async_wait<1>();
    CHECK(mine[3] == 4);
    CHECK(mine[4] == -1);
    copy_async_wait<0>();
    CHECK(mine[4] == 0);
  });
}

TEST_CASE("emulated GPU: what hardware would answer with nonsense stops the program") {
  const auto run = [](int block, void (*body)()) {
    return last_words([&] { emulator::run_grid({1, 1, 1}, block, 64, body); });
  };
  CHECK(has(run(64,
                [] {
                  if (thread_index() < 8) sync_warp();
                }),
            "wait for each other"));
  CHECK(has(run(32,
                [] {
                  if (lane() < 8)
                    sync_block();
                  else
                    sync_warp();
                }),
            "wait for each other"));
  CHECK(has(run(32,
                [] {
                  if (lane() < 8)
                    shuffle(1, 0);
                  else
                    sync_warp();
                }),
            "different operations"));
  CHECK(has(run(32,
                [] {
                  copy_async_16(shared_memory<int>(), nullptr, false);
                  copy_async_commit();
                }),
            "never waited for"));
  CHECK(
      has(run(32, [] { copy_async_16(shared_memory<int>() + 1, nullptr, false); }), "not aligned"));
  CHECK(has(run(32, [] { SIMT_ASSERT(lane() < 31); }), "assertion failed: lane() < 31"));
  CHECK(has(run(32, [] { SIMT_ASSERT(lane() < 31); }), "block 0,0,0, thread 31 of 32"));
  CHECK(last_words([] {}).empty());
}

TEST_CASE("emulated GPU: launches beyond the limits of sm_90 are refused") {
  CHECK(emulator::launchable({1, 1, 1}, 1024, max_shared_bytes));
  CHECK_FALSE(emulator::launchable({1, 1, 1}, 1056, 0));
  CHECK_FALSE(emulator::launchable({1, 1, 1}, 48, 0));
  CHECK_FALSE(emulator::launchable({1, 65536, 1}, 32, 0));
  CHECK_FALSE(emulator::launchable({1, 1, 1}, 32, max_shared_bytes + 1));
}
