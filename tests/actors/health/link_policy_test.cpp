// Which of the nodes that wait for each other has the sick link, and who is in the way of that.
#include "actors/health/link_policy.hpp"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

using namespace troupe::health;
using troupe::fbs::CheckVerdict;

namespace {

using node_names = std::vector<std::string>;
using pairs = std::vector<link_policy::pair>;

struct network {
  std::set<std::string> sick = {};       ///< no test of theirs comes about
  std::set<link_policy::pair> cut = {};  ///< nor one of these
  std::set<std::string> absent = {};     ///< they have no time
  CheckVerdict of(const link_policy::pair& p) const {
    if (absent.contains(p.first) || absent.contains(p.second)) return CheckVerdict::unknown;
    const bool fails = sick.contains(p.first) || sick.contains(p.second) || cut.contains(p) ||
                       cut.contains({p.second, p.first});
    return fails ? CheckVerdict::bad : CheckVerdict::ok;
  }
};

/// All tests, in turns of as many as may be under way at a time.
link_policy tested(const node_names& circle, const node_names& others, const network& of) {
  link_policy policy;
  policy.stands_still(circle, others);
  for (auto turn = policy.due(); !turn.empty(); turn = policy.due()) {
    std::set<std::string> nodes;
    for (const auto& p : turn) {
      CHECK(nodes.insert(p.first).second);  // SKE-2
      CHECK(nodes.insert(p.second).second);
      CHECK(policy.is_open());
    }
    for (const auto& p : turn) policy.tell(policy.time(), p, of.of(p));
  }
  CHECK_FALSE(policy.is_open());
  return policy;
}

}  // namespace

TEST_CASE("SKE: of two ends the one that fails with a third node, too, is named, whichever it is") {
  for (const auto& others : {node_names{"c"}, node_names{"c", "d"}, node_names{"c", "d", "e"}})
    for (const auto* sick : {"a", "b"}) {
      CAPTURE(others.size());
      CAPTURE(sick);
      const auto p = tested({"a", "b"}, others, {{sick}});
      REQUIRE(p.named());
      CHECK(p.named()->culprits == node_names{sick});
      CHECK(p.named()->cut.empty());
      CHECK(p.failed_with(sick).size() == 2);
    }
}

TEST_CASE("SKE: two ends that do well with others are a cut pair, and nobody is named") {
  for (const auto& others : {node_names{"c"}, node_names{"c", "d"}}) {
    const auto p = tested({"a", "b"}, others, {{}, {{"b", "a"}}});
    REQUIRE(p.named());
    CHECK(p.named()->culprits.empty());
    CHECK(p.named()->cut == pairs{{"a", "b"}});
  }
}

TEST_CASE("SKE: of a circle of more ranks the sick one is named, wherever it stands") {
  const node_names circle{"a", "b", "c", "d", "e"};
  for (const auto& sick : circle) {
    const auto p = tested(circle, {"x", "y", "z"}, {{sick}});
    REQUIRE(p.named());
    CHECK(p.named()->culprits == node_names{sick});
  }
}

TEST_CASE("SKE: nothing is named where links are well, or nobody is there to prove an end") {
  const auto well = tested({"a", "b"}, {"c", "d"}, {});
  CHECK(well.named()->culprits.empty());
  CHECK(well.named()->cut.empty());
  const auto alone = tested({"a", "b"}, {}, {{"a"}});
  CHECK(alone.named()->culprits.empty());
  CHECK(alone.named()->cut.empty());
  CHECK(alone.failed_with("b") == node_names{"a"});
  const auto none = tested({"a"}, {"c", "d"}, {{"a"}});
  CHECK_FALSE(none.named());
}

TEST_CASE("SKE-1: pairs are tested once while the job stands still, and again the next time") {
  link_policy p;
  p.stands_still({"a", "b"}, {"c", "d"});
  CHECK(p.due() == pairs{{"a", "b"}, {"c", "d"}});
  p.stands_still({"b", "a"}, {"c", "d"});
  CHECK(p.due().empty());
  const auto before = p.time();
  p.moves();
  CHECK_FALSE(p.is_open());
  p.stands_still({"a", "b"}, {"c", "d"});
  CHECK(p.due().size() == 2);
  p.tell(before, {"a", "b"}, CheckVerdict::bad);  // of the time before
  p.tell(before, {"c", "d"}, CheckVerdict::ok);
  CHECK(p.is_open());
  CHECK(p.due().empty());
  CHECK(p.failed_with("a").empty());
  p.tell(p.time(), {"a", "b"}, CheckVerdict::ok);
  p.tell(p.time(), {"c", "d"}, CheckVerdict::ok);
  CHECK_FALSE(p.is_open());
  CHECK(p.named()->culprits.empty());
}

TEST_CASE("SKE-3: who has no time for a test neither proves nor accuses anybody") {
  for (const auto* absent : {"a", "b"}) {
    const auto p = tested({"a", "b"}, {"c", "d"}, {{"b"}, {}, {absent}});
    CHECK(p.named()->culprits.empty());
    CHECK(p.named()->cut.empty());
  }
  // One of two witnesses is enough: who is proven by the other stands in for it.
  const auto p = tested({"a", "b"}, {"c", "d"}, {{"c"}, {{"a", "b"}}, {}});
  CHECK(std::count(p.named()->culprits.begin(), p.named()->culprits.end(), "d") == 0);
}

TEST_CASE("SKE: of a long circle so many nodes are tested, and witnesses beside them") {
  node_names circle;
  for (int i = 0; i < 100; ++i) circle.push_back("n" + std::to_string(i));
  link_policy p;
  p.stands_still(circle, {"n1", "x", "n2", "y", "z"});
  std::set<std::string> nodes;
  for (const auto& [a, b] : p.due()) nodes.insert({a, b});
  CHECK(nodes.size() == link_policy::most_of_circle + link_policy::witnesses);
  CHECK(nodes.contains("x"));
  CHECK(nodes.contains("y"));
}
