// A rank's file through the ring: any order, any disk, every fault; durable and exact, or dead with
// every slot returned and one error told.
#include <algorithm>

#include "io/disk/shard_writer.hpp"
#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/disk/backends.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

struct outcome_log {
  int calls = 0;
  status last;
  std::function<void(const status&)> listen() {
    return [this](const status& s) {
      ++calls;
      last = s;
    };
  }
};

shard_writer::options how_to(const std::filesystem::path& name, const slots& ring, size_t bytes) {
  shard_writer::options how;
  how.name = name;
  how.slot_bytes = ring.slot_bytes();
  how.stream_bytes = bytes;
  return how;
}

void take_all(disk& d, shard_writer& w, size_t min) {
  for (auto& c : d.wait(min, long_enough)) CHECK(w.take(c));
}

/// Pushes the stream through in the order of `pieces`, then the tail, until it is durable or dead.
void push(disk& d, shard_writer& w, const std::shared_ptr<slots>& ring, const std::string& stream,
          const std::vector<uint64_t>& pieces, const std::string& tail) {
  for (auto piece : pieces) {
    auto lease = ring->try_take();
    while (!lease) {
      take_all(d, w, 1);
      lease = ring->try_take();
    }
    auto part = std::string_view(stream).substr(piece * ring->slot_bytes(), ring->slot_bytes());
    std::memcpy(lease->bytes().data(), part.data(), part.size());
    if (!w.filled(std::move(*lease), piece, part.size())) break;
  }
  if (w.now() == shard_writer::state::open) static_cast<void>(w.append_tail(as_bytes(tail)));
  while (d.under_way() > 0) take_all(d, w, 1);
}

std::vector<uint64_t> shuffled(uint64_t n, uint64_t seed) {
  std::vector<uint64_t> order(n);
  for (uint64_t i = 0; i < n; ++i) order[i] = i;
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// The file a writer makes of a stream and a tail.
std::string file_of(const std::string& stream, const std::string& tail) {
  auto file = stream + std::string(block_up(stream.size()) - stream.size(), '\0');
  return file + std::string(block_up(tail.size()) - tail.size(), '\0') + tail;
}

}  // namespace

TEST_CASE("every disk: a stream in any order and a tail become one durable file") {
  each_disk([](disk& d, const auto& dir, const auto& ring) {
    uint64_t seed = 0;
    for (size_t bytes : {size_t{1}, disk_block, ring->slot_bytes(), ring->slot_bytes() + 1,
                         9 * ring->slot_bytes() - 5000, 8 * ring->slot_bytes()}) {
      CAPTURE(bytes);
      auto stream = noise(bytes, ++seed);
      auto tail = noise(seed % 2 ? 777 : 2 * disk_block, seed + 100);
      outcome_log log;
      auto how = how_to(dir / std::to_string(bytes), *ring, bytes);
      how.done = log.listen();
      auto w = shard_writer::create(d, how);
      REQUIRE(w);
      push(d, **w, ring, stream, shuffled((*w)->pieces(), seed), tail);
      CHECK((*w)->now() == shard_writer::state::durable);
      CHECK(log.calls == 1);
      CHECK(log.last);
      auto p = (*w)->progress();
      CHECK((p.total == bytes && p.captured == bytes && p.written == bytes && p.durable == bytes));
      CHECK(*d.read_small(how.name, 1 << 24) == file_of(stream, tail));
      CHECK((*w)->file_bytes() == file_of(stream, tail).size());
      CHECK(ring->counts().free == 6);

      for (uint64_t i = 0; i < (*w)->pieces(); ++i) {
        auto part = std::string_view(stream).substr(i * ring->slot_bytes(), ring->slot_bytes());
        CHECK((*w)->crcs()[i] == crc32c(as_bytes(part)));
      }
    }
  });
}

TEST_CASE("SW-1 the checksum is of what was captured: damage on the way to the disk is found") {
  faulty_disk d(crash_store::make(), {});
  auto ring = test_ring(3);
  auto stream = noise(3 * ring->slot_bytes(), 1);
  auto w = shard_writer::create(d, how_to("/a", *ring, stream.size()));
  REQUIRE(w);
  push(d, **w, ring, stream, {0, 1, 2}, "tail");
  REQUIRE((*w)->now() == shard_writer::state::durable);
  crash_store::node_id node = 0;
  REQUIRE(d.store()->open("/a", open_mode::read, node) == 0);
  char flipped = static_cast<char>(stream[20000] ^ 4);
  REQUIRE(d.store()->write(node, 20000, as_bytes({&flipped, 1})) == 1);
  const auto file = d.read_small("/a", 1 << 24);
  REQUIRE(file);
  for (uint64_t i = 0; i < 3; ++i) {
    const auto part = std::string_view(*file).substr(i * ring->slot_bytes(), ring->slot_bytes());
    CHECK(((*w)->crcs()[i] == crc32c(as_bytes(part))) == (i != 1));
  }
  CHECK(ring->counts().free == 3);
}

