// What a checkpoint takes of swap files by links: the state as it was, whatever is trained behind
// it, what becomes of it on a disk that is full or fails, and what becomes of its files once it has
// expired.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "io/checkpoint/save.hpp"
#include "io/disk/faulty_disk.hpp"
#include "io/disk/thread_disk.hpp"
#include "tests/gpu/keeping_ground.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"
#include "tests/io/reserves.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::gpu {
namespace {

namespace cp = io::checkpoint;
using testing::keep;
using testing::keeping_ground;
using testing::order_of;
using testing::shards;
using testing::state_in;
using testing::swap_case;
using testing::swap_trainer;
using testing::trained_in_memory;

/// Of one copy of the state, and of weights beside it.
uint64_t bytes_of_files(const swap_case& c) {
  keeping_ground ground;
  swap_trainer swapped(*ground.owner, c, ground.options());
  std::vector<io::dir_entry> files;
  REQUIRE(ground.store->list("/swap", files) == 0);
  uint64_t bytes = 0;
  for (const auto& f : files) bytes += f.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("SWP-7: a checkpoint has the state as it was, whatever is trained behind it") {
  for (const auto type : {dtype::f32, dtype::bf16})
    for (unsigned seed = 1; seed <= 6; ++seed) {
      CAPTURE(seed);
      keeping_ground ground;
      ground.how.seed = seed;
      ground.how.reorder = true;
      ground.how.short_move = 0.2;
      const swap_case c{testing::tiny_gpt2(), type, 2048, 1 + static_cast<int>(seed % 3)};
      swap_trainer swapped(*ground.owner, c, ground.options());
      std::vector<std::future<shards>> votes;
      for (int step = 1; step <= 5; ++step) {  // all of it enqueued, nobody waits
        swapped.enqueue_step(step);
        if (step % 2 == 0) votes.push_back(keep(swapped, order_of(static_cast<uint64_t>(step))));
      }
      swapped.wait();
      for (auto& v : votes) {
        const auto told = v.get();
        REQUIRE(told);
        CHECK(std::ssize(*told) == swapped.store().chunk_count());
      }
      for (const int step : {2, 4})
        CHECK(state_in(ground, swapped.store(), static_cast<uint64_t>(step)) ==
              trained_in_memory(*ground.owner, c, step));
      CHECK(swapped.state() == trained_in_memory(*ground.owner, c, 5));
      CHECK(swapped.failure());
    }
}

TEST_CASE("SWP-7: what was voted for survives a power cut, whatever is trained behind it") {
  keeping_ground ground;
  ground.how.seed = 5;
  ground.how.reorder = true;
  swap_trainer swapped(*ground.owner, {}, ground.options());
  const auto survives = [&] {
    for (int c = 0; c < swapped.store().chunk_count(); ++c) {
      const auto shard = order_of(2).partial / cp::shard_name(0, static_cast<uint32_t>(c));
      if (!ground.store->durable(shard, std::numeric_limits<int64_t>::max())) return false;
    }
    return true;
  };
  swapped.train(2);
  REQUIRE(keep(swapped, order_of(2)).get());
  CHECK_FALSE(survives());  // the names are the committer's affair
  io::faulty_disk root(ground.store, {});
  REQUIRE(root.sync_dir(order_of(2).partial));
  REQUIRE(root.sync_dir("/"));
  CHECK(survives());
  for (int step = 3; step <= 5; ++step) {
    swapped.enqueue_step(step);
    swapped.wait();
    CHECK(survives());
  }
}

TEST_CASE(
    "SWP-7: what is loaded behind a checkpoint leaves it alone, and so does a step left out") {
  keeping_ground ground;
  const swap_case c;
  swap_trainer swapped(*ground.owner, c, ground.options());
  swapped.train(2);
  REQUIRE(keep(swapped, order_of(2)).get());
  REQUIRE(keep(swapped, order_of(3)).get());  // the gradients of step 3 were not taken
  auto& store = swapped.store();
  const std::vector<float> ones(static_cast<size_t>(store.slice(1).count), 1);
  REQUIRE(store.write(1, part::master, ones.data()));
  const auto expected = trained_in_memory(*ground.owner, c, 2);
  CHECK(state_in(ground, store, 2) == expected);
  CHECK(state_in(ground, store, 3) == expected);
  std::vector<float> back(ones.size());
  REQUIRE(store.read(1, part::master, back.data()));
  CHECK(back == ones);
  REQUIRE(store.read(1, part::v, back.data()));
  CHECK(std::any_of(back.begin(), back.end(), [](float x) { return x != 0; }));  // it stayed
}

TEST_CASE("SWP-8: without room for a second copy a checkpoint fails, and training goes on") {
  const swap_case c;
  keeping_ground ground(bytes_of_files(c) + 40 * io::disk_block);
  swap_trainer swapped(*ground.owner, c, ground.options());
  swapped.train(1);
  const auto refused = keep(swapped, order_of(1)).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::io);
  std::vector<io::dir_entry> next;
  CHECK(ground.store->list("/swap/next", next) == 0);
  CHECK(next.empty());  // what was taken is given back
  swapped.enqueue_step(2);
  CHECK(swapped.state() == trained_in_memory(*ground.owner, c, 2));
  ground.store->settle(std::numeric_limits<int64_t>::max());  // what was removed is free by now
  // The last one needs no second copy; its state is not trained on.
  const auto last = keep(swapped, order_of(2, true)).get();
  REQUIRE_MESSAGE(last, (last ? std::string() : render(last.error())));
  CHECK(state_in(ground, swapped.store(), 2) == trained_in_memory(*ground.owner, c, 2));
  CHECK(swapped.failure());
  // Tried again, as after a commit that failed, it needs none either.
  auto again = order_of(2, true);
  again.partial = "/again";
  REQUIRE(keep(swapped, again).get());
  swapped.enqueue_step(3);
  swapped.wait();
  REQUIRE_FALSE(swapped.failure());
  CHECK(swapped.failure().error().is(state_given_away));
  CHECK(state_in(ground, swapped.store(), 2) == trained_in_memory(*ground.owner, c, 2));
}

namespace {

/// Takes the state over out of the checkpoint of step 2.
void adopt_all(swap_trainer& run, const std::vector<cp::chunk_shard>& kept) {
  for (const auto& s : kept) {
    const auto name = cp::shard_name(0, s.chunk);
    cp::file_entry entry;
    entry.name = name;
    entry.bytes = s.bytes;
    entry.stream_bytes = s.stream_bytes;
    entry.crc32c = s.footer_crc;
    const auto chunk = static_cast<int>(s.chunk);
    CHECK(run.swap().adopt(chunk, order_of(2).partial / name, entry));
    run.store().publish_weights(run.compute(), chunk, 2);
  }
  REQUIRE(run.compute().synchronize());
}

/// A run that is in the files of the checkpoint of step 2 where the disk has room for one copy, and
/// is about to make step 3.
struct in_its_files {
  swap_case c;
  keeping_ground ground;
  io::faulty_disk root{ground.store, {}};
  std::vector<cp::chunk_shard> kept;
  std::optional<swap_trainer> run;

