// Copies: byte for byte or not at all; damaged, vanishing and replaced sources; disks that fail.
#include "io/checkpoint/copy.hpp"

#include <sys/resource.h>

#include <doctest/doctest.h>

#include "io/checkpoint/folder_claim.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/copying.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

/// Two folders, the first with a checkpoint of 2 x 2 ranks.
struct tiers {
  scratch where;
  fs::path first = where / "first", second = where / "second", made;
  explicit tiers(sample::made what = {2, 2, 120, 0, 3, 2.5}) {
    fs::create_directories(second);
    made = sample::make(first, what);
  }
};

/// A second tier in memory.
struct memory_tier {
  fs::path dir = "/second";
  faulty_disk disk{crash_store::make(), {}};
  memory_tier() { REQUIRE(disk.make_dir(dir)); }
  std::set<std::string> names() {
    std::set<std::string> out;
    auto found = disk.list(dir);
    REQUIRE(found);
    for (const auto& e : *found) out.insert(e.name);
    return out;
  }
};

/// A folder whose open files cannot be read any more once it has turned (as a network's file system
/// has it when they are removed elsewhere), and which is then another folder, or none.
class turning_source final : public file_source {
 public:
  turning_source(fs::path before, fs::path after)
      : before_(folder_source(local_files(), std::move(before))),
        after_(folder_source(local_files(), std::move(after))) {}
  result<std::shared_ptr<const source_file>> open(const std::string& name) const override {
    if (*turned) return after_->open(name);
    TROUPE_TRY(file, before_->open(name));
    return std::shared_ptr<const source_file>(std::make_shared<stale>(file, turned));
  }
  std::shared_ptr<bool> turned = std::make_shared<bool>(false);

 private:
  struct stale final : source_file {
    stale(std::shared_ptr<const source_file> f, std::shared_ptr<bool> t)
        : file(std::move(f)), turned(std::move(t)) {}
    uint64_t size() const noexcept override { return file->size(); }
    status read_at(uint64_t offset, std::span<std::byte> out) const override {
      if (*turned) return error{errc::io, "stale file handle"};
      return file->read_at(offset, out);
    }
    std::shared_ptr<const source_file> file;
    std::shared_ptr<bool> turned;
  };
  std::shared_ptr<const file_source> before_, after_;
};

void check_same(const fs::path& one, const fs::path& other) {
  CHECK(sample::names_in(one) == sample::names_in(other));
  for (const auto& name : sample::names_in(one)) {
    CAPTURE(name);
    if (name == mark_file) continue;  // of the folder, not of the checkpoint
    CHECK(sample::bytes_of(one / name) == sample::bytes_of(other / name));
  }
}

}  // namespace

TEST_CASE("CY-2: a copy has the same files byte for byte, and verifies") {
  for (auto [pipeline, data] : {std::pair{1, 1}, {4, 1}, {1, 3}, {2, 2}}) {
    CAPTURE(pipeline);
    CAPTURE(data);
    tiers t({pipeline, data, 120, 0, 3, 2.5});
    auto done = sample::copy(t.made, t.second);
    REQUIRE_MESSAGE(done, (done ? "" : render(done.error())));
    CHECK(*done == t.second / "step-00000120");
    check_same(t.made, *done);
    CHECK(sample::names_in(t.second) == std::set<std::string>{"step-00000120"});
    auto r = reader::open(*done);
    REQUIRE(r);
    CHECK(r->verify()->damages.empty());
  }
}

TEST_CASE("copy: every disk takes it") {
  tiers t;
  const auto same = [&](disk& d, const fs::path& dir) {
    const auto from = std::make_shared<sample::memory_source>(t.made);
    auto done = sample::copy_by(d, from, dir);
    REQUIRE_MESSAGE(done, (done ? "" : render(done.error())));
    for (const auto& [name, bytes] : from->files) {
      CAPTURE(name);
      auto copied = d.read_small(*done / name, 64 << 20);
      REQUIRE(copied);
      CHECK(std::ranges::equal(as_bytes(*copied), bytes));
    }
  };
  for (auto backend : {disk_backend::automatic, disk_backend::threads}) {
    auto d = open_disk({backend, 2, 2, {}});
    REQUIRE(d);
    same(**d, t.where / (backend == disk_backend::threads ? "first" : "second"));
  }
  faulty_options rough;
  rough.short_move = 0.3;
  rough.interrupted = 0.2;
  rough.reorder = true;
  faulty_disk d(crash_store::make(), rough);
  REQUIRE(d.make_dir("/t"));
  same(d, "/t");
}

