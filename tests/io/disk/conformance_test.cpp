// What every disk promises, asked of each: io_uring, threads, and the faulty one without faults.
#include <csignal>
#include <cstddef>
#include <thread>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/io/disk/backends.hpp"

#include "tests/errors.hpp"
#include "tests/io/reserves.hpp"

using namespace troupe;
using namespace troupe::io;

TEST_CASE("every disk: slots written in any order are the file, past the page cache") {
  each_disk([](disk& d, const auto& dir, const auto& ring) {
    auto file = opened(d, dir / "a", open_mode::create, true);
    size_t bytes = ring->slot_bytes();
    for (int i : {3, 0, 2, 1, 4})
      REQUIRE(d.write(file, static_cast<uint64_t>(i) * bytes,
                      slot_of(ring, bytes, static_cast<char>('a' + i)), 100 + i));
    CHECK(ring->counts().writing == 5);
    size_t seen = 0;
    while (d.under_way() > 0)
      for (auto& c : d.wait(1, long_enough)) {
        ++seen;
        CHECK(c.outcome);
        CHECK(c.op == disk_op::write);
        CHECK(c.file == file);
        CHECK(c.bytes == bytes);
        CHECK(c.offset == (c.tag - 100) * bytes);
      }
    CHECK(seen == 5);
    CHECK(ring->counts().free == 6);
    REQUIRE(d.fdatasync(file, 7));
    auto synced = answer_of(d);
    CHECK(synced.outcome);
    CHECK(synced.tag == 7);
    std::string expected;
    for (char c = 'a'; c <= 'e'; ++c) expected += std::string(bytes, c);
    CHECK(*d.read_small(dir / "a", expected.size()) == expected);
    d.close(file);

    file = opened(d, dir / "a", open_mode::read, true);
    REQUIRE(d.read(file, 3 * bytes, slot_of(ring, bytes, 0), 1));
    auto read = answer_of(d);
    CHECK(read.outcome);
    CHECK(text_in(read.buffer) == std::string(bytes, 'd'));
    CHECK(ring->counts().filled == 1);  // the slot is the completion's owner's now
    d.close(file);
  });
}

TEST_CASE("every disk: many more operations than its depth are all answered") {
  each_disk(
      [](disk& d, const auto& dir, const auto&) {
        auto file = opened(d, dir / "a", open_mode::create);
        for (uint64_t i = 0; i < 200; ++i) REQUIRE(d.write(file, 3 * i, text_of("xyz"), i));
        std::vector<int> seen(200);
        std::atomic<bool> stop{false};
        std::thread waker([&] {  // wake() never loses or doubles an answer
          while (!stop) d.wake();
        });
        while (d.under_way() > 0)
          for (auto& c : d.wait(50, long_enough)) ++seen[c.tag];
        stop = true;
        waker.join();
        CHECK(seen == std::vector<int>(200, 1));
        CHECK(d.read_small(dir / "a", 600)->size() == 600);
      },
      2);
}

TEST_CASE("every disk: waiting with nothing under way, or for more than can come, ends at once") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    CHECK(d.wait(1, long_enough).empty());
    auto file = opened(d, dir / "a", open_mode::create);
    REQUIRE(d.write(file, 0, text_of("x"), 1));
    CHECK(d.wait(100, long_enough).size() == 1);
    d.wake();
    CHECK(d.wait(1, long_enough).empty());
  });
}

