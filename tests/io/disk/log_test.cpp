// Logs: what every file system's are, and what a full or failing disk makes of them.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/disk/backends.hpp"

using namespace troupe;
using namespace troupe::io;

TEST_CASE("logs: written anywhere, cut, and opened as asked, on every disk") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    CHECK(d.open_log(dir / "a", log_open::existing).error().code == errc::not_found);
    {
      auto made = d.open_log(dir / "a", log_open::create);
      REQUIRE(made);
      auto& log = **made;
      REQUIRE(log.write_at(0, as_bytes("hello ")));
      REQUIRE(log.write_at(6, as_bytes("world")));
      REQUIRE(log.sync());
      CHECK(*d.read_small(dir / "a", 100) == "hello world");
      REQUIRE(log.cut(6));
      REQUIRE(log.write_at(6, as_bytes("all")));
      CHECK(*d.read_small(dir / "a", 100) == "hello all");
      CHECK(log.is_named(dir / "a"));
      CHECK_FALSE(log.is_named(dir / "b"));
      REQUIRE(d.rename(dir / "a", dir / "b"));
      CHECK_FALSE(log.is_named(dir / "a"));
      CHECK(log.is_named(dir / "b"));
      REQUIRE(log.write_at(9, as_bytes("!")));
    }
    CHECK(is_error(d.open_log(dir / "b", log_open::create), "EEXIST", dir / "b"));
    CHECK(*d.read_small(dir / "b", 100) == "hello all!");
    {
      auto again = d.open_log(dir / "b", log_open::existing);
      REQUIRE(again);
      REQUIRE((*again)->write_at(10, as_bytes("!")));
    }
    CHECK(*d.read_small(dir / "b", 100) == "hello all!!");
    REQUIRE(d.open_log(dir / "b", log_open::replace));
    CHECK(d.read_small(dir / "b", 100)->empty());
    REQUIRE(d.make_dir(dir / "folder"));
    CHECK_FALSE(d.open_log(dir / "folder", log_open::existing));
  });
}

TEST_CASE("logs: room that is set aside changes no length") {
  each_disk([](disk& d, const auto& dir, const auto&) {
    auto log = d.open_log(dir / "a", log_open::create);
    REQUIRE(log);
    REQUIRE((*log)->write_at(0, as_bytes("text")));
    if (const auto kept = (*log)->keep_room(4, 1 << 20); !kept)
      MESSAGE("nothing is set aside here: " << render(kept.error()));
    CHECK(*d.read_small(dir / "a", 100) == "text");
  });
}

TEST_CASE("logs: a file of the machine is its owner's alone, and no link is followed") {
  scratch dir;
  auto& files = local_files();
  const auto mode_of = [&](const char* name) {
    struct stat facts {};
    REQUIRE(::stat((dir / name).c_str(), &facts) == 0);
    return facts.st_mode & 0777;
  };
  REQUIRE(files.open_log(dir / "a", log_open::create));
  CHECK(mode_of("a") == 0600);
  REQUIRE(files.write_small(dir / "b", "left", durable::no));
  REQUIRE(files.open_log(dir / "b", log_open::replace));
  CHECK(mode_of("b") == 0600);
  std::filesystem::create_symlink(dir / "a", dir / "link");
  CHECK(is_error(files.open_log(dir / "link", log_open::existing), "ELOOP"));
  CHECK(is_error(files.open_log(dir / "link", log_open::replace), "ELOOP"));
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(files.open_log(dir / "pipe", log_open::existing).error().code == errc::bad_data);
}

TEST_CASE("CS-6 room that is kept takes what no other file may have any more") {
  auto store = crash_store::make(4 * disk_block);
  faulty_disk d(store, {});
  REQUIRE(d.make_dir("/t"));
  auto log = d.open_log("/t/log", log_open::create);
  REQUIRE(log);
  CHECK(is_error((*log)->keep_room(0, 5 * disk_block), "ENOSPC"));
  REQUIRE((*log)->keep_room(0, 2 * disk_block));
  CHECK(is_error(d.write_small("/t/other", std::string(3 * disk_block, 'x'), durable::no),
                 "ENOSPC"));  // two of them are there
  const std::string block(disk_block, 'y');
  REQUIRE((*log)->write_at(0, as_bytes(block)));
  REQUIRE((*log)->write_at(disk_block, as_bytes(block)));
  CHECK(is_error((*log)->write_at(2 * disk_block, as_bytes(block)), "ENOSPC"));
  REQUIRE((*log)->cut(disk_block));
  REQUIRE(d.write_small("/t/third", block, durable::no));  // the cut gave it back
  CHECK(is_error((*log)->write_at(disk_block, as_bytes(block)), "ENOSPC"));
}

TEST_CASE("CS-6 a full folder takes what there is room for") {
  auto store = crash_store::make();
  faulty_disk full(store, {});
  REQUIRE(full.make_dir("/t"));
  auto log = full.open_log("/t/log", log_open::create);
  REQUIRE(log);
  REQUIRE((*log)->keep_room(0, 10));
  store->set_outage("/t", outage::full);
  CHECK((*log)->write_at(0, as_bytes("0123456789")));
  CHECK(is_error((*log)->write_at(10, as_bytes("x")), "ENOSPC"));
  CHECK(is_error((*log)->keep_room(10, 10), "ENOSPC"));
  CHECK(*full.read_small("/t/log", 100) == "0123456789");
}

TEST_CASE("logs: faults strike them, short writes and signals do not") {
  faulty_disk d(crash_store::make(), {.short_move = 0.5, .interrupted = 0.3});
  REQUIRE(d.make_dir("/t"));
  const auto text = noise(3000, 1);
  {
    auto log = d.open_log("/t/a", log_open::create);
    REQUIRE(log);
    for (size_t at = 0; at < text.size(); at += 100)
      REQUIRE((*log)->write_at(at, as_bytes(text).subspan(at, 100)));
    CHECK(*d.read_small("/t/a", 5000) == text);
  }
  faulty_options options;
  options.plan = {{.site = fault_site::open, .nth = 2},
                  {.site = fault_site::write},
                  {.site = fault_site::cut},
                  {.site = fault_site::keep_room},
                  {.site = fault_site::fdatasync, .effect = fault_effect::lose}};
  faulty_disk planned(crash_store::make(), options);
  REQUIRE(planned.make_dir("/t"));
  auto log = planned.open_log("/t/a", log_open::create);
  REQUIRE(log);
  CHECK(is_error(planned.open_log("/t/a", log_open::existing), "EIO", "/t/a"));
  CHECK(is_error((*log)->write_at(0, as_bytes("text")), "EIO", "/t/a"));
  CHECK(is_error((*log)->cut(0), "EIO", "/t/a"));
  CHECK(is_error((*log)->keep_room(0, 1), "EIO", "/t/a"));
  CHECK(is_error((*log)->sync(), "EIO", "/t/a"));
  CHECK((*log)->write_at(0, as_bytes("text")));
  CHECK((*log)->sync());
}
