// Training with state on disk: the bits of training in memory on a disk that answers when and how
// it likes, and what is told when the disk fails or gives back other bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/base/memory_account.hpp"
#include "io/disk/faulty_disk.hpp"
#include "io/disk/thread_disk.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/faulty_swap.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/turn_bit.hpp"

namespace troupe::gpu {
namespace {

namespace fs = std::filesystem;
using testing::on_faulty_disk;
using testing::swap_case;
using testing::swap_trainer;

constexpr int steps_of_test = 3;

swap_options in_folder(const scratch& dir) {
  swap_options o;
  o.places = {{dir.path}};
  return o;
}

struct second_read_watch {
  std::atomic<bool> armed{false}, late{false};
};

/// The real disk, which, once it is armed, keeps the answer to its first read back until it was
/// asked for another one, or nobody does so for a long time.
class second_read_disk final : public io::thread_disk {
 public:
  second_read_disk(size_t depth, second_read_watch& watch)
      : thread_disk(with_depth(depth), ""), watch_(watch) {}

 protected:
  void raw_submit(const raw_request& request) override {
    if (watch_.armed && request.op == io::disk_op::read && ++reads_ == 1) first_ = request.id;
    thread_disk::raw_submit(request);
  }
  bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) override {
    constexpr std::chrono::seconds long_time{20};
    if (kept_ && (reads_ > 1 || now() > kept_since_ + long_time)) {
      watch_.late = reads_ <= 1;
      answers.push_back(*std::exchange(kept_, std::nullopt));
      first_ = 0;
      return false;
    }
    const bool woken = thread_disk::raw_reap(block, until, answers);
    const auto is_first = [&](const raw_answer& a) { return reads_ == 1 && a.id == first_; };
    const auto it = std::find_if(answers.begin(), answers.end(), is_first);
    if (it == answers.end()) return woken;
    kept_ = *it;
    kept_since_ = now();
    answers.erase(it);
    return woken;
  }

 private:
  static io::disk_options with_depth(size_t depth) {
    io::disk_options out;
    out.depth = depth;
    return out;
  }

  second_read_watch& watch_;
  int reads_ = 0;
  uint64_t first_ = 0;
  std::optional<raw_answer> kept_;
  nanoseconds kept_since_{0};
};

/// With the bits of memory, on disks of several orders and paces, some groups on their way at once.
void trains_alike_on_unruly_disks(device& owner, swap_case c, unsigned seeds) {
  const auto expected = swap_trainer(owner, c, {}).train(steps_of_test);
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    io::faulty_options how;
    how.seed = seed;
    how.reorder = true;
    how.short_move = 0.2;
    how.interrupted = 0.1;
    c.groups = 1 + static_cast<int>(seed % 4);
    swap_trainer swapped(owner, c, on_faulty_disk(how));
    CHECK(swapped.train(steps_of_test) == expected);
    CHECK(swapped.failure());
  }
}

}  // namespace

TEST_CASE("SWP-15: the next read is with the drive while one is not answered yet") {
  auto owner = make_reference_device();
  scratch dir;
  swap_case c;
  c.groups = 2;
  c.shares_frames = false;  // so that all reads are of state
  const auto expected = swap_trainer(*owner, c, {}).train(2);
  second_read_watch watch;
  auto o = in_folder(dir);
  o.io.open_disk = [&](size_t depth) -> result<std::unique_ptr<io::disk>> {
    return std::unique_ptr<io::disk>(std::make_unique<second_read_disk>(depth, watch));
  };
  swap_trainer swapped(*owner, c, o);
  watch.armed = true;
  CHECK(swapped.train(2) == expected);
  CHECK_FALSE(watch.late);
}

TEST_CASE("SWP-1 SWP-2 SWP-3: the disk's order and pace change no bit") {
  auto owner = make_reference_device();
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()})
      trains_alike_on_unruly_disks(*owner, {model, type}, 12);
}

TEST_CASE("SWP-17 SWP-1: gradients on a disk of any order and pace have the bits of memory's") {
  auto owner = make_reference_device();
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto rule : {optimizer_step_args::rule::adamw, optimizer_step_args::rule::lamb}) {
      swap_case c;
      c.type = type;
      c.rule = rule;
      c.model.layers = 5;
      c.model.ffn = 200;  // so that a layer has several groups
      c.micro_batches = 4;
      trains_alike_on_unruly_disks(*owner, c, 6);
    }
}