  explicit in_its_files(dtype type)
      : c{testing::tiny_gpt2(), type}, ground(bytes_of_files(c) + 60 * io::disk_block) {
    {
      swap_trainer first(*ground.owner, c, ground.options());
      first.train(2);
      const auto told = keep(first, order_of(2, true)).get();
      REQUIRE(told);
      kept = *told;
    }
    REQUIRE(remove("/swap"));
    auto options = ground.options();
    options.files_later = true;
    c.starts = false;
    run.emplace(*ground.owner, c, options);
    adopt_all(*run, kept);
  }

  status remove(const char* folder) {
    const auto removed = root.remove_folder(folder, {io::folder_kind::scratch, {}, {}});
    ground.store->settle(std::numeric_limits<int64_t>::max());
    return removed;
  }
  bool checkpoint_is_whole() {
    swap_case from_start = c;
    from_start.starts = true;
    return state_in(ground, run->store(), 2) == trained_in_memory(*ground.owner, from_start, 2);
  }
};

}  // namespace

TEST_CASE("SWP-10: with room for one copy a run goes on in a checkpoint's files") {
  for (const auto type : {dtype::f32, dtype::bf16}) {
    in_its_files x(type);
    CHECK(x.checkpoint_is_whole());
    const auto awaits = x.run->swap().awaits_checkpoint();
    REQUIRE(awaits);
    CHECK(*awaits);
    REQUIRE(x.remove("/step-2"));
    for (int step = 3; step <= 5; ++step) x.run->enqueue_step(step);
    x.run->wait();
    auto from_start = x.c;
    from_start.starts = true;
    CHECK(x.run->state() == trained_in_memory(*x.ground.owner, from_start, 5));
    CHECK(x.run->failure());
    const auto left = x.run->swap().awaits_checkpoint();
    REQUIRE(left);
    CHECK_FALSE(*left);
  }
}

TEST_CASE(
    "SWP-10: a checkpoint that is not given up stays whole, and so does who links its files") {
  for (const bool linked : {false, true}) {
    in_its_files x(dtype::f32);
    const auto shard = order_of(2).partial / cp::shard_name(0, x.kept.at(1).chunk);
    if (linked) REQUIRE(x.root.link(shard, "/copy"));
    const auto awaits = x.run->swap().awaits_checkpoint();
    CHECK(bool(awaits) == !linked);
    if (!awaits) CHECK(awaits.error().is(still_has_names));
    x.run->enqueue_step(3);
    x.run->wait();
    REQUIRE_FALSE(x.run->failure());
    CHECK(x.run->failure().error().is(still_has_names));
    CHECK(x.checkpoint_is_whole());
  }
}

TEST_CASE("SWP-7: a checkpoint whose bytes may not be on the disk gets no vote") {
  for (const auto site : {io::fault_site::fdatasync, io::fault_site::link})
    for (const int nth : {1, 3}) {
      keeping_ground ground;
      ground.how.plan = {{site, nth, io::fault_effect::fail, EIO, 0, 100}};
      swap_trainer swapped(*ground.owner, {}, ground.options());
      swapped.train(1);
      const auto told = keep(swapped, order_of(1)).get();
      REQUIRE_FALSE(told);
      CHECK(told.error().code == errc::io);
      swapped.enqueue_step(2);
      swapped.wait();
      CHECK(swapped.failure());
      CHECK(swapped.state() == trained_in_memory(*ground.owner, {}, 2));
    }
}

TEST_CASE("SWP-11 SWP-7: a file whose sync has failed is another one before it is voted for") {
  for (const int nth : {1, 3}) {
    keeping_ground ground;
    ground.how.plan = {{io::fault_site::fdatasync, nth, io::fault_effect::fail, EIO}};
    swap_trainer swapped(*ground.owner, {}, ground.options());
    swapped.train(1);
    REQUIRE(keep(swapped, order_of(1)).get());
    swapped.enqueue_step(2);
    swapped.wait();
    CHECK(swapped.failure());
    CHECK(swapped.state() == trained_in_memory(*ground.owner, {}, 2));
    CHECK(state_in(ground, swapped.store(), 1) == trained_in_memory(*ground.owner, {}, 1));
  }
}

TEST_CASE("SWP-7: steps behind a checkpoint of what another one has already have their bits") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    keeping_ground ground;
    ground.how.seed = seed;
    ground.how.reorder = true;
    ground.how.short_move = 0.2;
    swap_trainer swapped(*ground.owner, {}, ground.options());
    for (int step = 1; step <= 2; ++step) swapped.enqueue_step(step);
    auto first = keep(swapped, order_of(2));
    auto second = keep(swapped, order_of(9));  // of steps whose gradients were not taken
    for (int step = 3; step <= 5; ++step) swapped.enqueue_step(step);
    REQUIRE(first.get());
    REQUIRE(second.get());
    CHECK(swapped.state() == trained_in_memory(*ground.owner, {}, 5));
    CHECK(swapped.failure());
    const auto expected = trained_in_memory(*ground.owner, {}, 2);
    CHECK(state_in(ground, swapped.store(), 2) == expected);
    CHECK(state_in(ground, swapped.store(), 9) == expected);
  }
}

