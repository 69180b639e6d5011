// A disk that answers late: what it holds back, for how long, and what it lets pass.
#include "io/disk/slow_disk.hpp"

#include <doctest/doctest.h>

#include "tests/io/disk/backends.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace std::chrono_literals;

namespace {

struct slow_file {
  scratch dir;
  std::shared_ptr<slots> ring = test_ring(2);
  std::shared_ptr<std::atomic<double>> factor = std::make_shared<std::atomic<double>>(1);
  std::unique_ptr<slow_disk> disk;
  file_id file = file_id::none;

  slow_file() {
    disk = std::make_unique<slow_disk>(disk_options{disk_backend::threads, 4, 1, ring}, factor);
    const auto opened = disk->open(dir / "f", {.mode = open_mode::create});
    REQUIRE(opened);
    file = *opened;
  }
  void write() { REQUIRE(disk->write(file, 0, slot_of(ring, 4096, 'a'), 1)); }
};

}  // namespace

TEST_CASE("SLD-1: slow disk: what is written is answered late, and is as it was written") {
  slow_file f;
  f.write();
  CHECK(f.disk->wait(1, long_enough).size() == 1);  // nothing is slow
  *f.factor = 1e9;
  f.write();
  CHECK(f.disk->wait(1, 50ms).empty());  // it took a microsecond at least
  CHECK(f.disk->under_way() == 1);
  CHECK(*f.disk->read_small(f.dir / "f", 8192) == std::string(4096, 'a'));
  REQUIRE(f.disk->read(f.file, 0, slot_of(f.ring, 4096, 'b'), 2));
  const auto got = f.disk->wait(1, long_enough);
  REQUIRE(got.size() == 1);
  CHECK(got[0].tag == 2);
  CHECK(got[0].buffer.bytes()[0] == std::byte{'a'});
}

TEST_CASE("SLD-1: slow disk: an answer that is due comes by itself") {
  slow_file f;
  *f.factor = 20;
  f.write();
  const auto got = f.disk->wait(1, long_enough);
  REQUIRE(got.size() == 1);
  CHECK(got[0].outcome);
  REQUIRE(f.disk->fdatasync(f.file, 3));
  CHECK(f.disk->wait(1, long_enough).size() == 1);
}

TEST_CASE("SLD-2: slow disk: one that closes waits for nothing that it holds") {
  slow_file f;
  *f.factor = 1e9;
  f.write();
  CHECK(f.disk->wait(1, 50ms).empty());
  f.disk.reset();
  CHECK(f.ring->counts().free == 2);
}