TEST_CASE("every disk: what cannot be right is refused at once and the slot comes back") {
  each_disk([](disk& d, const auto& dir, const auto& ring) {
    auto file = opened(d, dir / "a", open_mode::create, true);
    size_t bytes = ring->slot_bytes();
    if (d.direct(file)) {
      CHECK(d.write(file, 100, slot_of(ring, bytes, 'x'), 1).error().code == errc::bug);
      CHECK(d.write(file, 0, slot_of(ring, 100, 'x'), 1).error().code == errc::bug);
    }
    auto too_far = uint64_t{1} << 63;
    CHECK(d.write(file, too_far - bytes, slot_of(ring, bytes, 'x'), 1).error().code == errc::bug);
    CHECK(d.read(file, too_far, slot_of(ring, bytes, 'x'), 1).error().code == errc::bug);
    CHECK(d.write(file, 0, io_buffer(), 1).error().code == errc::bug);
    // DK-4
    REQUIRE(d.write(file, 0, slot_of(ring, bytes, 'x'), 1));
    CHECK(d.fdatasync(file, 2).error().code == errc::bug);
    CHECK(answer_of(d).outcome);
    REQUIRE(d.fdatasync(file, 2));
    CHECK(answer_of(d).outcome);
    CHECK(d.health(file));  // nothing of this was the file's fault
    d.close(file);
    CHECK(d.write(file, 0, slot_of(ring, bytes, 'x'), 1).error().code == errc::bug);
    CHECK(d.read(file_id{12345}, 0, slot_of(ring, bytes, 'x'), 1).error().code == errc::bug);
    CHECK(ring->counts().free == 6);
  });
}

TEST_CASE("every disk: a file closed with operations under way answers them all") {
  each_disk([](disk& d, const auto& dir, const auto& ring) {
    auto file = opened(d, dir / "a", open_mode::create, true);
    for (uint64_t i = 0; i < 6; ++i)
      REQUIRE(d.write(file, i * ring->slot_bytes(), slot_of(ring, ring->slot_bytes(), 'x'), i));
    d.close(file);
    CHECK(d.read(file, 0, text_of("1"), 1).error().code == errc::bug);
    auto done = d.wait(6, long_enough);
    CHECK(done.size() == 6);
    for (auto& c : done) CHECK(c.outcome);
    CHECK(d.read_small(dir / "a", 1 << 20)->size() == 6 * ring->slot_bytes());
  });
}

TEST_CASE("every disk: a read beyond the end is an error of its own, not of the file") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.write_small(dir / "a", "0123456789", durable::yes));
    auto file = opened(d, dir / "a", open_mode::read);
    REQUIRE(d.read(file, 4, io_buffer::allocate(6), 1));
    auto whole = answer_of(d);
    CHECK(whole.outcome);
    CHECK(text_in(whole.buffer) == "456789");
    REQUIRE(d.read(file, 4, io_buffer::allocate(7), 2));
    auto beyond = answer_of(d);
    REQUIRE_FALSE(beyond.outcome);
    CHECK(is_error(beyond.outcome, file_ends, 10));
    CHECK(d.health(file));
  });
}

TEST_CASE("every disk: files are made, refused, cut and reserved as asked") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    CHECK(d.open(dir / "a", {}).error().code == errc::not_found);
    CHECK(d.open(dir / "no" / "a", {open_mode::create, false, 0}).error().code == errc::not_found);
    auto file = d.open(dir / "a", {open_mode::create, false, 5000});
    REQUIRE(file);
    d.close(*file);
    CHECK(*d.list(dir) == std::vector<dir_entry>{{"a", false, 5000}});
    auto again = d.open(dir / "a", {open_mode::create, true, 0});
    REQUIRE_FALSE(again);
    CHECK(is_error(again, "EEXIST", (dir / "a").string()));
    CHECK_FALSE(d.open(dir / "none", {open_mode::update, false, 0}));
    const auto before = *d.list(dir);
    d.close(opened(d, dir / "a", open_mode::update));
    CHECK(*d.list(dir) == before);  // nothing was cut
    d.close(opened(d, dir / "a", open_mode::replace));
    CHECK(*d.list(dir) == std::vector<dir_entry>{{"a", false, 0}});
    REQUIRE(d.make_dir(dir / "d"));
    CHECK_FALSE(d.open(dir / "d", {}));
    CHECK_FALSE(d.open(dir / "d", {open_mode::replace, false, 0}));
  });
}

TEST_CASE("every disk: a clone has the bytes as they were, or there is nothing of it") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.write_small(dir / "a", "before", durable::no));
    REQUIRE(d.write_small(dir / "taken", "another", durable::no));
    const auto before = *d.list(dir);
    CHECK_FALSE(d.clone(dir / "none", dir / "b"));
    CHECK_FALSE(d.clone(dir / "a", dir / "taken"));
    CHECK(*d.list(dir) == before);
    CHECK(*d.read_small(dir / "taken", 100) == "another");
    if (!d.clone(dir / "a", dir / "b")) {  // a file system without shared blocks
      CHECK(*d.list(dir) == before);
      return;
    }
    CHECK(*d.names_of(dir / "b") == 1);
    CHECK(*d.read_small(dir / "b", 100) == "before");
    REQUIRE(d.write_small(dir / "a", "behind", durable::no));
    CHECK(*d.read_small(dir / "b", 100) == "before");
  });
}

