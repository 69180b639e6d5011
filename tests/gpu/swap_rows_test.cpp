// Rows of a token table that are updated before the rest of it: the bits of training in memory, on
// a disk that answers when it likes, and never the bits of what was read wrong.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/swap/table_rows.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/faulty_swap.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"

namespace troupe::gpu {
namespace {

using testing::swap_case;
using testing::swap_trainer;

/// A table of which a batch reads a small part.
swap_case with_large_table(model_config model, dtype type, int64_t hidden = 16) {
  model.vocab = 12'000;
  model.hidden = hidden;
  model.head_width = hidden / model.heads;
  swap_case c{std::move(model), type};
  c.group_elements = 1 << 15;
  c.rows_first = true;
  return c;
}

swap_options on_disk_in_memory(io::faulty_options how) {
  return testing::on_faulty_disk(std::move(how), 16 * io::disk_block);
}

/// Holds the groups of a token table back, as a slow drive would: those that are read for an update
/// before anybody knows its rows, until what computes has gone on behind these rows. And the rows,
/// until it waits for them.
class groups_behind_rows {
 public:
  void watch(swap_options& o) {
    o.around = [this](stream& s, swap_op kind, int chunk, uint64_t bytes,
                      const std::function<void()>& enqueue) {
      const bool of_table = chunk == 0 && kind == swap_op::read_state;
      if (of_table && bytes > 0) hold(s, [this, number = asked_ + 1] { return passed_ >= number; });
      if (of_table && bytes == 0) hold(s, [this, number = ++asked_] { return awaited_ >= number; });
      enqueue();
    };
    o.around_wait = [this](stream& s, int chunk, const std::function<void()>& wait) {
      wait();
      if (chunk != 0) return;
      s.host_task([this]() -> status {
        note(passed_);
        return {};
      });
      note(awaited_);
    };
  }
  /// Nothing is held any more.
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// Passes that have gone on behind rows alone.
  int passed() {
    std::lock_guard lock(mutex_);
    return passed_;
  }
  /// What it waited for did not come.
  bool in_vain() {
    std::lock_guard lock(mutex_);
    return in_vain_;
  }

 private:
  void hold(stream& s, std::function<bool()> until) {
    s.host_task([this, until = std::move(until)]() -> status {
      std::unique_lock lock(mutex_);
      const bool came =
          changed_.wait_for(lock, std::chrono::minutes(1), [&] { return open_ || until(); });
      if (came) return {};
      in_vain_ = open_ = true;
      changed_.notify_all();
      return {};
    });
  }
  void note(int& count) {
    std::lock_guard lock(mutex_);
    ++count;
    changed_.notify_all();
  }

  int asked_ = 0;  ///< the enqueuing thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  int awaited_ = 0, passed_ = 0;
  bool open_ = false, in_vain_ = false;
};

using ids_of_test = std::vector<std::vector<int32_t>>;

/// Of a table that is all of the chunk.
std::vector<row_piece> pieces_in(const io::chunk_file& layout, int64_t width,
                                 const ids_of_test& ids, uint64_t slot_bytes, int64_t rows) {
  std::vector<std::span<const int32_t>> all;
  for (const auto& some : ids) all.emplace_back(some);
  return pieces_of_rows(layout, {width, rows}, all, slot_bytes);
}

}  // namespace

TEST_CASE("SWP-14: rows that are wanted first, and the rest behind them, change no bit") {
  auto owner = make_reference_device();
  constexpr int steps = 4;
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()}) {
      auto c = with_large_table(model, type);
      const auto expected = swap_trainer(*owner, c, {}).train(steps);
      for (unsigned seed = 1; seed <= 4; ++seed) {
        CAPTURE(seed);
        io::faulty_options how;
        how.seed = seed;
        how.reorder = true;
        how.short_move = 0.2;
        c.groups = static_cast<int>(seed);
        swap_trainer swapped(*owner, c, on_disk_in_memory(std::move(how)));
        for (int step = 1; step <= steps; ++step) {
          swapped.enqueue_step(step);
          if (step == 2) swapped.enqueue_evaluation(steps);
          if (step == 3 && seed % 2 == 0) swapped.wait();  // for its state: nothing is left then
        }
        swapped.wait();
        CHECK(swapped.failure());
        CHECK(swapped.state() == expected);
        const uint64_t passes = seed % 2 == 0 ? 2 : 3;  // that found an update left
        CHECK(swapped.swap().rows_first() > 0);
        CHECK(swapped.swap().rows_first() <= passes * 14);
        CHECK(swapped.swap().rows_first() > (passes - 1) * 14);
      }
    }
}

TEST_CASE("SWP-14: a pass goes on behind its rows alone, while no group of their table is read") {
  auto owner = make_reference_device();
  constexpr int steps = 4;
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()}) {
      auto c = with_large_table(model, type);
      c.groups = 8;  // all of the table's, and one for rows
      swap_trainer in_memory(*owner, c, {});
      const auto expected = in_memory.train(steps);
      groups_behind_rows held;
      auto o = on_disk_in_memory({});
      held.watch(o);
      swap_trainer swapped(*owner, c, std::move(o));
      for (int step = 1; step <= steps; ++step) swapped.enqueue_step(step);
      REQUIRE(swapped.compute().synchronize());
      CHECK_FALSE(held.in_vain());
      CHECK(held.passed() == steps - 1);  // the last update's are never known
      held.open();
      swapped.wait();
      CHECK(swapped.failure());
      CHECK(swapped.losses() == in_memory.losses());
      CHECK(swapped.state() == expected);
      CHECK(swapped.swap().rows_first() > 0);
    }
}