TEST_CASE("SWP-17 GRF-2: a gradient that changed on the disk fails the rank, and is named") {
  auto owner = make_reference_device();
  scratch dir;
  swap_case c;
  c.model.layers = 5;
  c.micro_batches = 2;
  int damaged = -1;
  auto options = in_folder(dir);
  options.around = [&](stream& s, swap_op kind, int chunk, uint64_t,
                       const std::function<void()>& enqueue) {
    enqueue();
    if (kind != swap_op::write_state || damaged >= 0) return;
    damaged = chunk;  // the first that is written at all: of the last layer, by the first pass
    s.host_task([file = dir / fmt::format("gradients-{:04}", chunk)]() -> status {
      turn_bit(file, 77);
      return {};
    });
  };
  swap_trainer swapped(*owner, c, options);
  swapped.enqueue_step(1);
  swapped.wait();
  const auto failed = swapped.failure();
  REQUIRE(damaged >= 0);
  REQUIRE_FALSE(failed);
  CHECK(is_error(failed.error(), gradient_damaged, damaged, 1));
}

TEST_CASE("OP-4 CHP-8: LAMB on a drive has the bits of LAMB in memory, whatever it is cut into") {
  auto owner = make_reference_device();
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()}) {
      swap_case c{model, type};
      c.rule = optimizer_step_args::rule::lamb;
      c.group_elements = 1 << 20;  // of a tiny model no chunk has more
      const auto whole = swap_trainer(*owner, c, {}).train(steps_of_test);
      for (unsigned seed = 1; seed <= 8; ++seed) {
        CAPTURE(seed);
        c.group_elements = int64_t{1024} << (seed % 3);
        const auto expected = swap_trainer(*owner, c, {}).train(steps_of_test);
        REQUIRE(expected.size() == whole.size());
        double farthest = 0;
        for (size_t i = 0; i < whole.size(); ++i)
          farthest = std::max(farthest, std::abs(double{expected[i]} - double{whole[i]}));
        CHECK(farthest < 1e-6);  // norms in double, added in another order
        io::faulty_options how;
        how.seed = seed;
        how.reorder = true;
        c.groups = 1 + static_cast<int>(seed % 4);
        c.speculates = seed % 2 == 0;
        swap_trainer swapped(*owner, c, on_faulty_disk(how));
        if (!c.speculates) {
          CHECK(swapped.train(steps_of_test) == expected);
        } else {
          for (int step = 1; step <= steps_of_test; ++step)
            swapped.enqueue_speculating_step(step,
                                             (static_cast<unsigned>(step) + seed / 2) % 2 == 0);
          swapped.wait();
          CHECK(swapped.state() == expected);
        }
        CHECK(swapped.failure());
      }
    }
}

TEST_CASE(
    "SWP-6: after a read that fails, or writes that all do, nothing is written, and it is told") {
  auto owner = make_reference_device();
  for (const auto site : {io::fault_site::read, io::fault_site::write})
    for (const int nth : {30, 60, 100}) {
      CAPTURE(nth);
      io::faulty_options how;
      how.plan = {
          {site, nth, io::fault_effect::fail, EIO, 0, site == io::fault_site::read ? 1 : 1 << 20}};
      swap_trainer swapped(*owner, {}, on_faulty_disk(how));
      int step = 0;
      while (swapped.failure() && step < 50) {
        swapped.enqueue_step(++step);
        swapped.wait();
      }
      REQUIRE_FALSE(swapped.failure());
      CHECK(swapped.failure().error().code == errc::io);
      const auto written = swapped.swap().facts().written_bytes;
      swapped.enqueue_step(step + 1);
      swapped.wait();
      CHECK(swapped.swap().facts().written_bytes == written);
    }
}

TEST_CASE("SWP-5: a byte that changed on the disk is found and named, or not looked for") {
  auto owner = make_reference_device();
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const bool verify : {true, false}) {
      scratch dir;
      auto options = in_folder(dir);
      options.verify = verify;
      swap_trainer swapped(*owner, {testing::tiny_gpt2(), type}, options);
      swapped.train(1);
      turn_bit(dir / "chunk-0003", 100);  // masters of a layer
      swapped.enqueue_step(2);
      swapped.wait();
      CHECK(swapped.failure().has_value() == !verify);
      if (!verify) continue;
      CHECK(swapped.failure().error().is(swap_damaged));
      const auto text = swapped.failure().error().message;
      CHECK(text.find("chunk-0003") != text.npos);
      CHECK(text.find("transformer.h.1.") != text.npos);
    }
}

TEST_CASE("CHP-8: that all of a chunk is measured first is told as a wait for the drive") {
  auto owner = make_reference_device();
  scratch dir;
  swap_case c;
  c.rule = optimizer_step_args::rule::lamb;
  c.shares_frames = false;  // gradients stay
  std::vector<int> awaited;
  auto options = in_folder(dir);
  options.around_wait = [&](stream&, int chunk, const std::function<void()>& wait) {
    awaited.push_back(chunk);
    wait();
  };
  swap_trainer swapped(*owner, c, options);
  swapped.train(1);
  awaited.clear();
  std::promise<void> gate;
  swapped.compute().host_task([opened = gate.get_future().share()]() -> status {
    opened.wait();
    return {};
  });
  constexpr int chunk = 1;
  swapped.swap().measure(swapped.compute(), swapped.rule(), chunk, 1e-2f, 2);
  CHECK(awaited == std::vector{chunk});
  gate.set_value();
  swapped.wait();
  CHECK(swapped.failure());
}

