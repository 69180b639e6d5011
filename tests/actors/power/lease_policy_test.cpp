// A child's side of a lease, by tables: what it takes, what it ignores, and what it falls to.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/lease_policy.hpp"

using namespace troupe::power;

namespace {

constexpr int64_t lease_second = 1'000'000'000;

/// Answers a report of 10 s, holds for 5 s.
power_grant grant_of(uint64_t epoch, uint64_t sequence, int64_t cap_mw) {
  return {{epoch, sequence}, {7, 10 * lease_second}, cap_mw, 5 * lease_second, false};
}

lease_policy child() {
  return {20'000, 7, 50'000};
}

/// It follows a parent of epoch 1 already: the first lease of one raises nothing.
lease_policy child_that_had(int64_t found_mw) {
  lease_policy out(20'000, 7, found_mw);
  REQUIRE(out.hear(grant_of(1, 1, found_mw), 11 * lease_second) == grant_verdict::taken);
  out.tick(11 * lease_second);
  out.read_back(out.cap_mw());
  return out;
}

}  // namespace

TEST_CASE("PWR-2: leases: a child begins at its static share, or at less where less is in force") {
  CHECK(lease_policy(20'000, 1, 50'000).cap_mw() == 20'000);
  CHECK(lease_policy(20'000, 1, 8'000).cap_mw() == 8'000);
  auto c = child();
  CHECK(!c.is_leased(0));
  CHECK(c.left_ns(lease_second) == 0);  // of a lease that was never granted nothing is left
  CHECK(c.tick(0) == 20'000);
  CHECK(c.in_force_mw() == 50'000);  // LSE-1: as it was found
  c.read_back(20'000);
  CHECK(c.in_force_mw() == 20'000);
}

TEST_CASE(
    "PWR-2: leases: one that lapses lowers the cap to the static share, and never raises it") {
  for (const auto& [granted_mw, fallen_mw] :
       {std::pair{30'000, 20'000}, {20'000, 20'000}, {12'000, 12'000}, {0, 0}}) {
    CAPTURE(granted_mw);
    auto c = child_that_had(20'000);
    CHECK(c.hear(grant_of(1, 2, granted_mw), 11 * lease_second) == grant_verdict::taken);
    CHECK(c.tick(14 * lease_second) == granted_mw);
    CHECK(c.left_ns(14 * lease_second) == lease_second);
    CHECK(c.tick(15 * lease_second) == fallen_mw);
    CHECK(c.left_ns(15 * lease_second) == 0);
    CHECK(c.tick(1000 * lease_second) == fallen_mw);
  }
}

TEST_CASE("PWR-2: leases: one that lapsed before it was commanded raises nothing") {
  auto c = child_that_had(8000);
  CHECK(c.hear(grant_of(1, 2, 30'000), 11 * lease_second) == grant_verdict::taken);
  CHECK(c.in_force_mw() == 30'000);  // the parent must count it until it is told
  CHECK(c.tick(15 * lease_second) == 8000);
}

TEST_CASE("PWR-2: leases: what is older, late, to another process or no grant at all is ignored") {
  struct row {
    const char* what;
    power_grant grant;
    int64_t at_s;
    grant_verdict expected;
  };
  constexpr auto far = std::numeric_limits<int64_t>::max();
  const row rows[] = {
      {"a newer sequence", grant_of(2, 6, 9), 11, grant_verdict::taken},
      {"a newer epoch, whatever its sequence", grant_of(3, 1, 9), 11, grant_verdict::taken},
      {"the same again", grant_of(2, 5, 9), 11, grant_verdict::taken},
      {"an older sequence", grant_of(2, 4, 9), 11, grant_verdict::older},
      {"an older epoch, whatever its sequence", grant_of(1, 99, 9), 11, grant_verdict::older},
      {"in its last moment", grant_of(2, 6, 9), 14, grant_verdict::taken},
      {"after it", grant_of(2, 6, 9), 15, grant_verdict::late},
      {"to the process before",
       {{2, 6}, {6, 10 * lease_second}, 9, far / 2, false},
       11,
       grant_verdict::not_to_us},
      {"an answer to what was not said yet",
       {{2, 6}, {7, 12 * lease_second}, 9, 1, false},
       11,
       grant_verdict::impossible},
      {"a cap below 0",
       {{2, 6}, {7, 10 * lease_second}, -1, far / 2, false},
       11,
       grant_verdict::impossible},
      {"a cap beyond any power",
       {{2, 6}, {7, 10 * lease_second}, 1'000'000'000'000'001, far / 2, false},
       11,
       grant_verdict::impossible},
      {"no time", {{2, 6}, {7, 10 * lease_second}, 9, 0, false}, 11, grant_verdict::impossible},
      {"a time beyond numbers",
       {{2, 6}, {7, 10 * lease_second}, 9, far, false},
       11,
       grant_verdict::impossible},
      {"an epoch that no parent lives to", grant_of(beyond_lives + 1, 1, 9), 11,
       grant_verdict::impossible},
      {"a report before time", {{2, 6}, {7, -far}, 9, far, false}, 11, grant_verdict::impossible},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    auto c = child();
    REQUIRE(c.hear(grant_of(2, 5, 15'000), 11 * lease_second) == grant_verdict::taken);
    CHECK(c.hear(r.grant, r.at_s * lease_second) == r.expected);
    CHECK((c.cap_mw() == 9) == (r.expected == grant_verdict::taken));
  }
}

TEST_CASE("PWR-2: leases: the time of one runs from the report that is answered, not from now") {
  auto c = child_that_had(20'000);
  CHECK(c.hear(grant_of(1, 2, 30'000), 14 * lease_second) == grant_verdict::taken);
  CHECK(c.tick(15 * lease_second) == 20'000);
  auto renewal = grant_of(1, 2, 30'000);
  renewal.answers.sent_ns = 15 * lease_second;
  CHECK(c.hear(renewal, 16 * lease_second) == grant_verdict::taken);
  CHECK(c.tick(16 * lease_second) == 30'000);
  // An earlier renewal that comes later takes nothing from it.
  renewal.answers.sent_ns = 13 * lease_second;
  CHECK(c.hear(renewal, 17 * lease_second) == grant_verdict::taken);
  CHECK(c.left_ns(17 * lease_second) == 3 * lease_second);
}

TEST_CASE("LSE-1: leases: a decrease is told once it is read back, an increase at once") {
  auto c = child();
  c.read_back(20'000);
  c.hear(grant_of(1, 1, 12'000), 11 * lease_second);
  CHECK(c.report(11 * lease_second, {}, 0).in_force_mw == 20'000);
  c.read_back(12'000);
  const auto told = c.report(12 * lease_second, 11'000, 40'000);
  CHECK(told.in_force_mw == 12'000);
  CHECK(told.order == lease_order{1, 1});
  CHECK(told.id == report_id{7, 12 * lease_second});
  CHECK(told.drawn_mw == 11'000);
  CHECK(told.wish_mw == 40'000);
  c.hear(grant_of(1, 2, 15'000), 12 * lease_second);
  CHECK(c.report(12 * lease_second, {}, 0).in_force_mw == 15'000);
}

TEST_CASE("LSE-1: leases: a raise that is still on its way counts until the cut has overtaken it") {
  lease_policy c(20'000, 7, 10'000, 3 * lease_second);
  c.hear(grant_of(1, 1, 10'000), 10 * lease_second);
  c.tick(10 * lease_second);
  c.hear(grant_of(1, 2, 30'000), 10 * lease_second);
  c.tick(10 * lease_second);  // takes up to 3 s
  c.hear(grant_of(1, 3, 10'000), 11 * lease_second);
  c.tick(11 * lease_second);
  c.read_back(10'000);  // as before the raise
  CHECK(c.in_force_mw() == 30'000);
  c.tick(13 * lease_second);
  c.read_back(30'000);
  CHECK(c.in_force_mw() == 30'000);
  c.tick(14 * lease_second);
  c.read_back(10'000);
  CHECK(c.in_force_mw() == 10'000);
}

TEST_CASE("LSE-1: leases: what a process before had commanded counts for an actuation") {
  lease_policy c(20'000, 7, 90'000, 3 * lease_second);
  c.tick(10 * lease_second);
  c.read_back(5000);
  CHECK(c.in_force_mw() == 90'000);
  c.tick(13 * lease_second);
  CHECK(c.in_force_mw() == 20'000);
}

TEST_CASE("LSE-2: leases: the first lease of a parent's life and its renewals raise nothing") {
  auto c = child_that_had(10'000);
  CHECK(c.hear(grant_of(2, 4, 90'000), 11 * lease_second) == grant_verdict::taken);
  CHECK(c.cap_mw() == 10'000);
  CHECK(c.order() == lease_order{2, 4});
  CHECK(c.hear(grant_of(2, 4, 90'000), 12 * lease_second) == grant_verdict::taken);
  CHECK(c.cap_mw() == 10'000);
  CHECK(c.hear(grant_of(2, 5, 15'000), 12 * lease_second) == grant_verdict::taken);
  CHECK(c.cap_mw() == 15'000);
  CHECK(c.hear(grant_of(3, 1, 9000), 12 * lease_second) == grant_verdict::taken);
  CHECK(c.cap_mw() == 9000);
}

TEST_CASE("recent most: what stood within the window is never told as less than it was") {
  for (const int64_t window : {1, 3, 20, 100, 1000}) {
    CAPTURE(window);
    recent_most recent(window);
    std::vector<std::pair<int64_t, int64_t>> all;  // value, when it ended
    uint64_t x = 7;
    for (int64_t now = 0; now < 3000; now += 1 + static_cast<int64_t>(x % 3)) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      const auto value = static_cast<int64_t>(x >> 40) % 1000 + (3000 - now);
      recent.ended(value, now);
      all.emplace_back(value, now);
      int64_t least = 0, most = 0;
      for (const auto& [v, ended] : all) {
        if (now - ended < window) least = std::max(least, v);
        if (now - ended <= window + window / 8) most = std::max(most, v);
      }
      CHECK(recent.most(0) >= least);
      CHECK(recent.most(0) <= most);
    }
    recent.forget(10'000);
    CHECK(recent.most(0) == 0);
  }
  recent_most none(0);
  none.ended(5, 1);
  CHECK(none.most(0) == 0);
}

TEST_CASE(
    "leases: who is to save and pause is told so with the lease, and is no more with the next") {
  auto c = child();
  auto g = grant_of(1, 1, 500);
  g.shed = true;
  c.hear(g, 11 * lease_second);
  CHECK(c.is_shed());
  c.hear(grant_of(1, 2, 9000), 11 * lease_second);
  CHECK(!c.is_shed());
}