TEST_CASE("SWP-14: the host's kernels make the same of a row by itself, wherever it begins") {
  auto owner = make_host_device(2);
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()}) {
      const auto c = with_large_table(model, type, 24);  // rows in two groups, and in two blocks
      const auto expected = swap_trainer(*owner, c, {}).train(3);
      swap_trainer swapped(*owner, c, on_disk_in_memory({}));
      CHECK(swapped.train(3) == expected);
      CHECK(swapped.failure());
      CHECK(swapped.swap().rows_first() > 0);
    }
}

TEST_CASE("SWP-14: an update that is left is made when its chunk is asked for, and once") {
  auto owner = make_reference_device();
  const auto c = with_large_table(testing::tiny_gpt2(), dtype::f32);
  const auto expected = swap_trainer(*owner, c, {}).train(1);
  swap_trainer swapped(*owner, c, on_disk_in_memory({}));
  CHECK(swapped.train(1) == expected);
  const auto written = swapped.swap().facts().written_bytes;
  swapped.wait();
  CHECK(swapped.swap().facts().written_bytes == written);
  CHECK(swapped.swap().rows_first() == 0);
}

TEST_CASE("SWP-14 SWP-5: rows that were read wrong count for nothing") {
  auto owner = make_reference_device();
  constexpr int steps = 3;
  const auto c = with_large_table(testing::tiny_llama(), dtype::f32);
  const auto expected = swap_trainer(*owner, c, {}).train(steps);
  int refused = 0, mended = 0;
  for (int nth = 1; nth <= 200; nth += 4) {
    CAPTURE(nth);
    io::faulty_options how;
    how.plan = {{io::fault_site::read, nth, io::fault_effect::invert}};
    swap_trainer swapped(*owner, c, on_disk_in_memory(std::move(how)));
    for (int step = 1; step <= steps; ++step) swapped.enqueue_step(step);
    swapped.wait();
    const auto failed = swapped.failure();
    if (failed) {
      ++mended;
      CHECK(swapped.state() == expected);
      continue;
    }
    ++refused;
    CHECK(failed.error().is(swap_rows_differ));
  }
  CHECK(refused > 0);
  CHECK(mended > 0);
}

TEST_CASE("TBR-1 TBR-2: pieces are the rows, once each, and lie apart in whole blocks") {
  for (const int64_t width : {16, 24, 768, 5000}) {
    const int64_t rows = 40'000'000 / width;
    const io::chunk_file layout(rows * width, 1 << 15, io::chunk_weights::masters);
    const auto last = static_cast<int32_t>(rows - 1);
    const uint64_t slot_bytes = layout.group_bytes();
    const auto pieces = pieces_in(layout, width, {{7, 0, 7}, {last, 41, 0}}, slot_bytes, rows);
    int64_t elements = 0, next = 0;
    uint64_t end = 0;
    for (const auto& p : pieces) {
      CHECK(p.first >= next);
      next = p.first + p.count;
      elements += p.count;
      CHECK(p.first >= layout.first(p.group));
      CHECK(next <= layout.first(p.group) + layout.group_elements());
      CHECK(p.offset % io::disk_block == 0);
      CHECK(p.span % io::disk_block == 0);
      CHECK(p.offset + p.span <= layout.array_bytes());
      CHECK(p.offset + p.skip ==
            static_cast<uint64_t>(p.first - layout.first(p.group)) * sizeof(float));
      CHECK(p.skip + static_cast<uint64_t>(p.count) * sizeof(float) <= p.span);
      CHECK(p.at == end);
      end = io::block_up(p.gradient() + static_cast<uint64_t>(p.count) * sizeof(float));
    }
    CHECK(elements == 4 * width);
    CHECK(end <= slot_bytes);
  }
}

TEST_CASE("TBR-3: rows without room in a slot, or that are much of the table, are all of it") {
  constexpr int64_t width = 1024, rows = 4096;
  const io::chunk_file layout(width * rows, 1 << 20, io::chunk_weights::masters);
  const uint64_t one = 4 * io::disk_block;  // a row's arrays, each a block, and its gradient
  CHECK(pieces_in(layout, width, {{1, 2}}, 2 * one, rows).size() == 2);
  CHECK(pieces_in(layout, width, {{1, 2}}, 2 * one - 1, rows).empty());
  std::vector<int32_t> many;
  for (int32_t id = 0; id < rows / 8 - 1; ++id) many.push_back(id);
  CHECK(pieces_in(layout, width, {many}, rows * one, rows).size() == many.size());
  many.push_back(rows - 1);
  CHECK(pieces_in(layout, width, {many}, rows * one, rows).empty());
  CHECK(pieces_in(layout, width, {}, rows * one, rows).empty());
  CHECK(pieces_in(layout, width, {{1, static_cast<int32_t>(rows)}}, rows * one, rows).empty());
  CHECK(pieces_in(layout, width, {{1}, {-1}}, rows * one, rows).empty());
}

}  // namespace troupe::gpu