TEST_CASE("faulty disk: where files can share blocks a clone is another file") {
  const auto store = crash_store::make();
  faulty_options how;
  how.clones = true;
  faulty_disk d(store, how);
  REQUIRE(d.write_small("/a", "before", durable::no));
  REQUIRE(d.clone("/a", "/b"));
  REQUIRE(d.write_small("/a", "behind", durable::no));
  CHECK(*d.read_small("/b", 100) == "before");
  CHECK(*d.names_of("/b") == 1);
  CHECK_FALSE(d.clone("/a", "/b"));
}

TEST_CASE("every disk: an open file's names, length and room are known, whatever its name is") {
  const bool reserves = reserves_room();
  each_disk([reserves](disk& d, const auto& dir, const auto&) {
    constexpr uint64_t bytes = 4 * disk_block;
    const auto made = d.open(dir / "a", {open_mode::create, true, bytes});
    REQUIRE(made);
    const auto names = [&]() -> uint64_t {
      const auto facts = d.look(*made);
      REQUIRE(facts);
      if (reserves) CHECK(facts->bytes == bytes);
      if (reserves) CHECK(facts->taken_bytes >= bytes);
      return facts->names;
    };
    CHECK(names() == 1);
    REQUIRE(d.link(dir / "a", dir / "b"));
    CHECK(names() == 2);
    REQUIRE(d.rename(dir / "a", dir / "c"));
    d.close(opened(d, dir / "a", open_mode::create));  // another file, of that name
    CHECK(names() == 2);
    REQUIRE(d.rename(dir / "a", dir / "b"));
    CHECK(names() == 1);
    d.close(*made);
    CHECK(d.look(*made).error().code == errc::bug);
  });
}

TEST_CASE("every disk: names of files and folders move, change places and go") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    CHECK(*d.make_dir(dir / "one"));
    CHECK_FALSE(*d.make_dir(dir / "one"));
    CHECK(d.make_dir(dir / "no" / "one").error().code == errc::not_found);
    REQUIRE(d.write_small(dir / "one" / "f", "first", durable::yes));
    REQUIRE(d.write_small(dir / "g", "second", durable::no));
    CHECK_FALSE(*d.make_dir(dir / "one"));
    CHECK_FALSE(d.make_dir(dir / "g"));
    CHECK(d.sync_dir(dir / "one"));
    CHECK(d.sync_dir(dir / "none").error().code == errc::not_found);
    REQUIRE(d.rename(dir / "one", dir / "two"));
    CHECK(*d.read_small(dir / "two" / "f", 5) == "first");
    CHECK(d.read_small(dir / "two" / "f", 4).error().code == errc::bad_data);
    CHECK(d.read_small(dir / "two", 4).error().code == errc::bad_data);
    CHECK(d.read_small(dir / "one" / "f", 5).error().code == errc::not_found);
    CHECK_FALSE(d.rename(dir / "two", dir / "two" / "in"));  // into itself
    CHECK_FALSE(d.rename_to_free(dir / "two", dir / "two" / "in"));
    CHECK_FALSE(d.exchange(dir / "two", dir / "two" / "f"));
    CHECK_FALSE(d.exchange(dir / "two" / "f", dir / "two"));
    CHECK(*d.read_small(dir / "two" / "f", 5) == "first");
    REQUIRE(d.rename(dir / "g", dir / "two" / "f"));  // over a file
    CHECK(*d.read_small(dir / "two" / "f", 9) == "second");
    REQUIRE(d.make_dir(dir / "three"));
    CHECK_FALSE(d.rename(dir / "three", dir / "two"));  // not empty
    REQUIRE(d.rename(dir / "two", dir / "three"));      // empty
    CHECK(d.rename(dir / "two", dir / "four").error().code == errc::not_found);
    REQUIRE(d.write_small(dir / "h", "h", durable::no));
    REQUIRE(d.exchange(dir / "h", dir / "three"));
    CHECK(*d.list(dir) == std::vector<dir_entry>{{"h", true, 0}, {"three", false, 1}});
    CHECK_FALSE(d.exchange(dir / "h", dir / "none"));
    const claim ours{folder_kind::checkpoint, {}, {"f"}};
    CHECK_FALSE(d.remove_folder(dir / "three", ours));  // a file
    CHECK(d.remove_folder(dir / "h", {folder_kind::checkpoint, {}, {"g"}}).error().code ==
          errc::permission);
    CHECK(d.list(dir / "h")->size() == 1);
    REQUIRE(d.remove_folder(dir / "h", ours));
    CHECK_FALSE(d.remove_folder(dir / "h", ours));
    CHECK(*d.list(dir) == std::vector<dir_entry>{{"three", false, 1}});
    CHECK(d.list(dir / "none").error().code == errc::not_found);
  });
}