TEST_CASE("copy: a pin, and whatever else no manifest names, stays where it is") {
  tiers t;
  REQUIRE(write_atomic(t.made / pin_file, "kept by a person"));
  auto done = sample::copy(t.made, t.second);
  REQUIRE(done);
  CHECK(fs::exists(t.made / pin_file));
  CHECK_FALSE(fs::exists(*done / pin_file));
}

TEST_CASE("CY-1 CY-3: one damaged bit anywhere is named, and nothing is copied") {
  tiers t;
  memory_tier to;
  const auto whole = std::make_shared<sample::memory_source>(t.made);
  size_t refused = 0;
  for (const auto& [name, bytes] : whole->files)
    for (size_t at = 0; at < bytes.size(); at += std::max<size_t>(1, bytes.size() / 23)) {
      CAPTURE(name);
      CAPTURE(at);
      auto spoiled = std::make_shared<sample::memory_source>(*whole);
      sample::flip(spoiled->files[name][at], static_cast<unsigned>(at));
      auto done = sample::copy_by(to.disk, spoiled, to.dir);
      REQUIRE_FALSE(done);
      CHECK(done.error().code != errc::not_found);
      CHECK(done.error().code != errc::bug);
      if (name != manifest_file) CHECK(mentions(done.error(), name));
      CHECK(to.names().empty());
      ++refused;
    }
  CHECK(refused > 150);
  CHECK(sample::copy_by(to.disk, whole, to.dir));
}

TEST_CASE("CY-3: a copy that is given up at any slot leaves nothing behind") {
  tiers t;
  auto d = open_disk({disk_backend::threads, 2, 2, {}});
  REQUIRE(d);
  for (int slots = 0; slots < 1000; ++slots) {
    CAPTURE(slots);
    auto copy = copier::begin(**d, folder_source(local_files(), t.made), t.second);
    REQUIRE(copy);
    CHECK(sample::names_in(t.second) == std::set<std::string>{"step-00000120.e3.partial"});
    for (int i = 0; i < slots && !(*copy)->finished(); ++i) REQUIRE((*copy)->advance());
    const bool done = (*copy)->finished();
    copy->reset();
    if (done) {
      CHECK(slots > 10);
      break;
    }
    CHECK(fs::is_empty(t.second));
  }
  CHECK(sample::names_in(t.second) == std::set<std::string>{"step-00000120"});
}

TEST_CASE("copy: what an attempt before left under the name is replaced") {
  tiers t;
  const auto partial = t.second / partial_name(120, 3);
  fs::create_directories(partial);
  REQUIRE(write_atomic(partial / "rank-00000.shard", "half"));
  const auto refused = sample::copy(t.made, t.second);
  REQUIRE_FALSE(refused);  // without a mark it is another's
  CHECK(refused.error().code == errc::permission);
  CHECK(fs::exists(partial / "rank-00000.shard"));
  REQUIRE(write_atomic(partial / mark_file, partial_mark("tiny", {"stale"})));
  REQUIRE(write_atomic(partial / "stale", "x"));
  auto done = sample::copy(t.made, t.second);
  REQUIRE_MESSAGE(done, (done ? "" : render(done.error())));
  check_same(t.made, *done);
}

TEST_CASE("copy: a step that is there already is exchanged whole") {
  tiers t;
  REQUIRE(sample::copy(t.made, t.second));
  fs::remove_all(t.made);
  t.made = sample::make(t.first, {1, 2, 120, 7, 4, 2.5});  // the step again, by another epoch
  CHECK_FALSE(holds_copy(local_files(), t.second, *folder_source(local_files(), t.made)));
  auto done = sample::copy(t.made, t.second);
  REQUIRE(done);
  check_same(t.made, *done);
  CHECK(sample::names_in(t.second) == std::set<std::string>{"step-00000120"});
  CHECK(holds_copy(local_files(), t.second, *folder_source(local_files(), t.made)));
}

TEST_CASE("CY-4: a source that is removed or replaced while it is copied is not found") {
  tiers t;
  sample::make(t.where / "other", {2, 2, 120, 9, 4, 2.5});
  for (const std::string then : {"nowhere", "other", "first"}) {
    CAPTURE(then);
    size_t cut = 0;
    for (int slots = 0;; ++slots) {
      CAPTURE(slots);
      memory_tier to;
      const auto from = std::make_shared<turning_source>(t.made, t.where / then / "step-00000120");
      auto copy = copier::begin(to.disk, from, to.dir);
      REQUIRE(copy);
      for (int i = 0; i < slots && !(*copy)->finished(); ++i) REQUIRE((*copy)->advance());
      if ((*copy)->finished()) break;
      *from->turned = true;
      auto outcome = (*copy)->advance();
      if (outcome && (*copy)->finished()) continue;  // nothing was left to read
      REQUIRE_FALSE(outcome);
      // The same checkpoint is still there: then it is the disk that fails.
      CHECK(outcome.error().code == (then == "first" ? errc::io : errc::not_found));
      copy->reset();
      CHECK(to.names().empty());
      ++cut;
    }
    CHECK(cut > 10);
  }
}

