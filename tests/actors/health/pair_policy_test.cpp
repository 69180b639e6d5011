// Who is named by two rounds of pairs, for every way in which nodes and links can be ill.
#include "actors/health/pair_policy.hpp"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::health;

namespace {

using node_names = std::vector<std::string>;
using pairs = std::vector<pair_policy::pair>;

struct illness {
  std::set<std::string> nodes = {};
  std::set<pair_policy::pair> links = {};

  bool passes(const pair_policy::pair& p) const {
    return !nodes.contains(p.first) && !nodes.contains(p.second) && !links.contains(p) &&
           !links.contains({p.second, p.first});
  }
};

pair_policy::outcome found(const node_names& nodes, const illness& ill) {
  pair_policy policy(nodes);
  for (const auto& p : policy.first_round()) policy.tell_first(p, ill.passes(p));
  for (const auto& p : policy.second_round()) {
    CHECK(p.first != p.second);
    policy.tell_second(p, ill.passes(p));
  }
  return policy.conclude();
}

node_names first_of(int count) {
  const node_names all{"a", "b", "c", "d", "e", "f", "g", "h"};
  return {all.begin(), all.begin() + count};
}

}  // namespace

TEST_CASE("pairs: nothing is wrong, nobody is named") {
  for (int n = 0; n <= 8; ++n) {
    const auto o = found(first_of(n), {});
    CHECK(o.culprits.empty());
    CHECK(o.cut.empty());
    CHECK(o.unclear.empty());
  }
}

TEST_CASE("pairs: every node is in the first round") {
  for (int n = 2; n <= 8; ++n) {
    std::set<std::string> seen;
    for (const auto& p : pair_policy(first_of(n)).first_round()) {
      CHECK(p.first != p.second);
      seen.insert({p.first, p.second});
    }
    CHECK(seen.size() == static_cast<size_t>(n));
  }
}

TEST_CASE("PAI-1, PAI-3: one bad of N is named, whichever it is") {
  for (int n = 3; n <= 8; ++n)
    for (const auto& bad : first_of(n)) {
      CAPTURE(n);
      CAPTURE(bad);
      const auto o = found(first_of(n), {{bad}, {}});
      CHECK(o.culprits == node_names{bad});
      CHECK(o.cut.empty());
      CHECK(o.unclear.empty());
    }
}

TEST_CASE("PAI-2, PAI-3: no pair is tested twice") {
  for (int n = 2; n <= 8; ++n)
    for (const auto& bad : first_of(n)) {
      CAPTURE(n);
      CAPTURE(bad);
      pair_policy policy(first_of(n));
      std::set<std::set<std::string>> seen;
      const auto once = [&](const auto& p) { return seen.insert({p.first, p.second}).second; };
      for (const auto& p : policy.first_round()) {
        CHECK(once(p));
        policy.tell_first(p, p.first != bad && p.second != bad);
      }
      for (const auto& p : policy.second_round()) CHECK(once(p));
    }
}

TEST_CASE("pairs: two bad ones of one pair are both named") {
  auto o = found(first_of(4), {{"a", "b"}, {}});
  std::sort(o.culprits.begin(), o.culprits.end());
  CHECK(o.culprits == node_names{"a", "b"});
}

TEST_CASE("PAI-2: a bad link whose nodes each pass with others is a cut pair") {
  for (int n = 3; n <= 8; ++n)
    for (const auto& link : pair_policy(first_of(n)).first_round()) {
      CAPTURE(n);
      CAPTURE(link.first);
      const auto o = found(first_of(n), {{}, {link}});
      CHECK(o.culprits.empty());
      CHECK(o.cut == pairs{link});
      CHECK(o.unclear.empty());
    }
}

TEST_CASE("PAI-1: all bad, or only two nodes: nobody is named") {
  for (int n = 2; n <= 8; ++n) {
    const auto all = first_of(n);
    const auto o = found(all, {{all.begin(), all.end()}, {}});
    CHECK(o.culprits.empty());
    CHECK(o.cut.empty());
    CHECK(o.unclear.size() == pair_policy(all).first_round().size());
  }
  const auto two = found(first_of(2), {{"a"}, {}});
  CHECK(two.culprits.empty());
  CHECK(two.unclear == pairs{{"a", "b"}});
}

TEST_CASE("a pair is bad where it does not answer or brings other bytes, busy or not") {
  using fbs::CheckVerdict;
  CHECK(verdict_of({true, 0, 100, false}, std::nullopt) == CheckVerdict::ok);
  CHECK(verdict_of({false, 0, 0, true}, std::nullopt) == CheckVerdict::bad);
  CHECK(verdict_of({true, 1, 100, true}, std::nullopt) == CheckVerdict::bad);
  CHECK(verdict_of({true, 0, 100, false}, 101) == CheckVerdict::bad);
  CHECK(verdict_of({true, 0, 100, true}, 101) == CheckVerdict::unknown);
  const pair_seen quick{true, 0, 400, false}, busy{true, 0, 1, true}, silent{};
  CHECK_FALSE(wanted_rate(std::vector{quick, quick, busy, silent}, false));
  CHECK(wanted_rate(std::vector{quick, quick, quick}, false) == 100);
}

TEST_CASE("a pair that could not be tried, or was slow while busy, is not bad") {
  using fbs::CheckVerdict;
  pair_seen not_tried{};
  not_tried.tried = false;
  CHECK(verdict_of(not_tried, std::nullopt) == CheckVerdict::unknown);
  CHECK(verdict_of({true, 0, 0, true}, std::nullopt) == CheckVerdict::unknown);
  CHECK(verdict_of({true, 0, 0, false}, std::nullopt) == CheckVerdict::bad);  // nothing large came
}

TEST_CASE("what is wanted of a pair is by its kind: within a host, or between two") {
  pair_seen near{true, 0, 4000, false}, far{true, 0, 400, false};
  near.one_host = true;
  const std::vector all{near, near, near, far, far, far};
  CHECK(wanted_rate(all, true) == 1000);
  CHECK(wanted_rate(all, false) == 100);
  CHECK_FALSE(wanted_rate(std::vector{near, near, near, far, far}, false));
}

TEST_CASE("exchange_times: a median of small ones, a rate of large ones, and of waiting in vain") {
  exchange_times t;
  CHECK_FALSE(t.any());
  CHECK(t.latency_us() == 0);
  CHECK(t.bytes_per_s() == 0);
  for (const int64_t us : {30, 10, 20}) t.small_came_back(us * 1000);
  CHECK(t.any());
  CHECK(t.latency_us() == 20);
  CHECK(t.bytes_per_s() == 0);
  t.large_came_back(500'000'000, 1000);
  CHECK(t.bytes_per_s() == 4000);  // to and fro
  t.large_did_not(500'000'000);
  CHECK(t.bytes_per_s() == 2000);
}
