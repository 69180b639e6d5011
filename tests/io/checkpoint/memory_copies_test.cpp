// Generations of copies in memory, and the frames in which they travel.
#include "io/checkpoint/memory_copies.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "io/checkpoint/copy_frame.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::io::checkpoint;

namespace {

const copy_shape shape{{2, 1, 1}, 4096, 10'000};

/// A whole copy of which each byte is `fill`.
std::shared_ptr<memory_copy> keep_whole(memory_copies& in, int rank, copy_tag tag, int fill) {
  auto copy = in.begin(rank, tag, shape);
  REQUIRE(copy);
  std::memset((*copy)->bytes().data(), fill, (*copy)->bytes().size());
  (*copy)->sum();
  in.seal(*copy);
  return *copy;
}

std::vector<copy_tag> tags_of(const memory_copies& in, int rank) {
  std::vector<copy_tag> out;
  for (const auto& c : in.held())
    if (c.rank == rank) out.push_back(c.tag);
  return out;
}

}  // namespace

TEST_CASE("MC-2: which generation is overwritten") {
  using facts = generation_facts;
  struct row {
    facts first, second;
    copy_tag tag;
    size_t into;
  };
  const row rows[] = {
      {{}, {}, {1, 1}, 0},
      {{copy_tag{1, 1}, true}, {}, {1, 2}, 1},
      {{copy_tag{1, 1}, true}, {copy_tag{1, 2}, true}, {1, 3}, 0},
      {{copy_tag{1, 3}, true}, {copy_tag{1, 2}, true}, {1, 4}, 1},
      {{copy_tag{1, 3}, true}, {copy_tag{1, 4}, false}, {1, 5}, 1},  // torn, though newer
      {{copy_tag{1, 3}, false}, {copy_tag{1, 2}, true}, {2, 3}, 0},
      {{copy_tag{1, 9}, true}, {copy_tag{2, 4}, true}, {2, 5}, 0},  // of an older epoch
      {{copy_tag{1, 9}, true}, {copy_tag{1, 8}, true}, {1, 9}, 0},  // the same once more
  };
  for (const auto& r : rows) CHECK(generation_for({r.first, r.second}, r.tag) == r.into);
}

TEST_CASE("MC-1: a copy is found once it is sealed, and a torn one never") {
  memory_copies copies;
  copies.allow(1 << 20);
  keep_whole(copies, 0, {1, 4}, 4);
  const auto torn = copies.begin(0, {1, 5}, shape);
  REQUIRE(torn);
  CHECK(copies.find(0, {1, 5}) == nullptr);
  CHECK(tags_of(copies, 0) == std::vector<copy_tag>{{1, 4}});
  // Its writer has died: the next one takes its place, and the whole one stays.
  keep_whole(copies, 0, {2, 5}, 5);
  CHECK(tags_of(copies, 0) == std::vector<copy_tag>{{1, 4}, {2, 5}});
  CHECK(copies.find(0, {1, 5}) == nullptr);  // of an epoch that is over
  const auto four = copies.find(0, {1, 4});
  REQUIRE(four);
  CHECK(four->bytes()[9'999] == std::byte{4});
  CHECK(copies.find(1, {1, 4}) == nullptr);
  // Whoever begins in place of a whole one tears it.
  REQUIRE(copies.begin(0, {2, 6}, shape));
  CHECK(tags_of(copies, 0) == std::vector<copy_tag>{{2, 5}});
  CHECK(copies.find(0, {2, 6}) == nullptr);
}

TEST_CASE("a copy is under a checksum for each slot, and damage is named") {
  memory_copies copies;
  copies.allow(1 << 20);
  const auto copy = keep_whole(copies, 1, {1, 7}, 3);
  CHECK(copy->check());
  CHECK(copy->sums().size() == 3);
  copy->slot(2)[1'807] ^= std::byte{1};  // the last byte of the last slot
  CHECK(is_error(copy->check(), copy_damaged, 1, uint64_t{7}, uint64_t{2}));
}

TEST_CASE("MC-3: copies take no more than is allowed, and what they replace counts no more") {
  memory_copies copies;
  copies.allow(25'000);
  keep_whole(copies, 0, {1, 1}, 1);
  keep_whole(copies, 0, {1, 2}, 2);
  CHECK(is_error(copies.begin(1, {1, 2}, shape), copies_too_large, uint64_t{30'000},
                 uint64_t{25'000}));
  keep_whole(copies, 0, {1, 3}, 3);
  CHECK(copies.bytes() == 20'000);
  CHECK(tags_of(copies, 0) == std::vector<copy_tag>{{1, 2}, {1, 3}});
}

TEST_CASE("MC-4: who reads a copy keeps it, whatever is begun in its place") {
  memory_copies copies;
  copies.allow(1 << 20);
  keep_whole(copies, 0, {1, 1}, 1);
  keep_whole(copies, 0, {1, 2}, 2);
  const auto read = copies.find(0, {1, 1});
  keep_whole(copies, 0, {1, 3}, 3);
  CHECK(read->bytes()[0] == std::byte{1});
  CHECK(read->tag() == copy_tag{1, 1});
  CHECK(read->check());
}

TEST_CASE("a job that has gone back to a state keeps the copies of that one alone") {
  memory_copies copies;
  copies.allow(1 << 20);
  for (int rank : {0, 1}) {
    keep_whole(copies, rank, {1, 1}, 1);
    keep_whole(copies, rank, {1, 2}, 2);
  }
  copies.keep_only({1, 1});
  CHECK(copies.bytes() == 20'000);
  CHECK(tags_of(copies, 0) == std::vector<copy_tag>{{1, 1}});
  keep_whole(copies, 0, {2, 2}, 2);  // not in place of the one that the job stands on
  CHECK(tags_of(copies, 0) == std::vector<copy_tag>{{1, 1}, {2, 2}});
}

TEST_CASE("CF-1: a frame is read as it was written, and any other byte is found") {
  const copy_frame frame{copy_frame_kind::share, 1, {3, 41}, shape};
  auto bytes = encode(frame);
  const auto read = parse_copy_frame(bytes);
  REQUIRE(read);
  CHECK(*read == frame);
  CHECK(parse_copy_frame(std::span(bytes).first(63)).error().code == errc::bad_data);
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto broken = bytes;
    broken[i] ^= std::byte{0x10};
    CHECK(parse_copy_frame(broken).error().code == errc::bad_data);
  }
  const copy_frame impossible[] = {
      {copy_frame_kind::put, 2, {1, 1}, shape},  // a rank beyond the layout
      {copy_frame_kind::put, 0, {1, 1}, {{0, 1, 1}, 4096, 1}},
      {copy_frame_kind::put, 0, {1, 1}, {{1, 1, 1}, 0, 1}},
      {copy_frame_kind::put, 0, {1, 1}, {{1, 1, 1}, 512, ~uint64_t{0}}},
      {static_cast<copy_frame_kind>(9), 0, {1, 1}, {{1, 1, 1}, 4096, 1}}};
  for (const auto& f : impossible) CHECK_FALSE(parse_copy_frame(encode(f)));
}
