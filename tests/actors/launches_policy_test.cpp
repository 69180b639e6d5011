// How often a node is started again and whose end is told, by table.
#include "actors/cluster/launches_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe::cluster;

namespace {

using enum launches_policy::verdict;

constexpr int64_t hour_ns = 3'600'000'000'000;
constexpr int64_t minute_ns = hour_ns / 60;

}  // namespace

TEST_CASE("LAU-1: so many starts in an epoch or an hour, then none, and again after the hour") {
  struct row {
    const char* what;
    bool needed;
    std::vector<int64_t> at_min;
    std::vector<launches_policy::verdict> then;
  };
  const row rows[] = {
      {"a spare", false, {0, 1, 2, 3, 4}, {start, start, start, used_up, alone}},
      {"within the hour", false, {0, 1, 2, 60}, {start, start, start, used_up}},
      {"after the hour", false, {0, 1, 2, 3, 61}, {start, start, start, used_up, start}},
      {"and so on",
       false,
       {0, 1, 2, 3, 61, 62, 63, 64},
       {start, start, start, used_up, start, start, start, used_up}},
      {"rarely", false, {0, 59, 61, 119, 130}, {start, start, start, start, start}},
      {"that a place needs", true, {0, 1, 2, 61}, {start, start, start, used_up}},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    launches_policy p(hour_ns, 10);
    std::vector<launches_policy::verdict> got;
    for (const auto min : r.at_min) got.push_back(p.order("c", r.needed, min * minute_ns));
    CHECK(got == r.then);
    CHECK(p.order("d", r.needed, 0) == start);  // each for itself
    p.forget("c");
    CHECK(p.order("c", r.needed, r.at_min.back() * minute_ns) == start);
  }
}

TEST_CASE("LAU-1: who is left alone is due once the hour is over, once, or not where it joined") {
  launches_policy p(hour_ns, 10);
  for (int i = 0; i < 4; ++i) p.order("c", false, minute_ns);
  CHECK(p.due(61 * minute_ns).empty());
  auto other = p;
  CHECK(p.due(61 * minute_ns + 1) == std::vector<std::string>{"c"});
  CHECK(p.due(62 * minute_ns).empty());
  CHECK(p.order("c", false, 62 * minute_ns) == start);
  other.joined("c");
  CHECK(other.due(62 * minute_ns).empty());
}

TEST_CASE("LAU-2: nobody is on the way for whom nothing was ordered") {
  launches_policy p(hour_ns, 10);
  CHECK_FALSE(p.on_its_way("c"));
  p.order("c", false, 0);
  CHECK(p.on_its_way("c"));
  p.joined("c");
  CHECK_FALSE(p.on_its_way("c"));
  for (int i = 0; i < 2; ++i) p.order("c", false, 0);
  CHECK(p.on_its_way("c"));
  CHECK(p.order("c", false, 0) == used_up);
  CHECK_FALSE(p.on_its_way("c"));
  p.awaits("d");
  CHECK(p.on_its_way("d"));
}

TEST_CASE("LAU-3: a word that names no process is of either where the end before was not told") {
  struct row {
    const char* what;
    bool told, ordered;
    bool counts;
  };
  const row rows[] = {
      {"its end was told, the word is of the next one", true, true, true},
      {"it was not: of either", false, true, false},
      {"nothing was ordered: its own", false, false, true},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    launches_policy p(hour_ns, 10);
    p.joined("b");
    p.ended("b", r.told);
    if (r.ordered) p.order("b", true, 100);
    CHECK(p.ended_unnamed("b", "is dead", 103) == r.counts);
    auto joined = p;
    CHECK(p.late_ends(112).empty());
    const auto late = p.late_ends(113);
    REQUIRE(late.size() == (r.counts ? 0 : 1));
    for (const auto& l : late) CHECK((l.node == "b" && l.how == "is dead"));
    CHECK(p.late_ends(200).empty());
    CHECK(p.ended_unnamed("b", "is dead, too", 201));  // one of them
    joined.joined("b");
    CHECK(joined.late_ends(200).empty());
    CHECK(joined.ended_unnamed("b", "is dead", 201));
  }
  launches_policy p(hour_ns, 10);
  p.ended("b", false);
  p.forget("b");  // LAU-1, not whose end it was
  p.order("b", true, 0);
  CHECK_FALSE(p.ended_unnamed("b", "is dead", 1));
}
