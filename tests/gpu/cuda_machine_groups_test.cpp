// The products of a group of four warps on the emulated machine: against loops, over panels as the
// kernels lay them out; and what it refuses of them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/cuda/kernels/attention_panels.hpp"
#include "tests/gpu/last_words.hpp"

using namespace troupe::gpu::cuda;
using troupe::gpu::testing::last_words;

namespace {

constexpr int right_rows = 64;

/// Small whole numbers, whose products and sums are exact.
float number_at(int row, int column, int salt) {
  return static_cast<float>((row * 7 + column * 3 + salt * 5 + row * column) % 9 - 4);
}

template <int Rows>
void fill_tile(unsigned char* tile, int width, int salt) {
  for (int row = thread_index(); row < Rows; row += block_threads())
    for (int column = 0; column < width; ++column)
      reinterpret_cast<bf16*>(tile + piece_at<Rows>(row, column / 8))[column % 8] =
          to_bf16(number_at(row, column, salt));
  fence_shared();
  sync_block();
}

/// What a group's lanes got, by row and column.
template <int N>
void keep_product(std::vector<float>& to, const float (&d)[1][N / 8][4]) {
  for (int i = 0; i < N / 2; ++i) {
    const int row = warp_index() * 16 + lane() / 4 + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + lane() % 4 * 2 + i % 2;
    to[static_cast<size_t>(row * N + column)] = d[0][i / 4][i % 4];
  }
}

template <int D>
void check_products() {
  const size_t left_bytes = panel_bytes<D>(group_rows), bytes = panel_bytes<D>(right_rows);
  std::vector<float> rows(group_rows * right_rows), columns(group_rows * static_cast<size_t>(D));
  emulator::run_grid({1, 1, 1}, attention_threads, left_bytes + bytes, [&] {
    auto* left = shared_memory<unsigned char>();
    fill_tile<group_rows>(left, D, 1);
    fill_tile<right_rows>(left + left_bytes, D, 2);
    float product[1][right_rows / 8][4];
    group_products_begin();
    multiply_panels<D, right_rows>(product, left, left + left_bytes);
    group_products_commit();
    group_products_wait<0>();
    keep_product<right_rows>(rows, product);
    for (auto& tile : product[0])
      for (float& v : tile) v = std::fmod(v, 8.0f);  // small enough to stay exact in bfloat16
    const group_left<right_rows> held(product);
    float sum[1][D / 8][4] = {};
    for (int twice = 0; twice < 2; ++twice) {
      group_products_begin();
      add_panels<D, right_rows>(sum, held, left + left_bytes);
      group_products_commit();
      group_products_wait<0>();
    }
    keep_product<D>(columns, sum);
  });
  for (int i = 0; i < group_rows; ++i) {
    std::vector<float> want(right_rows);
    for (int j = 0; j < right_rows; ++j) {
      for (int k = 0; k < D; ++k)
        want[static_cast<size_t>(j)] += number_at(i, k, 1) * number_at(j, k, 2);
      REQUIRE(rows[static_cast<size_t>(i * right_rows + j)] == want[static_cast<size_t>(j)]);
    }
    for (int column = 0; column < D; ++column) {
      float sum = 0;
      for (int j = 0; j < right_rows; ++j)
        sum += std::fmod(want[static_cast<size_t>(j)], 8.0f) * number_at(j, column, 2);
      REQUIRE(columns[static_cast<size_t>(i * D + column)] == 2 * sum);
    }
  }
}

/// What stops a group of 128 threads with two panels of 64 rows.
std::string stopped(void (*body)()) {
  return last_words([&] { emulator::run_grid({1, 1, 1}, attention_threads, 16384, body); });
}

bool names(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

void copy_one_panel() {
  static const std::vector<bf16> zeros(64 * 64);
  copy_panels<64, 64>(shared_memory<unsigned char>(), zeros.data() + copy_lane<64>(64), 64, 64, 64);
  copy_async_commit();
  copy_async_wait<0>();
}

void multiply_once() {
  float d[1][8][4];
  auto* tile = shared_memory<unsigned char>();
  multiply_panels<64, 64>(d, tile, tile + 8192);
  group_products_commit();
  group_products_wait<0>();
}

}  // namespace

TEST_CASE("emulated GPU: products of a group of warps equal loops, both ways, one panel and two") {
  check_products<64>();
  check_products<128>();
}

TEST_CASE("emulated GPU: a product of a group reads its panels when it is waited for") {
  emulator::run_grid({1, 1, 1}, attention_threads, 16384, [] {
    auto* tile = shared_memory<unsigned char>();
    fill_tile<64>(tile, 64, 1);
    fill_tile<64>(tile + 8192, 64, 2);
    float early[1][8][4], late[1][8][4] = {{{1}}};
    group_products_begin();
    multiply_panels<64, 64>(early, tile, tile + 8192);
    group_products_commit();
    multiply_panels<64, 64>(late, tile, tile + 8192);
    group_products_commit();
    group_products_wait<1>();
    CHECK(late[0][0][0] == 1);
    const int row = warp_index() * 16 + lane() / 4, column = lane() % 4 * 2;
    float want = 0;
    for (int k = 0; k < 64; ++k) want += number_at(row, k, 1) * number_at(column, k, 2);
    CHECK(early[0][0][0] == want);
    sync_block();
    std::memset(tile + 64 * thread_index(), 0, 64);
    sync_block();
    group_products_wait<0>();
    for (const auto& eight : late[0])
      for (const float v : eight) CHECK(v == 0);
  });
}

TEST_CASE("emulated GPU: what a group of warps may not do stops the program") {
  CHECK(names(stopped([] {
                copy_one_panel();
                sync_block();
                group_products_begin();
                multiply_once();
              }),
              "not fenced"));
  CHECK(names(stopped([] { multiply_once(); }), "without group_products_begin"));
  CHECK(names(stopped([] {
                group_products_begin();
                float d[1][8][4];
                auto* tile = shared_memory<unsigned char>();
                multiply_panels<64, 64>(d, tile, tile + 8192);
                group_products_commit();
              }),
              "never waited for"));
  CHECK(names(stopped([] { operand_of(shared_memory<unsigned char>() + 128, 0, 1024); }),
              "not on 1,024 bytes"));
  CHECK(stopped([] {
          copy_one_panel();
          await_panels();
          group_products_begin();
          multiply_once();
        }).empty());
}