TEST_CASE("every disk: a name that is taken stays, and what may be removed is known before") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.make_dir(dir / "one"));
    REQUIRE(d.make_dir(dir / "two"));
    CHECK_FALSE(*d.rename_to_free(dir / "one", dir / "two"));  // though it is empty
    CHECK(d.list(dir)->size() == 2);
    CHECK(*d.rename_to_free(dir / "one", dir / "three"));
    CHECK(d.rename_to_free(dir / "one", dir / "four").error().code == errc::not_found);
    CHECK(*d.list(dir) == std::vector<dir_entry>{{"three", true, 0}, {"two", true, 0}});
    REQUIRE(d.write_small(dir / "two" / "f", "f", durable::no));
    CHECK(d.check_removal(dir / "two", {folder_kind::checkpoint, {}, {"f"}}));
    CHECK(d.check_removal(dir / "two", {folder_kind::checkpoint, {}, {"g"}}).error().code ==
          errc::permission);
    CHECK(d.check_removal(dir / "none", {folder_kind::checkpoint, {}, {}}).error().code ==
          errc::not_found);
    CHECK(d.list(dir / "two")->size() == 1);
  });
}

TEST_CASE("every disk: a source reads any part of a file, and says where it ends") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.write_small(dir / "f", "0123456789", durable::no));
    const auto file = d.open_source(dir / "f", pages::keep);
    REQUIRE(file);
    CHECK((*file)->size() == 10);
    std::string part(4, ' ');
    const auto into = std::as_writable_bytes(std::span(part));
    REQUIRE((*file)->read_at(3, into));
    CHECK(part == "3456");
    const auto beyond = (*file)->read_at(8, into);
    REQUIRE_FALSE(beyond);
    CHECK(beyond.error() == file_ends("f", 10));
    CHECK(d.open_source(dir / "none", pages::keep).error().code == errc::not_found);
    REQUIRE(d.make_dir(dir / "d"));
    CHECK(d.open_source(dir / "d", pages::keep).error().code == errc::bad_data);
  });
}

TEST_CASE("every disk: readers keep a removal away, and it them, until they let go") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.make_dir(dir / "c"));
    const auto file = dir / "c" / "MANIFEST";
    CHECK(*d.exclude_readers(file) == nullptr);  // there is nothing to read
    CHECK(d.read_lock(file).error().code == errc::not_found);
    REQUIRE(d.write_small(file, "m", durable::no));
    {
      const auto one = d.read_lock(file), two = d.read_lock(file);
      REQUIRE(one);
      REQUIRE(two);
      const auto refused = d.exclude_readers(file);
      REQUIRE_FALSE(refused);
      CHECK(refused.error() == being_read((dir / "c").string()));
    }
    {
      const auto alone = d.exclude_readers(file);
      REQUIRE(alone);
      CHECK(*alone != nullptr);
      CHECK_FALSE(d.exclude_readers(file));
      CHECK(d.read_lock(file));  // nobody waits for long: it reads without
    }
    CHECK(*d.exclude_readers(file) != nullptr);
  });
}