TEST_CASE(
    "copy: files that were open stay readable when retention removes them: the copy is whole") {
  tiers t;
  const sample::memory_source whole(t.made);
  auto d = open_disk({disk_backend::threads, 2, 2, {}});
  REQUIRE(d);
  auto copy = copier::begin(**d, folder_source(local_files(), t.made), t.second);
  REQUIRE(copy);
  REQUIRE((*copy)->advance());
  fs::remove_all(t.made);
  while (!(*copy)->finished()) REQUIRE((*copy)->advance());
  for (const auto& [name, bytes] : whole.files)
    CHECK(sample::bytes_of((*copy)->folder() / name) == bytes);
}

TEST_CASE("CY-4: a source that is gone before the beginning is not found") {
  tiers t;
  fs::remove_all(t.made);
  auto done = sample::copy(t.made, t.second);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::not_found);
  CHECK(fs::is_empty(t.second));
  tiers half;
  fs::remove(half.made / "rank-00003.shard");
  done = sample::copy(half.made, half.second);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::bad_data);  // the manifest is there: damage
  CHECK(is_error(done, file_missing, "rank-00003.shard"));
}

TEST_CASE("copy: a target that is gone is a failure, not a source that is") {
  tiers t;
  auto done = sample::copy(t.made, t.where / "absent");
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::io);
  CHECK(mentions(done.error(), "absent"));
}

TEST_CASE("CY-3: a disk that fails at any operation leaves the older copy or nothing") {
  tiers t;
  const auto from = std::make_shared<sample::memory_source>(t.made);
  size_t failed = 0;
  for (auto site :
       {fault_site::open, fault_site::write, fault_site::fdatasync, fault_site::make_dir,
        fault_site::rename, fault_site::list, fault_site::sync_dir, fault_site::write_small})
    for (int nth = 1; nth < 100; ++nth) {
      CAPTURE(static_cast<int>(site));
      CAPTURE(nth);
      auto store = crash_store::make();
      faulty_disk before(store, {});
      REQUIRE(before.make_dir("/t"));
      faulty_disk d(store, {});
      d.plan({site, nth, fault_effect::fail, 28, 0, 1});  // ENOSPC
      auto done = sample::copy_by(d, from, "/t");
      auto found = before.list("/t");
      REQUIRE(found);
      if (done) {
        CHECK(nth > 1);
        break;
      }
      ++failed;
      CHECK(done.error().code == errc::io);
      CHECK(is_error(done, "ENOSPC"));
      // The last sync may fail after the rename: then it is there, and whole.
      for (const auto& e : *found) CHECK(e.name == "step-00000120");
      CHECK((found->empty() || site == fault_site::sync_dir));
    }
  CHECK(failed > 20);
}

TEST_CASE("copy: a file too long for the limit is an error with a hint, and nothing is left") {
  tiers t;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit tight{8192, before.rlim_max};
  auto d = open_disk({disk_backend::threads, 2, 2, {}});  // ignores SIGXFSZ from now on
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  auto done = sample::copy_by(**d, folder_source(local_files(), t.made), t.second);
  ::setrlimit(RLIMIT_FSIZE, &before);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::io);
  CHECK(done.error().hint.find("ulimit") != std::string::npos);
  CHECK(fs::is_empty(t.second));
}

TEST_CASE("holds_copy: the same checkpoint, with all its files") {
  tiers t;
  const auto from = folder_source(local_files(), t.made);
  CHECK_FALSE(holds_copy(local_files(), t.second, *from));
  REQUIRE(sample::copy(t.made, t.second));
  CHECK(holds_copy(local_files(), t.second, *from));
  CHECK(holds_copy(local_files(), t.second,
                   *folder_source(local_files(), t.second / "step-00000120")));
  fs::resize_file(t.second / "step-00000120/rank-00001.shard", 4096);
  CHECK_FALSE(holds_copy(local_files(), t.second, *from));
  CHECK_FALSE(
      holds_copy(local_files(), t.second, *folder_source(local_files(), t.where / "absent")));
}
