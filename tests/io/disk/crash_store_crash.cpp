// The crash model against a protocol small enough to see through: with all its syncs every crash
// leaves the newest acknowledged state or a newer complete one; without any one of them, some crash
// does not. A model that lets a missing sync pass would be worth nothing.
#include <charconv>

#include "io/disk/shard_writer.hpp"
#include "io/file.hpp"
#include "tests/io/disk/backends.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

constexpr size_t state_bytes = 3 * disk_block;

std::string state_of(int step) {
  return std::string(state_bytes, static_cast<char>('a' + step));
}

/// Saves steps 1..n, each: folder ckpt-k.tmp, its file through a shard_writer, sync, sync of the
/// folder, rename of the folder to ckpt-k, sync of the root, "acknowledged k".
void save_steps(const std::shared_ptr<crash_store>& store, int n) {
  faulty_disk d(store, {});
  auto ring = test_ring(2, disk_block);
  for (int step = 1; step <= n; ++step) {
    auto name = "/ckpt-" + std::to_string(step);
    REQUIRE(d.make_dir(name + ".tmp"));
    shard_writer::options how;
    how.name = name + ".tmp/rank0";
    how.slot_bytes = ring->slot_bytes();
    how.stream_bytes = state_bytes;
    auto w = shard_writer::create(d, how);
    REQUIRE(w);
    for (uint64_t piece = 0; piece < 3; ++piece) {
      auto lease = ring->try_take();
      REQUIRE(lease);
      std::memset(lease->bytes().data(), 'a' + step, disk_block);
      REQUIRE((*w)->filled(std::move(*lease), piece, disk_block));
      for (auto& c : d.wait(1, long_enough)) (*w)->take(c);
    }
    REQUIRE((*w)->append_tail(as_bytes("end")));
    while (d.under_way() > 0)
      for (auto& c : d.wait(1, long_enough)) (*w)->take(c);
    REQUIRE((*w)->now() == shard_writer::state::durable);
    REQUIRE(d.sync_dir(name + ".tmp"));
    REQUIRE(d.rename(name + ".tmp", name));
    REQUIRE(d.sync_dir("/"));
    store->mark("acknowledged " + std::to_string(step));
  }
}

/// The newest committed step on a disk, 0 for none, -1 if its bytes are wrong.
int restored(disk& d) {
  int newest = 0;
  auto entries = d.list("/");
  REQUIRE(entries);
  for (const auto& entry : *entries) {
    if (entry.name.ends_with(".tmp")) continue;
    int step = 0;
    std::from_chars(entry.name.data() + 5, entry.name.data() + entry.name.size(), step);
    newest = std::max(newest, step);
  }
  if (newest == 0) return 0;
  auto text = d.read_small("/ckpt-" + std::to_string(newest) + "/rank0", 1 << 20);
  auto whole = state_of(newest) + std::string(disk_block - 3, '\0') + "end";
  return text && *text == whole ? newest : -1;
}

struct verdict {
  size_t images = 0;
  size_t wrong = 0;
  std::string first;
};

verdict crash_everywhere(const std::shared_ptr<crash_store>& store) {
  verdict v;
  for (size_t point = 0; point <= store->points(); ++point) {
    auto marks = store->marks_before(point);
    int acknowledged = static_cast<int>(marks.size());
    auto images = crash_images(store, point);
    while (auto image = images.next()) {
      ++v.images;
      faulty_disk d(image, {});
      int found = restored(d);
      if (found >= acknowledged) continue;
      if (v.wrong++ == 0) v.first = "before \"" + store->text(point) + "\", kept: " + images.kept();
    }
  }
  return v;
}

}  // namespace

TEST_CASE("a crash anywhere in a commit leaves the newest acknowledged state, or a newer one") {
  auto store = crash_store::make();
  save_steps(store, 2);
  auto v = crash_everywhere(store);
  CAPTURE(v.first);
  CHECK(v.wrong == 0);
  CHECK(v.images > 400);
  CHECK(store->syncs() == 6);
  MESSAGE(v.images << " images of " << store->points() << " points");
}

TEST_CASE("without any one sync of a commit some crash loses what was acknowledged") {
  for (size_t nth = 1; nth <= 6; ++nth) {
    CAPTURE(nth);
    auto store = crash_store::make();
    store->ignore_sync(nth);
    save_steps(store, 2);
    auto v = crash_everywhere(store);
    CHECK(v.wrong > 0);
    MESSAGE("without sync " << nth << ": " << v.wrong << " of " << v.images << " images wrong, "
                            << v.first);
  }
}

