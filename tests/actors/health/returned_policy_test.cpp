// Which node's links are tested when, by losses and words of nodes.
#include "actors/health/returned_policy.hpp"

#include <doctest/doctest.h>

#include "tests/actors/health/seconds.hpp"

using namespace troupe::health;
using troupe::health::test::s;
using nodes = std::map<std::string, int64_t>;

TEST_CASE("RTN-1: who was lost over a link is tested once, when it is heard again") {
  returned_policy p;
  p.lost("a", finding_name::half_open_link, 10 * s);
  p.lost("b", finding_name::dead_process, 10 * s);
  CHECK_FALSE(p.begin({{"a", 10 * s}, {"b", 20 * s}, {"c", 20 * s}}, true));  // not heard since
  CHECK_FALSE(p.begin({{"a", 20 * s}, {"b", 20 * s}}, true));                 // one other alone
  const nodes all{{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}};
  CHECK(p.begin(all, true) == "a");
  p.over();
  CHECK_FALSE(p.begin(all, true));
  for (const auto over : {finding_name::cut_pair, finding_name::stuck_collective}) {
    p.lost("b", over, 15 * s);
    CHECK(p.begin(all, true) == "b");
    p.over();
  }
}

TEST_CASE("RTN-1: who is lost once more over something else is not tested") {
  returned_policy p;
  p.lost("a", finding_name::half_open_link, 10 * s);
  p.lost("a", finding_name::dead_process, 11 * s);
  CHECK_FALSE(p.begin({{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}}, true));
}

TEST_CASE("RTN-2: one at a time, while steps are made") {
  returned_policy p;
  for (const char* node : {"a", "b"}) p.lost(node, finding_name::half_open_link, 10 * s);
  const nodes all{{"a", 20 * s}, {"b", 20 * s}, {"c", 20 * s}};
  CHECK_FALSE(p.begin(all, false));
  CHECK(p.begin(all, true) == "a");
  CHECK(p.under_way() == "a");
  CHECK_FALSE(p.begin(all, true));
  p.over();
  CHECK(p.under_way().empty());
  CHECK(p.begin(all, true) == "b");
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
  for (; p.begin(all, true); ++tested) p.over();
  CHECK(tested == returned_policy::most_returned);
}