TEST_CASE("SWP-6: a file that cannot have its name back ends the training") {
  keeping_ground ground;
  ground.how.plan = {{io::fault_site::rename, 1, io::fault_effect::fail, EIO}};
  swap_trainer swapped(*ground.owner, {}, ground.options());
  swapped.train(1);
  REQUIRE(keep(swapped, order_of(1)).get());
  swapped.enqueue_step(2);
  swapped.wait();
  REQUIRE_FALSE(swapped.failure());
  CHECK(state_in(ground, swapped.store(), 1) == trained_in_memory(*ground.owner, {}, 1));
}

TEST_CASE("SWP-7: a link that is refused is told, and leaves its file or folder to be copied") {
  for (const int why : {EXDEV, EMLINK}) {
    CAPTURE(why);
    keeping_ground ground;
    ground.how.plan = {{io::fault_site::link, 2, io::fault_effect::fail, why}};
    swap_trainer swapped(*ground.owner, {}, ground.options());
    auto left = swapped.swap().linked();
    const auto chunks = left.size();
    swapped.train(1);
    const auto told = keep(swapped, order_of(1)).get();
    REQUIRE_FALSE(told);
    CHECK(told.error().is(links_refused));
    if (why == EXDEV) left.assign(chunks, false);
    left[1] = false;
    CHECK(swapped.swap().linked() == left);
    swapped.enqueue_step(2);
    const auto next = keep(swapped, order_of(2)).get();
    REQUIRE(next);
    CHECK(next->size() == (why == EMLINK ? chunks - 1 : 0));
    swapped.enqueue_step(3);
    swapped.wait();
    CHECK(swapped.failure());
    CHECK(swapped.state() == trained_in_memory(*ground.owner, {}, 3));
  }
}

