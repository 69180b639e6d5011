// Faults of disks: short writes go on where they stopped, a failed write or sync ends its file, an
// answer that never comes ends nobody else, and a full disk is said to be full.
#include <algorithm>

#include <sys/mount.h>
#include <unistd.h>

#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/disk/backends.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

struct rig {
  std::shared_ptr<crash_store> store;
  faulty_disk disk;
  std::shared_ptr<slots> ring = test_ring(6);
  file_id file = file_id::none;

  explicit rig(faulty_options options, uint64_t capacity = uint64_t{1} << 40)
      : store(crash_store::make(capacity)), disk(store, std::move(options)) {}

  void open(bool direct) { file = opened(disk, "/a", open_mode::create, direct); }
};

}  // namespace

TEST_CASE("DK-2 a short write goes on where it stopped, on O_DIRECT at a block") {
  for (bool direct : {false, true})
    for (size_t moved : {size_t{1}, disk_block - 1, disk_block, disk_block + 7, 3 * disk_block}) {
      CAPTURE(direct);
      CAPTURE(moved);
      faulty_options options;
      options.plan = {{fault_site::write, 1, fault_effect::shorten, 0, moved, 1}};
      rig r(options);
      r.open(direct);
      auto text = noise(4 * disk_block, moved);
      REQUIRE(r.disk.write(r.file, 2 * disk_block, text_of(text), 1));
      auto done = answer_of(r.disk);
      CHECK(done.outcome);
      CHECK(done.bytes == text.size());
      CHECK(*r.disk.read_small("/a", 1 << 20) == std::string(2 * disk_block, '\0') + text);
      size_t resumed = direct ? moved / disk_block * disk_block : moved;
      CHECK(r.store->text(2) == "write node 2 at " + std::to_string(2 * disk_block + resumed) +
                                    ", " + std::to_string(text.size() - resumed) + " bytes");
    }
}

TEST_CASE("DK-2 short moves and signals by random change no byte, by seeds") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    faulty_options options;
    options.seed = seed;
    options.short_move = 0.4;
    options.interrupted = 0.3;
    options.reorder = true;
    rig r(options);
    r.open(seed % 2 == 0);
    std::string expected;
    for (uint64_t i = 0; i < 20; ++i) {
      auto text = noise(2 * disk_block, seed * 100 + i);
      REQUIRE(r.disk.write(r.file, i * text.size(), text_of(text), i));
      expected += text;
    }
    while (r.disk.under_way() > 0)
      for (auto& c : r.disk.wait(1, long_enough)) REQUIRE(c.outcome);
    REQUIRE(*r.disk.read_small("/a", 1 << 20) == expected);
    REQUIRE(r.disk.read(r.file, 0, io_buffer::allocate(expected.size()), 1));
    auto back = answer_of(r.disk);
    REQUIRE(back.outcome);
    REQUIRE(text_in(back.buffer) == expected);
  }
}

TEST_CASE("DK-2 retries without progress end") {
  faulty_options options;
  options.interrupted = 1;
  rig r(options);
  r.open(true);
  REQUIRE(r.disk.write(r.file, 0, slot_of(r.ring, disk_block, 'x'), 1));
  auto done = answer_of(r.disk);
  REQUIRE_FALSE(done.outcome);
  CHECK(is_error(done.outcome, "EINTR"));
  CHECK_FALSE(r.disk.health(r.file));
}

