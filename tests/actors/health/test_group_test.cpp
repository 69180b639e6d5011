// Groups of a test, over the data plane itself: members in threads of this process.
#include "actors/health/test_group.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <thread>

#include "tests/actors/health/spoiled_group.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::health;
using troupe::health::test::spoiling;

namespace {

using seen_by_all = std::vector<result<fbs::TestGroupSeenT>>;

seen_by_all formed(int size, uint32_t rounds, const group_opener& opener = {}) {
  const known_sum numbers;
  std::vector<std::unique_ptr<test_group>> ends;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; ++rank) {
    gpu::group_options o;
    o.name = "doctor/test";
    o.rank = rank;
    o.size = size;
    auto end = test_group::open(o, opener);
    REQUIRE(end);
    addresses.push_back((*end)->address());
    CHECK_FALSE(addresses.back().empty());
    ends.push_back(std::move(*end));
  }
  std::vector<std::future<result<fbs::TestGroupSeenT>>> joining;
  for (auto& end : ends)
    joining.push_back(std::async(std::launch::async, [&, e = end.get()] {
      return e->join(addresses, rounds, numbers);
    }));
  seen_by_all out;
  for (auto& j : joining) out.push_back(j.get());
  return out;
}

}  // namespace

TEST_CASE("test group: two and three members sum and gather, and every bit is the known one") {
  for (const int size : {2, 3}) {
    for (const auto& seen : formed(size, 2)) {
      REQUIRE_MESSAGE(seen, (seen ? "" : render(seen.error())));
      CHECK(seen->wrong_sums == 0);
      CHECK(seen->wrong_gathered == 0);
      CHECK(seen->gathered_from == -1);
      CHECK(seen->start_ms > 0);
      CHECK(seen->bytes_per_s > 0);
    }
  }
}

TEST_CASE("test group: one wrong element of one member is told by each, with its place") {
  for (const auto& seen : formed(2, 3, spoiling(true, false))) {
    REQUIRE(seen);
    CHECK(seen->wrong_sums == 3);  // of each round
    CHECK(seen->first_place == 5);
    CHECK(seen->first_seen == seen->first_wanted + 1);
    CHECK(seen->wrong_gathered == 0);
  }
}

TEST_CASE("test group: of a part that is other than its member's, that member is told") {
  for (const auto& seen : formed(3, 1, spoiling(false, true))) {
    REQUIRE(seen);
    CHECK(seen->wrong_sums == 0);
    CHECK(seen->wrong_gathered == 1);
    CHECK(seen->gathered_from == 1);
  }
}

TEST_CASE("TGR-2: an end whose peers do not come is over when it is asked to stop") {
  std::stop_source stop;
  gpu::group_options o;
  o.name = "doctor/test";
  o.size = 2;
  o.ending = stop.get_token();
  auto lone = test_group::open(o, {});
  auto other_options = o;
  other_options.rank = 1;
  auto other = test_group::open(other_options, {});
  REQUIRE(lone);
  REQUIRE(other);
  const known_sum numbers;
  stop.request_stop();
  const auto seen = (*lone)->join({"", (*other)->address()}, 1, numbers);
  REQUIRE_FALSE(seen);
  CHECK(seen.error().code == errc::cancelled);
}

TEST_CASE("test group: ends that are none are refused") {
  gpu::group_options o;
  o.name = "doctor/test";
  o.size = 2;
  auto end = test_group::open(o, {});
  REQUIRE(end);
  const known_sum numbers;
  CHECK((*end)->join({"", "nonsense"}, 1, numbers).error().code == errc::bad_data);
  end = test_group::open(o, {});
  REQUIRE(end);
  CHECK((*end)->join({}, 1, numbers).error().code == errc::bad_data);
}