TEST_CASE(
    "SWP-7: where links are refused a checkpoint gets clones, whatever is trained behind it") {
  for (const auto& [why, times] :
       {std::pair(EXDEV, 1 << 20), {EPERM, 1 << 20}, {EOPNOTSUPP, 1 << 20}, {EMLINK, 1}}) {
    CAPTURE(why);
    keeping_ground ground;
    ground.how.clones = true;
    ground.how.plan = {{io::fault_site::link, 1, io::fault_effect::fail, why, 0, times}};
    swap_trainer swapped(*ground.owner, {}, ground.options());
    const auto chunks = static_cast<uint32_t>(swapped.store().chunk_count());
    swapped.train(1);
    const auto first = keep(swapped, order_of(1)).get();
    REQUIRE(first);
    CHECK(first->size() == chunks);
    const auto cloned = std::min(chunks, static_cast<uint32_t>(times));
    CHECK(swapped.swap().taken().cloned == cloned);
    CHECK(swapped.swap().taken().linked == chunks - cloned);
    CHECK(swapped.swap().linked() == std::vector<bool>(chunks, true));
    io::faulty_disk root(ground.store, {});
    REQUIRE(root.sync_dir(order_of(1).partial));
    REQUIRE(root.sync_dir("/"));
    for (uint32_t c = 0; c < chunks; ++c)
      CHECK(ground.store->durable(order_of(1).partial / cp::shard_name(0, c),
                                  std::numeric_limits<int64_t>::max()));
    swapped.enqueue_step(2);
    REQUIRE(keep(swapped, order_of(2)).get());
    CHECK(swapped.swap().taken().cloned == (times == 1 ? 0 : chunks));
    swapped.enqueue_step(3);
    swapped.wait();
    CHECK(swapped.failure());
    for (const int step : {1, 2})
      CHECK(state_in(ground, swapped.store(), static_cast<uint64_t>(step)) ==
            trained_in_memory(*ground.owner, {}, step));
    CHECK(swapped.state() == trained_in_memory(*ground.owner, {}, 3));
  }
}