TEST_CASE("DK-3 a failed write ends its file: the queued and the later fail with the first error") {
  faulty_options options;
  options.depth = 1;
  options.plan = {{fault_site::write, 2}};
  rig r(options);
  r.open(true);
  auto other = opened(r.disk, "/other", open_mode::create, true);
  for (uint64_t i = 0; i < 4; ++i)
    REQUIRE(r.disk.write(r.file, i * disk_block, slot_of(r.ring, disk_block, 'x'), i));
  REQUIRE(r.disk.write(other, 0, slot_of(r.ring, disk_block, 'y'), 9));
  const error fine(errc::none, "");
  std::map<uint64_t, error> answers;
  while (r.disk.under_way() > 0)
    for (auto& c : r.disk.wait(1, long_enough))
      answers[c.tag] = c.outcome ? fine : c.outcome.error();
  CHECK(answers[0] == fine);
  CHECK(is_error(answers[1], "EIO", "/a", 4096, 0));
  CHECK(answers[2] == answers[1]);
  CHECK(answers[3] == answers[1]);
  CHECK(answers[9] == fine);
  CHECK(r.disk.fdatasync(r.file, 5).error() == answers[1]);
  CHECK(r.disk.health(r.file).error().hint.find("dmesg") != std::string::npos);
  CHECK(r.store->syncs() == 0);
  CHECK(r.ring->counts().free == 6);
  CHECK(r.disk.fdatasync(other, 6));
}

TEST_CASE("DK-3 a failed fdatasync is never repeated: the kernel would say fine and have lost it") {
  faulty_options options;
  options.plan = {{fault_site::fdatasync, 1, fault_effect::fail, 28}};
  rig r(options);
  r.open(true);
  REQUIRE(r.disk.write(r.file, 0, slot_of(r.ring, disk_block, 'x'), 1));
  CHECK(answer_of(r.disk).outcome);
  REQUIRE(r.disk.fdatasync(r.file, 2));
  auto done = answer_of(r.disk);
  REQUIRE_FALSE(done.outcome);
  CHECK(is_error(done.outcome, "ENOSPC", "fdatasync", "/a"));
  CHECK(r.disk.fdatasync(r.file, 3).error() == done.outcome.error());
  CHECK(r.store->syncs() == 1);
}

TEST_CASE("fsyncgate: after a failed sync the next one says fine and the bytes may be lost") {
  auto store = crash_store::make();
  crash_store::node_id node = 0;
  REQUIRE(store->open("/a", open_mode::create, node) == 0);
  REQUIRE(store->sync_dir("/") == 0);
  REQUIRE(store->write(node, 0, as_bytes("precious")) == 8);
  CHECK(store->fail_sync_file(node, 5) == 5);
  CHECK(store->sync_file(node) == 0);
  bool lost = false, kept = false;
  auto images = crash_images(store, store->points());
  while (auto image = images.next()) {
    faulty_disk d(image, {});
    auto text = *d.read_small("/a", 100);
    (text == "precious" ? kept : lost) = true;
  }
  CHECK(lost);
  CHECK(kept);
}

TEST_CASE("a failed read is the read's alone") {
  faulty_options options;
  options.plan = {{fault_site::read, 1}};
  rig r(options);
  r.open(false);
  REQUIRE(r.disk.write(r.file, 0, text_of("abc"), 1));
  CHECK(answer_of(r.disk).outcome);
  REQUIRE(r.disk.read(r.file, 0, io_buffer::allocate(3), 2));
  CHECK_FALSE(answer_of(r.disk).outcome);
  CHECK(r.disk.health(r.file));
  REQUIRE(r.disk.read(r.file, 0, io_buffer::allocate(3), 3));
  CHECK(text_in(answer_of(r.disk).buffer) == "abc");
}

TEST_CASE(
    "DK-1 an answer that never comes: waits end, others are answered, the slot is never reused") {
  auto ring = test_ring(2);
  {
    faulty_options options;
    options.plan = {{fault_site::write, 1, fault_effect::lose}};
    faulty_disk d(crash_store::make(), options);
    auto file = opened(d, "/a", open_mode::create, true);
    REQUIRE(d.write(file, 0, slot_of(ring, disk_block, 'x'), 1));
    REQUIRE(d.write(file, disk_block, slot_of(ring, disk_block, 'y'), 2));
    auto done = d.wait(2, std::chrono::seconds(5));
    REQUIRE(done.size() == 1);
    CHECK(done[0].tag == 2);
    CHECK(d.now() == std::chrono::seconds(5));
    CHECK(d.under_way() == 1);
    d.wake();
    CHECK(d.wait(1, std::chrono::seconds(5)).empty());
    CHECK(d.now() == std::chrono::seconds(5));  // woken at once
    CHECK(d.fdatasync(file, 3).error().code == errc::bug);
    d.close(file);
  }
  CHECK(ring->counts() == slot_counts{1, 0, 0, 1, 1});
}

