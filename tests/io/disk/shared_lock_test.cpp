// A reader's lock is of the file that it reads, whatever takes that one's place meanwhile.
#include "io/disk/shared_lock.hpp"

#include <cerrno>
#include <filesystem>
#include <functional>
#include <utility>

#include <doctest/doctest.h>

#include "io/disk/file_system.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

struct read_beside {
  scratch dir;
  std::filesystem::path file = dir / "MANIFEST";
  file_system& files = local_files();
  int pauses = 0;

  read_beside() { REQUIRE(files.write_small(file, "old", durable::no)); }
  /// Another file takes its place.
  void amend() {
    REQUIRE(files.write_small(dir / "next", "new", durable::no));
    REQUIRE(files.rename(dir / "next", file));
  }
  /// Whether somebody has a reader's lock on what is there now.
  bool is_read() {
    const auto alone = files.exclude_readers(file);
    return !alone && alone.error().is(being_read);
  }
  result<unique_fd> begin(std::function<int(int)> lock, std::function<void()> in_pause) {
    return lock_to_read(file, {std::move(lock), [this, in_pause = std::move(in_pause)] {
                                 ++pauses;
                                 in_pause();
                               }});
  }
};

}  // namespace

TEST_CASE("RLK-1: who begins to read while another file takes the place locks that one") {
  read_beside m;
  auto amendment = m.files.exclude_readers(m.file);
  REQUIRE(amendment);
  {
    const auto reader = m.begin(lock_shared, [&] {
      m.amend();
      amendment->reset();
    });
    REQUIRE(reader);
    CHECK(m.pauses == 1);
    CHECK(m.is_read());
  }
  CHECK_FALSE(m.is_read());
}

TEST_CASE("RLK-1: who has opened the file before another took its place locks that one") {
  read_beside m;
  int locks = 0;
  const auto reader = m.begin(
      [&](int fd) {
        if (locks++ == 0) m.amend();
        return lock_shared(fd);
      },
      [] {});
  REQUIRE(reader);
  CHECK(locks == 2);
  CHECK(m.pauses == 0);
  CHECK(m.is_read());
}

TEST_CASE("RLK-1: a file that is removed before it is locked is not there") {
  read_beside m;
  const auto reader = m.begin(
      [&](int fd) {
        std::filesystem::remove(m.file);
        return lock_shared(fd);
      },
      [] {});
  REQUIRE_FALSE(reader);
  CHECK(reader.error().code == errc::not_found);
}

TEST_CASE("RLK-2: a lock that nobody lets go, or that nothing can take, keeps no reader away") {
  read_beside m;
  {
    const auto alone = m.files.exclude_readers(m.file);
    REQUIRE(alone);
    CHECK(m.begin(lock_shared, [] {}));
    CHECK(m.pauses > 0);
  }
  m.pauses = 0;
  CHECK(m.begin([](int) { return ENOLCK; }, [] {}));
  CHECK(m.pauses == 0);
  int locks = 0;
  CHECK(m.begin(
      [&](int) {
        ++locks;
        m.amend();  // each time once more
        return 0;
      },
      [] {}));
  CHECK(locks > 1);
  CHECK(m.pauses == 0);
}