TEST_CASE("SWP-6: a swap folder that has failed gives no checkpoint anything") {
  keeping_ground ground;
  ground.how.plan = {{io::fault_site::read, 10, io::fault_effect::fail, EIO}};
  swap_trainer swapped(*ground.owner, {}, ground.options());
  for (int step = 1; step <= 3; ++step) swapped.enqueue_step(step);
  swapped.wait();
  REQUIRE_FALSE(swapped.failure());
  CHECK_FALSE(keep(swapped, order_of(3)).get());
}

namespace {

swap_options with_old_files(const keeping_ground& ground) {
  auto o = ground.options();
  o.old_files = 4;
  return o;
}

/// A run with a checkpoint each step, and the same one in memory.
struct saving_run {
  using file = io::crash_store::node_id;

  keeping_ground& ground;
  swap_case c;
  io::faulty_disk root{ground.store, {}};
  swap_trainer swapped, in_memory;
  uint64_t steps = 0;
  std::vector<std::vector<float>> truth{{}};  ///< by step
  std::set<file> files = {};                  ///< that checkpoints have had

  saving_run(keeping_ground& where, const swap_case& what)
      : ground(where),
        c(what),
        swapped(*where.owner, what, with_old_files(where)),
        in_memory(*where.owner, what, {}) {}

  size_t chunks() { return static_cast<size_t>(swapped.store().chunk_count()); }
  static std::filesystem::path shard(size_t chunk, uint64_t step) {
    return order_of(step).partial / cp::shard_name(0, static_cast<uint32_t>(chunk));
  }
  static file file_of(const keeping_ground& where, size_t chunk, uint64_t step) {
    file out = 0;
    REQUIRE(where.store->open(shard(chunk, step), io::open_mode::read, out) == 0);
    return out;
  }
  void one_step() {
    const auto n = static_cast<int64_t>(++steps);
    if (c.speculates)
      swapped.enqueue_speculating_step(n, n % 3 != 0);
    else
      swapped.enqueue_step(n);
    in_memory.enqueue_step(n);
    REQUIRE(in_memory.compute().synchronize());
    truth.push_back(in_memory.state());
    const auto told = keep(swapped, order_of(steps)).get();
    REQUIRE_MESSAGE(told, (told ? std::string() : render(told.error())));
    for (size_t chunk = 0; chunk < chunks(); ++chunk) files.insert(file_of(ground, chunk, steps));
  }
  void expire(uint64_t step) {
    REQUIRE(root.remove_folder(order_of(step).partial, {io::folder_kind::scratch, {}, {}}));
    ground.store->settle(std::numeric_limits<int64_t>::max());
  }
  bool is_whole(uint64_t step) { return state_in(ground, swapped.store(), step) == truth.at(step); }
  size_t old_files() const {
    std::vector<io::dir_entry> found;
    static_cast<void>(ground.store->list("/swap/old", found));
    return found.size();
  }
  /// With two checkpoints that are kept.
  void train(int more) {
    for (int i = 0; i < more; ++i) {
      one_step();
      if (steps > 2) expire(steps - 2);
    }
  }
};

}  // namespace

TEST_CASE("SWP-12: with a checkpoint each step no file is made or freed behind the first ones") {
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const bool speculates : {false, true}) {
      CAPTURE(speculates);
      keeping_ground ground;
      ground.how.seed = 3;
      ground.how.reorder = true;
      ground.how.short_move = 0.2;
      saving_run run(ground, {testing::tiny_gpt2(), type, 2048, 2, true, speculates});
      for (int i = 0; i < 20; ++i) {
        run.train(1);
        CHECK(run.is_whole(run.steps));
        if (run.steps > 1) CHECK(run.is_whole(run.steps - 1));
        CHECK(run.old_files() <= 2 * run.chunks());
      }
      // Two that are kept, the newest, and what is behind that: no more than are planned.
      CHECK(run.files.size() == run.chunks() * (speculates ? 5u : 4u));
      CHECK(run.swapped.state() == run.truth.back());
      CHECK(run.swapped.failure());
    }
}