TEST_CASE("SWP-13: who waits for others' slices of weights is not told to wait for the drive") {
  auto owner = make_reference_device();
  scratch dir;
  auto gathering = owner->make_stream({"gathering", 1});
  REQUIRE(gathering);
  std::promise<void> come, gate;
  const auto opened = gate.get_future().share();
  swap_case c;
  c.replicas = 2;
  int of_drive = 0, of_replicas = 0;
  auto options = in_folder(dir);
  options.gathering = gathering->get();
  options.gather = [&](int) {
    (*gathering)->host_task([&come, opened]() -> status {
      come.set_value();
      opened.wait();
      return {};
    });
  };
  options.around_wait = [&](stream&, int, const std::function<void()>& wait) {
    ++of_drive;
    wait();
  };
  swap_trainer swapped(*owner, c, options);
  swapped.store().set_arrival_watch([&](stream&, const std::function<void()>& wait) {
    ++of_replicas;
    wait();
  });
  int chunk = 0;
  while (swapped.store().info(chunk).layer < 0) ++chunk;  // layers share frames
  swapped.swap().bring_weights(chunk);
  come.get_future().wait();  // the own slice is there
  swapped.store().fetch_weights(swapped.compute(), chunk);
  CHECK(of_drive == 0);
  CHECK(of_replicas == 1);
  gate.set_value();
  swapped.store().release_weights(swapped.compute(), chunk);
  swapped.wait();
  CHECK(swapped.failure());
}

TEST_CASE(
    "CHP-12: who waits for a gradient's frame waits for others, the drive, others, the drive") {
  auto owner = make_reference_device();
  scratch dir;
  auto gathering = owner->make_stream({"gathering", 1});
  REQUIRE(gathering);
  swap_case c;
  c.rule = optimizer_step_args::rule::lamb;
  c.replicas = 2;
  std::vector<std::string> told;
  auto options = in_folder(dir);
  options.gathering = gathering->get();
  options.gather = [](int) {};
  options.around_wait = [&](stream&, int, const std::function<void()>& wait) {
    told.emplace_back("the drive");
    wait();
  };
  swap_trainer swapped(*owner, c, options);
  swapped.store().set_arrival_watch([&](stream&, const std::function<void()>& wait) {
    told.emplace_back("others");
    wait();
  });
  int chunk = 0;
  while (swapped.store().info(chunk).layer < 0) ++chunk;
  std::promise<void> gate;
  swapped.compute().host_task([opened = gate.get_future().share()]() -> status {
    opened.wait();
    return {};
  });
  swapped.swap().sum_gradient(swapped.compute(), chunk, [] {});
  swapped.swap().share_norms(swapped.compute(), swapped.rule(), chunk, 1e-2f, 1, [] {});
  swapped.swap().drop_gradient(swapped.compute(), chunk);
  swapped.swap().fetch_gradient(swapped.compute(), chunk);
  CHECK(told == std::vector<std::string>{"others", "the drive", "others", "the drive"});
  gate.set_value();
  swapped.wait();
  CHECK(swapped.failure());
}

TEST_CASE("SWP-3: state is read behind the write of the step before, however late that is") {
  auto owner = make_reference_device();
  scratch dir;
  swap_case c;
  c.group_elements = 1 << 20;
  c.groups = 16;  // those of two steps: no slot is waited for
  c.shares_frames = false;
  const auto expected = swap_trainer(*owner, c, {}).train(2);
  swap_trainer swapped(*owner, c, in_folder(dir));
  auto reading = owner->make_stream({"reader", 1});
  REQUIRE(reading);
  std::promise<void> gate;
  (*reading)->host_task([opened = gate.get_future().share()]() -> status {
    opened.wait();
    return {};
  });
  // The first chunk that is updated is the first whose state is wanted again.
  swapped.store().add_reader(swapped.store().chunk_count() - 1, (*reading)->record());
  swapped.enqueue_step(1);
  swapped.enqueue_step(2);
  CHECK(swapped.compute().synchronize());
  gate.set_value();
  swapped.wait();
  CHECK(swapped.state() == expected);
}

