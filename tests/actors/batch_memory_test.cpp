// The memory that a loader shares: its size cannot change, and nobody maps more than there is.
#include "actors/train/batch_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#include <limits>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

TEST_CASE("batch memory: what is laid out in a slot is seen by a reader") {
  auto made = batch_memory::create({2, 3}, 4);
  REQUIRE(made);
  CHECK(made->slot_bytes() == 2 * 2 * 3 * sizeof(int32_t));
  CHECK(made->slots() == 4);
  auto reader = batch_memory::open(made->path(), made->slot_bytes(), made->slots());
  REQUIRE(reader);
  for (int64_t slot = 0; slot < 4; ++slot)
    for (int i = 0; i < 12; ++i) made->slot(slot)[i] = static_cast<int32_t>(100 * slot + i);
  for (int64_t slot = 0; slot < 4; ++slot) {
    const auto view = reader->view(slot);
    CHECK(view.tokens[0] == 100 * slot);
    CHECK(view.tokens[5] == 100 * slot + 5);
    CHECK(view.targets[0] == 100 * slot + 6);
    CHECK(view.targets[5] == 100 * slot + 11);
  }
}

TEST_CASE("batch memory: where documents are told, they are behind the targets") {
  auto made = batch_memory::create({2, 3, true}, 2);
  REQUIRE(made);
  CHECK(made->slot_bytes() == 4 * 2 * 3 * sizeof(int32_t));
  auto reader = batch_memory::open(made->path(), made->slot_bytes(), made->slots(), true);
  REQUIRE(reader);
  for (int i = 0; i < 24; ++i) made->slot(1)[i] = i;
  const auto view = reader->view(1);
  CHECK(view.targets[0] == 6);
  CHECK(view.documents.first[0] == 12);
  CHECK(view.documents.end[0] == 18);
  CHECK(view.documents.end[5] == 23);
  auto plain = batch_memory::create({2, 3}, 1);
  REQUIRE(plain);
  CHECK(plain->view(0).documents.first == nullptr);
}

TEST_CASE("BTM-1: the size is sealed") {
  auto made = batch_memory::create({1, 8}, 1);
  REQUIRE(made);
  io::unique_fd fd(::open(made->path().c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(fd);
  CHECK((fcntl(fd.get(), F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW)) ==
        (F_SEAL_SHRINK | F_SEAL_GROW));
  CHECK(ftruncate(fd.get(), 0) == -1);
  CHECK(errno == EPERM);
  CHECK(ftruncate(fd.get(), 1 << 20) == -1);
}

TEST_CASE("batch memory: claims that do not fit are refused") {
  auto made = batch_memory::create({2, 8}, 2);
  REQUIRE(made);
  const auto bytes = made->slot_bytes();
  for (auto [slot_bytes, slots] : {std::pair<uint64_t, int64_t>{bytes, 3},
                                   {bytes, 1},
                                   {bytes + 4, 2},
                                   {bytes - 4, 2},
                                   {0, 2},
                                   {bytes, 0},
                                   {bytes, -1},
                                   {std::numeric_limits<uint64_t>::max(), 2},
                                   {uint64_t{1} << 63, 2},
                                   {bytes, std::numeric_limits<int64_t>::max()}}) {
    CAPTURE(slot_bytes);
    CAPTURE(slots);
    auto opened = batch_memory::open(made->path(), slot_bytes, slots);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == errc::bad_data);
  }
  CHECK_FALSE(batch_memory::open("/etc/passwd", bytes, 2));
  CHECK_FALSE(batch_memory::open("/proc/self/fd/9999", bytes, 2));
  CHECK_FALSE(batch_memory::open("", bytes, 2));
}

TEST_CASE("batch memory: impossible sizes are refused") {
  for (auto [batch, seq, slots] :
       {std::array<int64_t, 3>{0, 8, 1}, {1, 0, 1}, {1, 8, 0}, {-1, 8, 1}, {1 << 20, 1 << 20, 1}})
    CHECK_FALSE(batch_memory::create({batch, seq}, slots));
}

TEST_CASE("batch memory: it goes with its last user") {
  std::string path;
  {
    auto made = batch_memory::create({1, 8}, 1);
    REQUIRE(made);
    path = made->path();
    auto moved = std::move(*made);
    CHECK(moved.path() == path);
  }
  CHECK_FALSE(batch_memory::open(path, 64, 1));
}