TEST_CASE("SWP-8 SWP-12: what has expired takes no room that was planned for others") {
  const swap_case c;
  keeping_ground ground(4 * bytes_of_files(c) + 40 * io::disk_block);
  saving_run run(ground, c);
  run.train(8);
  CHECK(run.is_whole(8));
  CHECK(run.is_whole(7));
}

TEST_CASE("SWP-12: of what has expired one file is written again, and the rest is freed") {
  keeping_ground ground;
  saving_run run(ground, {});
  for (int i = 0; i < 8; ++i) run.one_step();
  CHECK(run.old_files() == 4 * run.chunks());  // of the newest
  const auto fourth = run.file_of(ground, 1, 4);
  const auto made = run.files.size();
  for (uint64_t step = 1; step <= 6; ++step) run.expire(step);
  run.one_step();
  CHECK(run.old_files() == 2 * run.chunks());  // of steps 7 and 8
  run.one_step();
  CHECK(run.file_of(ground, 1, 10) == fourth);
  CHECK(run.files.size() == made + run.chunks());  // step 9 is in what was made before
  for (const auto step : {7u, 8u, 9u, 10u}) CHECK(run.is_whole(step));
  run.expire(7);
  run.swapped.enqueue_step(11);
  REQUIRE(keep(run.swapped, order_of(11, true)).get());
  CHECK(run.old_files() == 0);  // the room is the export's
  CHECK(ground.store->names_of(saving_run::shard(1, 10)) == 1);
  CHECK(run.is_whole(10));
}

TEST_CASE("SWP-12: what has expired is no more once other files of the folders need room") {
  keeping_ground ground;
  saving_run run(ground, {});
  for (int i = 0; i < 6; ++i) run.one_step();
  for (uint64_t step = 1; step <= 4; ++step) run.expire(step);
  CHECK(run.old_files() == 4 * run.chunks());
  run.swapped.swap().wait_for_room().make_room();
  CHECK(run.old_files() == run.chunks());  // of step 5; files of step 6 are not old yet
  for (const auto step : {5u, 6u}) CHECK(run.is_whole(step));
}

TEST_CASE("SWP-12: a file that somebody else has linked, or moved away, is not written again") {
  keeping_ground ground;
  saving_run run(ground, {});
  for (int i = 0; i < 3; ++i) run.one_step();
  REQUIRE(run.root.link(saving_run::shard(1, 1), "/mine"));
  REQUIRE(run.root.rename("/step-2", "/theirs"));
  const auto mine = run.root.read_small("/mine", size_t{1} << 24);
  REQUIRE(mine);
  run.expire(1);
  for (int i = 0; i < 8; ++i) {
    run.one_step();
    if (run.steps > 4) run.expire(run.steps - 2);
  }
  CHECK(*run.root.read_small("/mine", size_t{1} << 24) == *mine);
  REQUIRE(run.root.rename("/theirs", "/step-2"));
  for (const auto step : {2u, 10u, 11u}) CHECK(run.is_whole(step));
  CHECK(run.swapped.state() == run.truth.back());
}

TEST_CASE("SWP-12: files of the checkpoint that a run goes on from are written again, too") {
  for (const bool in_one_process : {false, true}) {
    keeping_ground ground;
    swap_case c;
    io::faulty_disk root(ground.store, {});
    const auto give_up = [&](const std::filesystem::path& folder) {
      REQUIRE(root.remove_folder(folder, {io::folder_kind::scratch, {}, {}}));
    };
    auto run = std::make_unique<swap_trainer>(*ground.owner, c, with_old_files(ground));
    std::vector<cp::chunk_shard> kept;
    const auto make_step = [&](uint64_t step, bool last = false) {
      run->enqueue_step(static_cast<int64_t>(step));
      const auto told = keep(*run, order_of(step, last)).get();
      REQUIRE(told);
      kept = *told;
    };
    make_step(1);
    make_step(2, !in_one_process);
    if (in_one_process) {
      run->enqueue_step(3);  // by which the files of step 2 have old names
    } else {
      run.reset();
      for (const auto* f : {"/swap/next", "/swap/old", "/swap"}) give_up(f);
      c.starts = false;
      run = std::make_unique<swap_trainer>(*ground.owner, c, with_old_files(ground));
    }
    adopt_all(*run, kept);
    give_up(order_of(1).partial);
    const auto adopted = saving_run::file_of(ground, 1, 2);
    std::set<saving_run::file> files;
    for (uint64_t step = 3; step <= 8; ++step) {
      make_step(step);
      files.insert(saving_run::file_of(ground, 1, step));
      give_up(order_of(step - 1).partial);
    }
    CHECK(files.contains(adopted));
    CHECK(files.size() == 3);  // that one, the run's first, and one more while both were needed
    CHECK(state_in(ground, run->store(), 8) == trained_in_memory(*ground.owner, {}, 8));
    CHECK(run->state() == trained_in_memory(*ground.owner, {}, 8));
  }
}