TEST_CASE("CS-1 what is not synced may be kept or lost, each alone, and what is synced is kept") {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  REQUIRE(d.write_small("/a", "old", durable::yes));
  REQUIRE(d.sync_dir("/"));
  REQUIRE(d.write_small("/b", "new", durable::no));
  auto images = crash_images(store, store->points());
  CHECK(images.exhaustive());
  CHECK(images.pieces() == 2);  // the name and the bytes
  std::map<std::string, int> seen;
  while (auto image = images.next()) {
    faulty_disk after(image, {});
    CHECK(*after.read_small("/a", 10) == "old");
    auto b = after.read_small("/b", 10);
    ++seen[b ? "[" + *b + "]" : "none"];
  }
  CHECK(seen == std::map<std::string, int>{{"none", 2}, {"[]", 1}, {"[new]", 1}});
}

TEST_CASE("a long write may be torn, a reserved length may be lost or full of zeros") {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  auto file = d.open("/a", {open_mode::create, true, 2 * disk_block});
  REQUIRE(file);
  REQUIRE(d.sync_dir("/"));
  REQUIRE(d.write(*file, 0, text_of(std::string(2 * disk_block, 'x')), 1));
  CHECK(answer_of(d).outcome);
  auto images = crash_images(store, store->points());
  CHECK(images.pieces() == 3);
  std::map<std::string, int> seen;
  while (auto image = images.next()) {
    auto text = *faulty_disk(image, {}).read_small("/a", 1 << 20);
    std::string shape = std::to_string(text.size() / disk_block);
    for (size_t at = 0; at < text.size(); at += disk_block) shape += text[at] == 'x' ? "x" : "0";
    ++seen[shape];
  }
  CHECK(seen == std::map<std::string, int>{
                    {"0", 1}, {"1x", 1}, {"200", 1}, {"20x", 2}, {"2x0", 1}, {"2xx", 2}});
}

TEST_CASE("a rename between folders is one event, durable when both folders were synced") {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  REQUIRE(d.make_dir("/p"));
  REQUIRE(d.make_dir("/q"));
  REQUIRE(d.write_small("/p/f", "f", durable::yes));
  REQUIRE(d.sync_dir("/p"));
  REQUIRE(d.sync_dir("/"));
  auto places = [&] {
    std::map<std::string, int> seen;
    auto images = crash_images(store, store->points());
    while (auto image = images.next()) {
      faulty_disk after(image, {});
      auto p = after.read_small("/p/f", 9), q = after.read_small("/q/f", 9);
      ++seen[std::string(p ? "p" : "") + (q ? "q" : "")];
    }
    return seen;
  };
  REQUIRE(d.rename("/p/f", "/q/f"));
  CHECK(places() == std::map<std::string, int>{{"p", 1}, {"q", 1}});
  REQUIRE(d.sync_dir("/q"));
  CHECK(places() == std::map<std::string, int>{{"p", 1}, {"q", 1}});
  REQUIRE(d.sync_dir("/p"));
  CHECK(places() == std::map<std::string, int>{{"q", 1}});
}

TEST_CASE("many unsynced pieces are sampled: none, all, each alone, all but each, and by random") {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  for (int i = 0; i < 20; ++i) REQUIRE(d.make_dir("/d" + std::to_string(i)));
  auto count = [&](uint64_t seed) {
    std::multiset<size_t> sizes;
    std::string all;
    image_limits limits;
    limits.seed = seed;
    auto images = crash_images(store, store->points(), limits);
    CHECK_FALSE(images.exhaustive());
    while (auto image = images.next()) {
      sizes.insert(faulty_disk(image, {}).list("/")->size());
      all += images.kept() + "\n";
    }
    CHECK(sizes.size() == 128);
    CHECK(sizes.count(0) >= 1);
    CHECK(sizes.count(20) >= 1);
    CHECK(sizes.count(1) >= 20);
    CHECK(sizes.count(19) >= 20);
    return all;
  };
  CHECK(count(1) == count(1));
  CHECK(count(1) != count(2));
}

TEST_CASE("an image goes on as a file system of its own") {
  auto store = crash_store::make();
  save_steps(store, 1);
  auto images = crash_images(store, store->points());
  auto image = images.next();
  REQUIRE(image);
  CHECK_FALSE(images.next());  // nothing was unsynced
  faulty_disk d(image, {});
  CHECK(restored(d) == 1);
  REQUIRE(d.rename("/ckpt-1", "/ckpt-2"));
  auto later = crash_images(image, image->points());
  size_t n = 0;
  while (later.next()) ++n;
  CHECK(n == 2);
}