TEST_CASE("SWP-4: state that somebody reads is not overwritten until he has done so") {
  auto owner = make_reference_device();
  scratch dir;
  swap_trainer swapped(*owner, {}, in_folder(dir));
  const auto before = swapped.train(1);
  auto& store = swapped.store();
  auto reading = owner->make_stream({"reader", 1});
  REQUIRE(reading);
  std::promise<void> gate;
  (*reading)->host_task([opened = gate.get_future().share()]() -> status {
    opened.wait();
    return {};
  });
  constexpr int chunk = 3;
  store.add_reader(chunk, (*reading)->record());
  swapped.enqueue_step(2);
  REQUIRE(swapped.compute().synchronize());  // forward and backward need not wait
  const auto count = store.slice(chunk).count;
  std::vector<float> now(static_cast<size_t>(count)), then(now.size());
  store.await_state(swapped.compute(), chunk + 1);  // whose write stands before this one's
  REQUIRE(swapped.compute().synchronize());
  for (int look = 0; look < 500; ++look) {
    then = now;
    REQUIRE(store.read_from_disk(chunk, part::m, 0, count, now.data()));
    if (look > 0 && now != then) break;  // it was overwritten
  }
  gate.set_value();
  REQUIRE(store.read(chunk, part::m, then.data()));
  CHECK(std::search(before.begin(), before.end(), now.begin(), now.end()) != before.end());
  CHECK(now != then);
}

TEST_CASE("SWP-5: weights that changed on the disk are named by their own file") {
  auto owner = make_reference_device();
  scratch dir;
  swap_trainer swapped(*owner, {testing::tiny_gpt2(), dtype::bf16}, in_folder(dir));
  swapped.train(1);
  swapped.wait();
  turn_bit(dir / "weights-0003", 100);
  swapped.enqueue_step(2);
  swapped.wait();
  REQUIRE_FALSE(swapped.failure());
  CHECK(is_error(swapped.failure().error(), swap_damaged, "weights-0003", "transformer.h.1."));
}

TEST_CASE("state that is written and read back by hand is the same, in pieces too") {
  auto owner = make_reference_device();
  scratch dir;
  swap_trainer swapped(*owner, {testing::tiny_llama(), dtype::bf16}, in_folder(dir));
  auto& store = swapped.store();
  const auto count = static_cast<size_t>(store.slice(1).count);
  std::vector<float> values(count), back(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) * 0.5f - 7;
  for (const auto which : {part::master, part::v}) {
    REQUIRE(store.write(1, which, values.data()));
    REQUIRE(store.read(1, which, back.data()));
    CHECK(back == values);
    for (const int64_t first : {int64_t{0}, int64_t{1000}, int64_t{2040}}) {
      std::vector<float> some(20);
      REQUIRE(store.read_from_disk(1, which, first, 20, some.data()));
      CHECK(std::equal(some.begin(), some.end(), values.begin() + first));
    }
  }
  REQUIRE(store.read(1, part::m, back.data()));
  CHECK(std::all_of(back.begin(), back.end(), [](float x) { return x == 0; }));
}

TEST_CASE("what groups on their way and reads for a checkpoint take of memory is planned") {
  for (const int64_t hidden : {16, 128}) {  // of the latter a group is longer than a huge page
    CAPTURE(hidden);
    auto owner = make_reference_device();
    scratch dir;
    swap_case c{testing::tiny_gpt2(), dtype::f32, int64_t{1} << 20, 3};
    c.model.hidden = hidden;
    c.model.head_width = hidden / 4;
    c.model.ffn = 4 * hidden;
    swap_trainer swapped(*owner, c, in_folder(dir));
    swapped.train(1);
    auto& store = swapped.store();
    for (const auto which : {part::master, part::m, part::v})
      for (int chunk = 0; chunk < store.chunk_count(); ++chunk) {
        std::vector<float> all(static_cast<size_t>(store.slice(chunk).count));
        REQUIRE(store.read(chunk, which, all.data()));
      }
    uint64_t held = 0;
    for (const auto& h : io::process_memory().held().holders)
      if (h.holder.starts_with("state ")) held += h.bytes;
    std::vector<chunk_info> chunks;
    for (int chunk = 0; chunk < store.chunk_count(); ++chunk) chunks.push_back(store.info(chunk));
    CHECK(held > 0);
    CHECK(held <= swap_sizes_of(chunks, store.options().where, dtype::f32, {}).slots_bytes);
  }
}

TEST_CASE("a full disk is told when the files are made, not later") {
  auto owner = make_reference_device();
  io::faulty_options how;
  how.plan = {{io::fault_site::open, 3, io::fault_effect::fail, ENOSPC}};
  const swap_case c;
  stage_shape shape = whole_model(c.model, 1, 7, c.type);
  shape.where = least_residency(c.model, shape, {0, false, 1});
  auto stage = stage_model::make(*owner, c.model, shape);
  REQUIRE(stage);
  auto made = swapper::make((*stage)->store(), shape.where, on_faulty_disk(how));
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::io);
}

}  // namespace troupe::gpu