TEST_CASE("SWP-11 SWP-12: where a write to such a file fails checkpoints stay as they are") {
  constexpr int steps = 7, tries = 8;
  const auto [before, all] = [] {
    keeping_ground ground;
    saving_run run(ground, {});
    const auto writes = [&] {
      return static_cast<int>(run.swapped.swap().facts().written_bytes / io::disk_block);
    };
    const int first = writes();
    run.train(steps);
    return std::pair(first, writes());
  }();
  for (int i = 1; i <= tries; ++i) {
    CAPTURE(i);
    keeping_ground ground;
    const int nth = before + (all - before) * i / (tries + 1);
    ground.how.plan = {{io::fault_site::write, nth, io::fault_effect::fail, EIO}};
    saving_run run(ground, {});
    run.train(steps);
    CHECK(run.is_whole(steps));
    CHECK(run.is_whole(steps - 1));
    CHECK(run.swapped.state() == run.truth.back());
    CHECK(run.swapped.failure());
  }
}

namespace {

/// The machine's disk, which counts the files that are made.
class counting_disk final : public io::thread_disk {
 public:
  counting_disk(const io::disk_options& options, std::shared_ptr<std::atomic<int>> made)
      : thread_disk(options, ""), made_(std::move(made)) {}

 protected:
  result<opened> raw_open(const path& name, const io::open_options& options) override {
    if (options.mode == io::open_mode::create) ++*made_;
    return thread_disk::raw_open(name, options);
  }

 private:
  std::shared_ptr<std::atomic<int>> made_;
};

}  // namespace

TEST_CASE("SWP-12: on the machine's disk what expires is neither freed nor made anew") {
  namespace fs = std::filesystem;
  if (!reserves_room()) return;
  scratch dir;
  fs::create_directory(dir / "swap");
  const auto made = std::make_shared<std::atomic<int>>(0);
  const auto owner = make_reference_device();
  swap_options o;
  o.places = {{dir / "swap", true}};
  o.job = "job";
  o.old_files = 4;
  o.io.piece_bytes = io::disk_block;
  o.io.open_disk = [made](size_t depth) -> result<std::unique_ptr<io::disk>> {
    io::disk_options by_default;
    by_default.depth = depth;
    return std::unique_ptr<io::disk>(std::make_unique<counting_disk>(by_default, made));
  };
  const swap_case c;
  swap_trainer swapped(*owner, c, std::move(o));
  const auto folder_of = [&](int step) { return dir.path / ("step-" + std::to_string(step)); };
  int made_first = 0;
  for (int step = 1; step <= 20; ++step) {
    swapped.enqueue_step(step);
    auto order = order_of(static_cast<uint64_t>(step));
    order.partial = folder_of(step);
    const auto told = keep(swapped, std::move(order)).get();
    REQUIRE_MESSAGE(told, (told ? std::string() : render(told.error())));
    if (step == 4) made_first = made->load();
    if (step <= 2) continue;
    for (const auto& s : *told)
      CHECK(fs::hard_link_count(folder_of(step - 2) / cp::shard_name(0, s.chunk)) == 2);
    fs::remove_all(folder_of(step - 2));
  }
  CHECK(made->load() == made_first);
  CHECK(swapped.state() == trained_in_memory(*owner, c, 20));
  CHECK(swapped.failure());
}

}  // namespace troupe::gpu
