// Who may join, as a table of applicants.
#include "actors/cluster/membership_policy.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::cluster;

TEST_CASE("MEM-1, MEM-2: named, of our language, not here twice, everyone else is told why") {
  membership_policy p({"a", "b"}, 7, "0.1.0", 1);
  CHECK(p.admit({"b", 7, "0.1.0", "i1", 0}).has_value());
  CHECK(*p.admit({"b", 7, "0.1.0", "i1", 0}) ==
        1);  // asked again by the same process: the same answer
  struct row {
    applicant who;
    error why;
  };
  for (const auto& [who, why] :
       {row{{"a", 8, "0.1.0", "i2", 0}, other_build("a", "0.1.0", 8, "0.1.0", 7)},
        row{{"a", 7, "0.2.0", "i2", 0}, other_build("a", "0.2.0", 7, "0.1.0", 7)},
        row{{"a", 7, "0.1.0", "i2", 5}, from_newer_epoch("a", 5, 1)},
        row{{"c", 7, "0.1.0", "i2", 0}, node_not_named("c", "a, b")},
        row{{"b", 7, "0.1.0", "i2", 0}, node_here_already("b")},
        row{{"a", 7, "0.1.0", "i1", 0}, process_here_already("b")}}) {
    auto answer = p.admit(who);
    REQUIRE_FALSE(answer);
    CHECK(answer.error() == why);
  }
  CHECK(p.refused() == 6);
  CHECK_FALSE(p.missing().empty());
  CHECK(p.missing() == std::vector<std::string>{"a"});
  CHECK(*p.admit({"a", 7, "0.1.0", "i2", 1}) == 0);
  CHECK(p.missing().empty());
  p.leave("b");
  CHECK_FALSE(p.missing().empty());
}

TEST_CASE("an open cluster takes any name until it is full") {
  membership_policy p({"node0", "node1"}, 7, "0.1.0", 1, true);
  CHECK(*p.admit({"host-7", 7, "0.1.0", "i1", 0}) == 0);
  CHECK(*p.admit({"host-9", 7, "0.1.0", "i2", 0}) == 1);
  CHECK(*p.admit({"host-7", 7, "0.1.0", "i1", 0}) == 0);
  CHECK(p.missing().empty());
  CHECK(p.admit({"host-3", 7, "0.1.0", "i3", 0}).error().code == errc::unavailable);
}