TEST_CASE("every disk: a folder is the same by any name, and another is another") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.make_dir(dir / "one"));
    REQUIRE(d.make_dir(dir / "two"));
    const auto one = d.identity(dir / "one"), two = d.identity(dir / "two");
    REQUIRE(one);
    REQUIRE(two);
    CHECK_FALSE(*one == *two);
    CHECK(*d.identity(dir / "two" / ".." / "one") == *one);
    REQUIRE(d.exchange(dir / "one", dir / "two"));
    CHECK(*d.identity(dir / "two") == *one);
    CHECK(*d.identity(dir / "one") == *two);
    CHECK(d.identity(dir / "none").error().code == errc::not_found);
    REQUIRE(d.write_small(dir / "f", "f", durable::no));
    CHECK(d.identity(dir / "f").error().code == errc::io);
  });
}

TEST_CASE("every disk: a path has one name without dots") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.make_dir(dir / "one"));
    REQUIRE(d.write_small(dir / "one" / "f", "f", durable::no));
    const auto folder = d.canonical(dir / "one" / "." / ".." / "one");
    REQUIRE(folder);
    CHECK(folder->filename() == "one");
    CHECK(*d.canonical(dir / "one" / "f") == *folder / "f");
    CHECK(d.canonical(dir / "none").error().code == errc::not_found);
  });
}

TEST_CASE("every disk: a link of ours is pointed anew, and nothing else is taken for one") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    const auto ours = [](const std::string& target) { return target.starts_with("step-"); };
    REQUIRE(d.point_link(dir / "latest", "step-1", ours));
    REQUIRE(d.point_link(dir / "latest", "step-2", ours));
    if (d.facts().backend == "faulty") return;  // it has no links
    namespace fs = std::filesystem;
    CHECK(fs::read_symlink(dir / "latest") == "step-2");
    CHECK(d.list(dir)->size() == 1);
    const auto left = dir / (".latest.tmp-" + std::to_string(::getpid()));
    fs::create_directory_symlink("step-1", left);  // of a killed process with our number
    REQUIRE(d.point_link(dir / "latest", "step-3", ours));
    CHECK(fs::read_symlink(dir / "latest") == "step-3");
    CHECK_FALSE(fs::is_symlink(left));
    fs::create_directory_symlink("mine", left);
    CHECK(d.point_link(dir / "latest", "step-4", ours).error().code == errc::io);
    CHECK(fs::read_symlink(dir / "latest") == "step-3");
    CHECK(fs::read_symlink(left) == "mine");
    fs::remove(left);
    for (const auto make : {+[](const fs::path& p) { fs::create_directory_symlink("mine", p); },
                            +[](const fs::path& p) { fs::create_directory(p); }}) {
      fs::remove(dir / "latest");
      make(dir / "latest");
      CHECK(d.point_link(dir / "latest", "step-4", ours).error().code == errc::permission);
      CHECK(d.list(dir)->size() == 1);
    }
    CHECK(d.point_link(dir / "no" / "latest", "step-4", ours).error().code == errc::not_found);
  });
}

TEST_CASE("every disk: a file that is written small replaces what was there") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    REQUIRE(d.write_small(dir / "a", "a long text", durable::yes));
    REQUIRE(d.write_small(dir / "a", "short", durable::yes));
    CHECK(*d.read_small(dir / "a", 100) == "short");
    REQUIRE(d.write_small(dir / "a", "", durable::yes));
    CHECK(d.read_small(dir / "a", 100)->empty());
  });
}