TEST_CASE("a slow disk takes the virtual clock's time, and a clock of others is left alone") {
  auto clock = std::make_shared<virtual_clock>();
  faulty_options options;
  options.clock = clock;
  options.bytes_per_second = 4096 * 10;
  options.latency = std::chrono::milliseconds(5);
  rig r(options);
  r.open(true);
  REQUIRE(r.disk.write(r.file, 0, slot_of(r.ring, disk_block, 'x'), 1));
  REQUIRE(r.disk.write(r.file, disk_block, slot_of(r.ring, disk_block, 'x'), 2));
  CHECK(r.disk.wait(1, std::chrono::milliseconds(104)).empty());
  CHECK(r.disk.wait(1, long_enough).size() == 1);
  CHECK(clock->now_ns == 105'000'000);
  CHECK(r.disk.wait(1, long_enough).size() == 1);
  CHECK(clock->now_ns == 205'000'000);

  options.wait_moves_clock = false;
  rig s(options);
  s.open(true);
  REQUIRE(s.disk.write(s.file, 0, slot_of(s.ring, disk_block, 'x'), 1));
  CHECK(s.disk.wait(1, long_enough).empty());
  CHECK(clock->now_ns == 205'000'000);
  clock->now_ns += 105'000'000;
  CHECK(s.disk.wait(1, long_enough).size() == 1);
}

namespace {

/// What of a disk's changes is left when its writer is lost at that time and nothing unsynced kept.
std::vector<dir_entry> left_at(const std::function<void(faulty_disk&)>& work, int64_t lost_ns,
                               std::chrono::nanoseconds latency, int64_t& ends_ns) {
  faulty_options options;
  options.writer = 7;
  options.name_latency = std::chrono::nanoseconds(10);
  options.latency = latency;
  auto store = crash_store::make();
  faulty_disk d(store, options);
  work(d);
  ends_ns = d.now().count();
  store->lose(8, 0, [](auto) { return false; });  // somebody else
  store->lose(7, lost_ns, [](auto) { return true; });
  return *faulty_disk(store, {}).list("/");
}

}  // namespace

TEST_CASE("FD-3 names take time, and are done when it is over") {
  const auto work = [](faulty_disk& d) {
    REQUIRE(d.make_dir("/a"));                                             // done at 10
    REQUIRE(d.rename("/a", "/b"));                                         // 20
    REQUIRE(*d.rename_to_free("/b", "/c"));                                // 30
    REQUIRE(d.write_small("/f", "f", durable::yes));                       // 40, its sync at 45
    REQUIRE(d.exchange("/c", "/f"));                                       // 55
    REQUIRE(d.sync_dir("/"));                                              // 65
    REQUIRE(d.write_small("/f/g", "", durable::no));                       // 75
    REQUIRE(d.remove_folder("/f", {folder_kind::checkpoint, {}, {"g"}}));  // 85 and 95
  };
  const dir_entry c_file{"c", false, 1}, c{"c", true, 0}, f{"f", false, 1};
  const std::map<int64_t, std::vector<dir_entry>> expected{{9, {}},
                                                           {10, {{"a", true, 0}}},
                                                           {20, {{"b", true, 0}}},
                                                           {30, {c}},
                                                           {39, {c}},
                                                           {40, {c, f}},
                                                           {54, {c, f}},
                                                           {55, {c_file, {"f", true, 0}}},
                                                           {94, {c_file, {"f", true, 0}}},
                                                           {95, {c_file}}};
  for (const auto& [at_ns, names] : expected) {
    CAPTURE(at_ns);
    int64_t ends_ns = 0;
    CHECK(left_at(work, at_ns, std::chrono::nanoseconds(5), ends_ns) == names);
    CHECK(ends_ns == 95);
  }
}