TEST_CASE("SW-4 pieces that do not fit, come twice or are missing end the file") {
  auto ring = test_ring(3);
  auto lease = [&] { return std::move(*ring->try_take()); };
  size_t whole = ring->slot_bytes();
  using step = std::function<status(shard_writer&)>;
  const std::vector<std::pair<const char*, step>> wrong = {
      {"too short", [&](auto& w) { return w.filled(lease(), 0, whole - 1); }},
      {"too long at the end", [&](auto& w) { return w.filled(lease(), 2, whole); }},
      {"beyond the end", [&](auto& w) { return w.filled(lease(), 3, 1); }},
      {"twice",
       [&](auto& w) {
         return w.filled(lease(), 1, whole) ? w.filled(lease(), 1, whole) : status{};
       }},
      {"tail too early", [&](auto& w) { return w.append_tail(as_bytes("t")); }},
  };
  for (const auto& [name, act] : wrong) {
    CAPTURE(name);
    faulty_disk d(crash_store::make(), {});
    outcome_log log;
    auto how = how_to("/a", *ring, 2 * whole + 10);
    how.done = log.listen();
    auto w = shard_writer::create(d, how);
    REQUIRE(w);
    CHECK(act(**w).error().code == errc::bug);
    CHECK((*w)->now() == shard_writer::state::dead);
    CHECK((*w)->filled(lease(), 0, whole).error().code == errc::bug);
    while (d.under_way() > 0) take_all(d, **w, 1);
    CHECK(log.calls == 1);
    CHECK_FALSE(log.last);
    CHECK(d.store()->syncs() == 0);
    CHECK(ring->counts().free == 3);
  }
}

TEST_CASE("SW-3 whatever fails, the file is dead once, unsynced, and every slot comes back") {
  const std::vector<planned_fault> faults = {{fault_site::write, 1},
                                             {fault_site::write, 3},
                                             {fault_site::write, 5},
                                             {fault_site::write, 2, fault_effect::fail, 28},
                                             {fault_site::fdatasync, 1}};
  for (const auto& fault : faults) {
    CAPTURE(static_cast<int>(fault.site));
    CAPTURE(fault.nth);
    faulty_options options;
    options.plan = {fault};
    options.depth = 2;
    faulty_disk d(crash_store::make(), options);
    auto ring = test_ring(3);
    auto stream = noise(4 * ring->slot_bytes(), 1);  // four pieces and the tail: five writes
    outcome_log log;
    auto how = how_to("/a", *ring, stream.size());
    how.done = log.listen();
    auto w = shard_writer::create(d, how);
    REQUIRE(w);
    push(d, **w, ring, stream, {0, 1, 2, 3}, "tail");
    CHECK((*w)->now() == shard_writer::state::dead);
    CHECK(log.calls == 1);
    REQUIRE_FALSE(log.last);
    CHECK(mentions(log.last.error(), "/a"));
    CHECK((*w)->progress().durable == 0);
    CHECK(d.store()->syncs() == (fault.site == fault_site::fdatasync ? 1 : 0));
    CHECK(ring->counts().free == 3);
    (*w)->give_up({errc::timeout, "late"});
    CHECK(log.calls == 1);
  }
}

TEST_CASE("SW-3 a writer given up, or gone, leaves the disk to answer and the slots to return") {
  auto ring = test_ring(3);
  faulty_disk d(crash_store::make(), {});
  outcome_log log;
  {
    auto how = how_to("/a", *ring, 2 * ring->slot_bytes());
    how.done = log.listen();
    auto w = shard_writer::create(d, how);
    REQUIRE(w);
    REQUIRE((*w)->filled(std::move(*ring->try_take()), 1, ring->slot_bytes()));
    const error late(errc::timeout, "the vote came too late");
    (*w)->give_up(late);
    CHECK(log.calls == 1);
    CHECK(log.last.error() == late);
    CHECK(ring->counts().writing == 1);
  }
  {
    auto w = shard_writer::create(d, how_to("/b", *ring, 2 * ring->slot_bytes()));
    REQUIRE(w);
    REQUIRE((*w)->filled(std::move(*ring->try_take()), 0, ring->slot_bytes()));
  }
  CHECK(d.wait(2, long_enough).size() == 2);
  CHECK(ring->counts().free == 3);
  CHECK(log.calls == 1);
}

TEST_CASE("any faults by random: durable and exact, or dead and told, by seeds") {
  int durables = 0, deads = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    faulty_options options;
    options.seed = seed;
    options.short_move = 0.3;
    options.interrupted = 0.2;
    options.write_error = seed % 3 == 0 ? 0.05 : 0;
    options.sync_error = seed % 5 == 0 ? 0.5 : 0;
    options.reorder = true;
    options.depth = 1 + random() % 4;
    faulty_disk d(crash_store::make(), options);
    auto ring = test_ring(1 + static_cast<int>(random() % 5), (1 + random() % 3) * disk_block);
    auto stream = noise(1 + random() % 100'000, seed);
    auto tail = noise(1 + random() % 10'000, seed + 1000);
    outcome_log log;
    auto how = how_to("/a", *ring, stream.size());
    how.done = log.listen();
    auto w = shard_writer::create(d, how);
    REQUIRE(w);
    push(d, **w, ring, stream, shuffled((*w)->pieces(), seed), tail);
    REQUIRE(log.calls == 1);
    REQUIRE(ring->counts().free == ring->count());
    bool durable = (*w)->now() == shard_writer::state::durable;
    REQUIRE(static_cast<bool>(log.last) == durable);
    ++(durable ? durables : deads);
    if (!durable) continue;
    REQUIRE(d.sync_dir("/"));
    auto images = crash_images(d.store(), d.store()->points());
    while (auto image = images.next())
      REQUIRE(*faulty_disk(image, {}).read_small("/a", 1 << 24) == file_of(stream, tail));
  }
  CHECK(durables > 50);
  CHECK(deads > 20);
}
