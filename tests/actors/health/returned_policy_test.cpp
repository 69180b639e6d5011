// Which node's links are tested when, by losses and words of nodes.
#include "actors/health/returned_policy.hpp"

#include <doctest/doctest.h>

#include "tests/actors/health/seconds.hpp"

using namespace troupe::health;
using troupe::health::test::s;
using nodes = std::map<std::string, int64_t>;

constexpr int64_t now = 30 * s;

TEST_CASE("RTN-1: who was lost over a link is tested once, when it is heard again") {
  returned_policy p;
  p.lost("a", finding_name::half_open_link, 10 * s);
  p.lost("b", finding_name::dead_process, 10 * s);
  CHECK_FALSE(
      p.begin({{"a", 10 * s}, {"b", 20 * s}, {"c", 20 * s}}, true, now));  // not heard since
  CHECK_FALSE(p.begin({{"a", 20 * s}, {"b", 20 * s}}, true, now));         // one other alone
  const nodes all{{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}};
  CHECK(p.begin(all, true, now) == "a");
  p.over(true, now);
  CHECK_FALSE(p.begin(all, true, now));
  for (const auto over : {finding_name::cut_pair, finding_name::stuck_collective}) {
    p.lost("b", over, 15 * s);
    CHECK(p.begin(all, true, now) == "b");
    p.over(true, now);
  }
}

TEST_CASE("RTN-1: tests that say nothing are made again, a few times and after a pause") {
  returned_policy p(5 * s);
  p.lost("a", finding_name::half_open_link, 10 * s);
  const nodes all{{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}};
  for (int i = 1; i < returned_policy::most_tests; ++i) {
    const auto at = now + i * 5 * s;
    CHECK(p.begin(all, true, at) == "a");
    CHECK(p.over(false, at));
    CHECK_FALSE(p.begin(all, true, at + 5 * s - 1));
  }
  const auto last = now + returned_policy::most_tests * 5 * s;
  CHECK(p.begin(all, true, last) == "a");
  CHECK_FALSE(p.over(false, last));  // given up
  CHECK_FALSE(p.begin(all, true, last + 100 * s));
  p.lost("a", finding_name::half_open_link, 11 * s);
  CHECK(p.begin(all, true, last) == "a");
}

TEST_CASE("RTN-1: who is lost while it is tested has the tests of that loss alone") {
  returned_policy p(5 * s);
  const nodes all{{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}};
  for (const auto over : {finding_name::half_open_link, finding_name::dead_process}) {
    p.lost("a", finding_name::half_open_link, 10 * s);
    CHECK(p.begin(all, true, now) == "a");
    p.lost("a", over, 11 * s);
    CHECK(p.over(false, now));
    const auto next = p.begin(all, true, now + 5 * s);
    CHECK(next.has_value() == (over == finding_name::half_open_link));
    p.over(true, now);
    CHECK_FALSE(p.begin(all, true, now + 10 * s));
  }
}

TEST_CASE("RTN-1: who is lost once more over something else is not tested") {
  returned_policy p;
  p.lost("a", finding_name::half_open_link, 10 * s);
  p.lost("a", finding_name::dead_process, 11 * s);
  CHECK_FALSE(p.begin({{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}}, true, now));
}

TEST_CASE("RTN-2: one at a time, while steps are made") {
  returned_policy p;
  for (const char* node : {"a", "b"}) p.lost(node, finding_name::half_open_link, 10 * s);
  const nodes all{{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}};
  CHECK_FALSE(p.begin(all, false, now));
  CHECK(p.begin(all, true, now) == "a");
  CHECK(p.under_way() == "a");
  CHECK_FALSE(p.begin(all, true, now));
  p.over(true, now);
  CHECK(p.under_way().empty());
  CHECK(p.begin(all, true, now) == "b");
}

TEST_CASE("RTN: so many nodes are waited for") {
  returned_policy p;
  nodes all;
  for (size_t i = 0; i < returned_policy::most_returned + 5; ++i) {
    const auto name = std::to_string(i);
    p.lost(name, finding_name::half_open_link, 10 * s);
    all[name] = 20 * s;
  }
  size_t tested = 0;
  for (; p.begin(all, true, now); ++tested) p.over(true, now);
  CHECK(tested == returned_policy::most_returned);
}