TEST_CASE("FD-3 what write_small and sync_dir sync is durable when they are over") {
  faulty_options options;
  options.writer = 7;
  options.name_latency = std::chrono::nanoseconds(10);
  options.latency = std::chrono::nanoseconds(5);
  auto store = crash_store::make();
  faulty_disk d(store, options);
  REQUIRE(d.write_small("/f", "f", durable::yes));
  REQUIRE(d.sync_dir("/"));
  CHECK(store->durable("/f", 25));
  CHECK_FALSE(store->durable("/f", 24));
  store->lose(7, 14, [](auto) { return false; });
  CHECK(faulty_disk(store, {}).list("/")->empty());
}

TEST_CASE("FD-3 an operation on a file is done when its answer is due") {
  for (const bool late : {false, true}) {
    faulty_options options;
    options.writer = 7;
    options.latency = std::chrono::nanoseconds(100);
    options.bytes_per_second = 1e9;
    rig r(options);
    r.open(false);
    REQUIRE(r.store->sync_dir("/") == 0);
    REQUIRE(r.disk.write(r.file, 0, text_of("0123456789"), 1));  // till 110
    CHECK(r.disk.now().count() == 0);
    SUBCASE("a write") {
      r.store->lose(7, late ? 109 : 110, [](auto) { return true; });
      CHECK(r.disk.read_small("/a", 10)->size() == (late ? 0 : 10));
    }
    SUBCASE("a sync") {
      CHECK(answer_of(r.disk).outcome);
      REQUIRE(r.disk.fdatasync(r.file, 2));  // till 210
      r.store->lose(7, late ? 209 : 210, [](auto) { return false; });
      CHECK(r.disk.read_small("/a", 10)->size() == (late ? 0 : 10));
    }
  }
}

TEST_CASE("FD-2 a simulation's own clock is asked and moved, never back") {
  struct simulated final : virtual_clock {
    int64_t now() const override { return at_ns; }
    void move_to(int64_t ns) override { moves.push_back(at_ns = ns); }
    int64_t at_ns = 1000;
    std::vector<int64_t> moves;
  };
  virtual_clock plain;
  plain.move_to(5);
  plain.move_to(3);
  CHECK(plain.now() == 5);
  const auto clock = std::make_shared<simulated>();
  faulty_options options;
  options.clock = clock;
  options.name_latency = std::chrono::nanoseconds(7);
  options.latency = std::chrono::nanoseconds(20);
  rig r(options);
  REQUIRE(r.disk.make_dir("/d"));
  r.open(false);
  REQUIRE(r.disk.write(r.file, 0, text_of("x"), 1));
  CHECK(answer_of(r.disk).outcome);
  CHECK(clock->moves == std::vector<int64_t>{1007, 1027});
  CHECK(clock->now_ns == 0);
}

TEST_CASE("a disk that fills up: what fits is written, then ENOSPC ends the file") {
  faulty_options options;
  rig r(options, 3 * disk_block + 100);
  r.open(true);
  REQUIRE(r.disk.write(r.file, 0, slot_of(r.ring, 2 * disk_block, 'x'), 1));
  CHECK(answer_of(r.disk).outcome);
  REQUIRE(r.disk.write(r.file, 2 * disk_block, slot_of(r.ring, 2 * disk_block, 'x'), 2));
  auto full = answer_of(r.disk);
  REQUIRE_FALSE(full.outcome);
  CHECK(is_error(full.outcome, "ENOSPC"));
  CHECK(full.outcome.error().hint.find("free space") != std::string::npos);
  CHECK_FALSE(r.disk.health(r.file));
  CHECK_FALSE(r.disk.open("/b", {open_mode::create, true, disk_block}));
}

TEST_CASE("planned faults strike the operations on names, too") {
  faulty_options options;
  options.plan = {{fault_site::make_dir, 2},
                  {fault_site::rename, 1},
                  {fault_site::sync_dir, 1, fault_effect::fail, 5, 0, 2},
                  {fault_site::open, 1, fault_effect::fail, 13}};
  faulty_disk d(crash_store::make(), options);
  CHECK(d.make_dir("/a"));
  CHECK_FALSE(d.make_dir("/b"));
  CHECK_FALSE(d.rename("/a", "/b"));
  CHECK(d.rename("/a", "/b"));
  CHECK_FALSE(d.sync_dir("/"));
  CHECK_FALSE(d.sync_dir("/"));
  CHECK(d.sync_dir("/"));
  CHECK(d.open("/f", {open_mode::create, false, 0}).error().code == errc::permission);
}

