// What a checkpoint takes of swap files by links: the state as it was, whatever is trained behind
// it, and what becomes of it on a disk that is full or fails.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <optional>

#include "io/checkpoint/save.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"

namespace troupe::gpu {
namespace {

namespace cp = io::checkpoint;
using testing::swap_case;
using testing::swap_trainer;
using shards = result<std::vector<cp::chunk_shard>>;

/// A disk in memory that checkpoints are on, too.
struct keeping_ground {
  std::shared_ptr<device> owner = make_reference_device();
  std::shared_ptr<io::crash_store> store;
  io::faulty_options how = {};

  explicit keeping_ground(uint64_t capacity = uint64_t{64} << 20)
      : store(io::crash_store::make(capacity)) {}

  swap_options options() const {
    swap_options o;
    o.places = {{"/swap", true}};
    o.job = "job";
    o.io.piece_bytes = io::disk_block;
    o.io.depth = 3;
    o.io.open_disk = [*this](size_t depth) -> result<std::unique_ptr<io::disk>> {
      auto options = how;
      options.depth = depth;
      auto made = std::make_unique<io::faulty_disk>(store, options);
      TROUPE_TRY(there, made->make_dir("/swap"));
      REQUIRE(there);
      return std::unique_ptr<io::disk>(std::move(made));
    };
    return o;
  }
};

keep_order order_of(uint64_t step, bool last = false) {
  keep_order o;
  o.partial = "/step-" + std::to_string(step);
  o.head.job = "job";
  o.head.step = step;
  o.head.epoch = 1;
  o.last = last;
  return o;
}

std::future<shards> keep(swap_trainer& of, keep_order order) {
  auto told = std::make_shared<std::promise<shards>>();
  of.swap().keep(std::move(order), [told](const shards& s) { told->set_value(s); });
  return told->get_future();
}

/// Masters and moments of all chunks as the shards of a step have them, chunk by chunk and part by
/// part, each slot's checksum compared.
std::vector<float> state_in(keeping_ground& ground, parameter_store& store, uint64_t step) {
  io::faulty_disk d(ground.store, {});
  std::map<std::pair<std::string, cp::part>, std::vector<float>> values;
  for (int c = 0; c < store.chunk_count(); ++c) {
    const auto name = std::filesystem::path("/step-" + std::to_string(step)) /
                      cp::shard_name(0, static_cast<uint32_t>(c));
    const auto file = d.open_source(name, io::pages::keep);
    REQUIRE(file);
    std::vector<std::byte> bytes((*file)->size());
    REQUIRE((*file)->read_at(0, bytes));
    const auto end = cp::parse_trailer(bytes, bytes.size());
    REQUIRE(end);
    const auto f = cp::parse_tail(std::span(bytes).subspan(end->footer_offset), bytes.size());
    REQUIRE(f);
    CHECK(f->step == step);
    for (size_t s = 0; s < f->crc32c.size(); ++s)
      CHECK(io::crc32c(std::span(bytes).subspan(s * f->slot_bytes, f->slot_bytes)) == f->crc32c[s]);
    for (const auto& p : f->pieces) {
      auto& into = values[{p.tensor, p.which}];
      into.resize(*cp::elements_of(p.shape));
      std::memcpy(into.data() + p.first, bytes.data() + p.stream_offset, p.bytes);
    }
  }
  std::vector<float> out;
  for (int c = 0; c < store.chunk_count(); ++c)
    for (const auto which : {cp::part::master, cp::part::exp_avg, cp::part::exp_avg_sq}) {
      std::vector<float> chunk(static_cast<size_t>(store.slice(c).count));
      for (const auto& t : store.info(c).tensors) {
        const auto& tensor = values.at({t.name, which});
        std::copy(tensor.begin(), tensor.end(), chunk.begin() + t.offset);
      }
      out.insert(out.end(), chunk.begin(), chunk.end());
    }
  return out;
}

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

std::vector<float> trained_in_memory(device& owner, const swap_case& c, int steps) {
  return swap_trainer(owner, c, {}).train(steps);
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

/// A run that is in the files of the checkpoint of step 2 where the disk has room for one copy, and
/// is about to make step 3.
struct in_its_files {
  swap_case c;
  keeping_ground ground;
  io::faulty_disk root{ground.store, {}};
  std::vector<cp::chunk_shard> kept;
  std::atomic<int> asked{0};  ///< to give the checkpoint up
  std::atomic<bool> refuses{false};
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
    options.give_up = [this]() -> status {
      ++asked;
      return refuses ? status(error{errc::unavailable, "it is held"}) : remove("/step-2");
    };
    c.starts = false;
    run.emplace(*ground.owner, c, options);
    for (const auto& s : kept) {
      const auto name = cp::shard_name(0, s.chunk);
      cp::file_entry entry;
      entry.name = name;
      entry.bytes = s.bytes;
      entry.stream_bytes = s.stream_bytes;
      entry.crc32c = s.footer_crc;
      const auto chunk = static_cast<int>(s.chunk);
      CHECK(run->swap().adopt(chunk, order_of(2).partial / name, entry));
      run->store().publish_weights(run->compute(), chunk, 2);
    }
    REQUIRE(run->compute().synchronize());
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
    CHECK(x.asked == 0);  // a run that ends here has lost nothing
    for (int step = 3; step <= 5; ++step) x.run->enqueue_step(step);
    x.run->wait();
    CHECK(x.asked == 1);
    auto from_start = x.c;
    from_start.starts = true;
    CHECK(x.run->state() == trained_in_memory(*x.ground.owner, from_start, 5));
    CHECK(x.run->failure());
  }
}

TEST_CASE("SWP-10: who does not give the checkpoint up, or links its files, keeps it whole") {
  for (const bool linked : {false, true}) {
    in_its_files x(dtype::f32);
    x.refuses = !linked;
    const auto shard = order_of(2).partial / cp::shard_name(0, x.kept.at(1).chunk);
    if (linked) REQUIRE(x.root.link(shard, "/copy"));
    x.run->enqueue_step(3);
    x.run->wait();
    REQUIRE_FALSE(x.run->failure());
    CHECK(x.run->failure().error().is(still_has_names) == linked);
    CHECK(x.asked == (linked ? 0 : 1));
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

TEST_CASE("SWP-6: a swap folder that has failed gives no checkpoint anything") {
  keeping_ground ground;
  ground.how.plan = {{io::fault_site::read, 10, io::fault_effect::fail, EIO}};
  swap_trainer swapped(*ground.owner, {}, ground.options());
  for (int step = 1; step <= 3; ++step) swapped.enqueue_step(step);
  swapped.wait();
  REQUIRE_FALSE(swapped.failure());
  CHECK_FALSE(keep(swapped, order_of(3)).get());
}

}  // namespace troupe::gpu
