// Where the last checkpoint of a run is tried again, and until when.
#include "actors/train/last_save_policy.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace troupe;
using namespace troupe::train;

namespace {

constexpr int64_t one_second_ns = 1'000'000'000;
const error no_room{errc::io, "No space left on device"};
using last_attempt = last_save_policy::attempt;
using last_tier = last_save_policy::tier;

}  // namespace

TEST_CASE(
    "LST-2: without a second tier it is tried again after pauses, as long as patience lasts") {
  last_save_policy p(12 * one_second_ns);
  CHECK(p.failed(no_room, 100) == last_attempt{last_tier::first, last_save_policy::pause_ns});
  CHECK(p.failed(no_room, 100 + 6 * one_second_ns) ==
        last_attempt{last_tier::first, last_save_policy::pause_ns});
  CHECK_FALSE(p.failed(no_room, 100 + 12 * one_second_ns));
  CHECK_FALSE(last_save_policy(0).failed(no_room, 5));
}

TEST_CASE("LST-1: the second tier is tried at once, and after each pause again") {
  last_save_policy p(9 * one_second_ns, true);
  CHECK(p.failed(no_room, 0) == last_attempt{last_tier::second, 0});
  CHECK(p.failed(no_room, 1) == last_attempt{last_tier::first, last_save_policy::pause_ns});
  CHECK(p.failed(no_room, 6 * one_second_ns) == last_attempt{last_tier::second, 0});
  CHECK_FALSE(p.failed(no_room, 7 * one_second_ns));
  last_save_policy hasty(0, true);
  CHECK(hasty.failed(no_room, 0) == last_attempt{last_tier::second, 0});
  CHECK_FALSE(hasty.failed(no_room, 1));
}

TEST_CASE("LST-3: each place and cause is news once, whatever file and offset it was met at") {
  last_save_policy p(60 * one_second_ns);
  const auto at = [](int offset, const char* cause) {
    return error{errc::io, fmt::format("save: write /a/{0}.shard at {0}: {1}", offset, cause)};
  };
  CHECK_FALSE(p.has_waited());
  for (int i = 0; i < 120; ++i) {
    REQUIRE(p.failed(no_room, 0));
    CHECK(p.is_news("/a waits", at(i, "No space left on device")) == (i == 0));
  }
  CHECK(p.has_waited());
  CHECK(p.is_news("/b waits", at(0, "No space left on device")));
  CHECK(p.is_news("/a waits", at(1, "Input/output error")));
  CHECK_FALSE(p.is_news("/a waits", no_room));
}

TEST_CASE("last save: what no room can mend is not tried again") {
  for (const auto code : {errc::unavailable, errc::bug, errc::bad_data, errc::timeout})
    CHECK_FALSE(last_save_policy(60 * one_second_ns, true).failed({code, "x"}, 0));
  for (const auto code : {errc::not_found, errc::permission})
    CHECK(last_save_policy(60 * one_second_ns).failed({code, "x"}, 0));
}