TEST_CASE("real disks: a limit on the size of files ends the file, not the process") {
  // RLIMIT_FSIZE with SIGXFSZ ignored (open_disk sees to it): a short write at the limit, then
  // EFBIG.
  each_disk([](disk& d, const auto& dir, const auto& ring) {
    if (d.facts().backend == "faulty") return;
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    size_t bytes = ring->slot_bytes();
    auto file = opened(d, dir / "a", open_mode::create, true);
    rlimit tight{bytes + disk_block, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
    auto first = d.write(file, 0, slot_of(ring, bytes, 'x'), 1);
    auto fits = d.wait(1, long_enough);
    auto second = d.write(file, bytes, slot_of(ring, bytes, 'x'), 2);
    auto over = d.wait(1, long_enough);
    ::setrlimit(RLIMIT_FSIZE, &before);
    REQUIRE(first);
    REQUIRE(second);
    REQUIRE(fits.size() == 1);
    CHECK(fits[0].outcome);
    REQUIRE(over.size() == 1);
    REQUIRE_FALSE(over[0].outcome);
    auto why = over[0].outcome.error();
    CHECK(is_error(why, "EFBIG", (dir / "a").string()));
    CHECK(why.hint.find("ulimit -f") != std::string::npos);
    // DK-3: the file is dead although there is room now.
    CHECK(d.fdatasync(file, 3).error() == why);
    CHECK(d.write(file, 0, slot_of(ring, bytes, 'x'), 4).error() == why);
    CHECK(d.health(file).error() == why);
    d.close(file);
    auto reserved = [&] {
      ::setrlimit(RLIMIT_FSIZE, &tight);
      auto answer = d.open(dir / "b", {open_mode::create, true, 4 * bytes});
      ::setrlimit(RLIMIT_FSIZE, &before);
      return answer;
    }();
    CHECK_FALSE(reserved);
    CHECK(d.list(dir)->size() == 1);
  });
}

TEST_CASE("impossible options of a disk are refused") {
  disk_options options;
  options.depth = 0;
  CHECK(open_disk(options).error().code == errc::bad_config);
  options.depth = 8;
  options.threads = 0;
  CHECK(open_disk(options).error().code == errc::bad_config);
}

namespace {

/// Runs `body` in a process of its own, whose limits it may change for good; its answer.
int in_child(const std::function<int()>& body) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int answer = 0;
  REQUIRE(::waitpid(child, &answer, 0) == child);
  return WIFEXITED(answer) ? WEXITSTATUS(answer) : -1;
}

/// From now on io_uring_setup is answered with EPERM, as in many containers.
bool refuse_io_uring() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{4, rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool writes_and_reads(disk& d, const std::filesystem::path& name,
                      const std::shared_ptr<slots>& ring) {
  auto file = d.open(name, {open_mode::create, true, 0});
  if (!file || !d.write(*file, 0, {std::move(*ring->try_take()), disk_block}, 1)) return false;
  auto done = d.wait(1, long_enough);
  return done.size() == 1 && done[0].outcome && d.read_small(name, 1 << 20)->size() == disk_block;
}

}  // namespace

TEST_CASE("where io_uring is refused threads do its work, and the disk says why") {
  scratch dir;
  int answer = in_child([&] {
    if (!refuse_io_uring()) return 77;
    disk_options options;
    options.backend = disk_backend::uring;
    auto refused = open_disk(options);
    if (refused || refused.error().code != errc::unavailable) return 1;
    options.backend = disk_backend::automatic;
    auto d = open_disk(options);
    if (!d || (*d)->facts().backend != "threads" || (*d)->facts().notes.size() != 1) return 2;
    if ((*d)->facts().notes[0].find("Operation not permitted") == std::string::npos) return 3;
    return writes_and_reads(**d, dir / "a", test_ring(1)) ? 0 : 4;
  });
  if (answer == 77) {
    MESSAGE("SKIPPED: no seccomp filters here");
    return;
  }
  CHECK(answer == 0);
}

TEST_CASE("where slots may not be locked io_uring goes on unregistered, and says so once") {
  scratch dir;
  REQUIRE(::chmod(dir.path.c_str(), 0777) == 0);
  int answer = in_child([&] {
    rlimit little{16 << 10, 16 << 10};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) return 1;
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 77;  // root may lock what it likes
    auto ring = test_ring(8);
    disk_options options;
    options.backend = disk_backend::uring;
    options.ring = ring;
    auto d = open_disk(options);
    if (!d) return 77;
    if ((*d)->facts().registered_buffers || (*d)->facts().notes.size() != 1) return 2;
    if ((*d)->facts().notes[0].find("RLIMIT_MEMLOCK is 16 KiB") == std::string::npos) return 3;
    return writes_and_reads(**d, dir / "a", ring) ? 0 : 4;
  });
  if (answer == 77) {
    MESSAGE("SKIPPED: no io_uring here, or root cannot become another user");
    return;
  }
  CHECK(answer == 0);
}