TEST_CASE("FD-1 the same seed gives the same answers") {
  auto run = [](uint64_t seed) {
    faulty_options options;
    options.seed = seed;
    options.short_move = options.interrupted = options.write_error = 0.2;
    options.reorder = true;
    rig r(options);
    r.open(true);
    std::string told;
    for (uint64_t i = 0; i < 6; ++i)
      if (!r.disk.write(r.file, i * 16384, slot_of(r.ring, 16384, 'x'), i)) break;
    while (r.disk.under_way() > 0)
      for (auto& c : r.disk.wait(1, long_enough))
        told += std::to_string(c.tag) + (c.outcome ? "+" : "-");
    for (size_t i = 0; i < r.store->points(); ++i) told += "|" + r.store->text(i);
    return told;
  };
  CHECK(run(3) == run(3));
  CHECK(run(3) != run(4));
}

TEST_CASE("real disks: a full file system ends the file with ENOSPC") {
  scratch dir;
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: needs root to mount a small tmpfs");
    return;
  }
  if (::mount("tmpfs", dir.path.c_str(), "tmpfs", 0, "size=64k") != 0) {
    MESSAGE("SKIPPED: root may not mount a tmpfs here");
    return;
  }
  for (auto backend : {disk_backend::uring, disk_backend::threads}) {
    disk_options options;
    options.backend = backend;
    auto d = open_disk(options);
    if (!d) continue;
    CAPTURE((*d)->facts().backend);
    auto ring = test_ring(6);
    auto file = opened(**d, dir / "a", open_mode::replace);
    for (uint64_t i = 0; i < 6; ++i)
      REQUIRE((*d)->write(file, i * 16384, slot_of(ring, 16384, 'x'), i));
    int refused = 0;
    while ((*d)->under_way() > 0)
      for (auto& c : (*d)->wait(1, long_enough)) {
        if (c.outcome) continue;
        ++refused;
        CHECK(is_error(c.outcome, "ENOSPC"));
      }
    CHECK(refused > 0);
    CHECK_FALSE((*d)->fdatasync(file, 9));
    CHECK(ring->counts().free == 6);
    (*d)->close(file);
    CHECK_FALSE((*d)->open(dir / "b", {open_mode::create, false, 1 << 20}));
    CHECK((*d)->list(dir.path)->size() == 1);
    std::filesystem::remove(dir / "a");
  }
  CHECK(::umount(dir.path.c_str()) == 0);
}

TEST_CASE("faulty disk: whose process has ended gets nothing done any more") {
  auto store = crash_store::make();
  faulty_options options;
  const auto ended = std::make_shared<bool>(false);
  options.ended = ended;
  faulty_disk d(store, options);
  REQUIRE(d.make_dir("/a"));
  REQUIRE(d.write_small("/a/f", "f", durable::yes));
  const auto file = d.open("/a/g", {open_mode::create});
  REQUIRE(file);
  *ended = true;
  const auto changes = store->points();
  CHECK_FALSE(d.make_dir("/b"));
  CHECK_FALSE(d.rename("/a", "/b"));
  CHECK_FALSE(d.rename_to_free("/a", "/b"));
  CHECK_FALSE(d.exchange("/a", "/a"));
  CHECK_FALSE(d.write_small("/a/f", "g", durable::no));
  CHECK_FALSE(d.sync_dir("/a"));
  CHECK_FALSE(d.remove_folder("/a", {folder_kind::checkpoint, {}, {"f", "g"}}));
  CHECK_FALSE(d.open("/a/h", {open_mode::create}));
  REQUIRE(d.write(*file, 0, text_of("x"), 1));
  CHECK_FALSE(answer_of(d).outcome);
  CHECK(store->points() == changes);
}
