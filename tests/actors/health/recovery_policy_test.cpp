// What a recovery can mend, and how often one may begin.
#include "actors/health/recovery_policy.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using troupe::health::recovery_policy;

namespace {

constexpr int64_t minute_ns = 60'000'000'000;

recovery_policy begun(bool enabled, int64_t most_per_hour = 10) {
  config::recovery_section rules;
  rules.enabled = enabled;
  rules.most_per_hour = most_per_hour;
  recovery_policy p(rules);
  p.has_begun();
  return p;
}

}  // namespace

// A process in whose place another one came may hold its memory a little longer.
TEST_CASE("RCV-3: recovery: what a new epoch can mend, and what it cannot") {
  const auto on = begun(true), off = begun(false);
  for (int c = 1; c <= static_cast<int>(errc::training); ++c) {
    const error why{static_cast<errc>(c), "something"};
    CAPTURE(c);
    CHECK_FALSE(off.can_mend(why));
    CHECK(on.can_mend(why) == (why.code == errc::unavailable || why.code == errc::timeout ||
                               why.code == errc::io || why.code == errc::no_memory));
  }
}

TEST_CASE("RCV-2: recovery: before the first step there is nothing to recover") {
  recovery_policy p{config::recovery_section{.enabled = true}};
  CHECK_FALSE(p.can_mend({errc::unavailable, "gone"}));
  p.has_begun();
  CHECK(p.can_mend({errc::unavailable, "gone"}));
}

TEST_CASE("RCV-1: recovery: only so many begin within an hour, whenever that hour begins") {
  auto p = begun(true, 2);
  const auto take = [&](int64_t minute) {
    p.has_progressed();
    return bool(p.take("n0", minute * minute_ns));
  };
  CHECK(take(10));
  CHECK(take(50));
  CHECK_FALSE(take(69));
  CHECK(take(70));  // the first is an hour old
  CHECK_FALSE(take(109));
  CHECK(take(110));
  CHECK(p.begun() == 4);
}

TEST_CASE("RCV-4: recovery: three over the same that come to no step are the last ones") {
  for (const auto* node : {"n1", ""}) {
    auto p = begun(true);
    for (int hour = 0; hour < 3; ++hour) CHECK(p.take(node, hour * 90 * minute_ns));
    auto stuck = p;
    const auto none_left = stuck.take(node, 1000 * minute_ns);
    const std::string of = *node == 0 ? "" : " of node n1";
    REQUIRE_FALSE(none_left);
    CHECK(none_left.error() == health::recoveries_in_vain(3, of));
    CHECK(stuck.take("n2", 1000 * minute_ns));  // a loss of another one is no repetition
    p.has_progressed();
    CHECK(p.take(node, 1000 * minute_ns));
  }
}
