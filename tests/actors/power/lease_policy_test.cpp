// A child's side of a lease, by tables: what it takes, what it ignores, and what it falls to.
#include <limits>

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

}  // namespace

TEST_CASE("PWR-2: leases: a child begins at its static share, or at less where less is in force") {
  CHECK(lease_policy(20'000, 1, 50'000).cap_mw() == 20'000);
  CHECK(lease_policy(20'000, 1, 8'000).cap_mw() == 8'000);
  auto c = child();
  CHECK(!c.is_leased(0));
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
    auto c = child();
    CHECK(c.hear(grant_of(1, 1, granted_mw), 11 * lease_second) == grant_verdict::taken);
    CHECK(c.tick(14 * lease_second) == granted_mw);
    CHECK(c.left_ns(14 * lease_second) == lease_second);
    CHECK(c.tick(15 * lease_second) == fallen_mw);
    CHECK(c.left_ns(15 * lease_second) == 0);
    CHECK(c.tick(1000 * lease_second) == fallen_mw);
  }
}

TEST_CASE("PWR-2: leases: one that lapsed before it was commanded raises nothing") {
  lease_policy c(20'000, 7, 8000);
  CHECK(c.hear(grant_of(1, 1, 30'000), 11 * lease_second) == grant_verdict::taken);
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
      {"no time", {{2, 6}, {7, 10 * lease_second}, 9, 0, false}, 11, grant_verdict::impossible},
      {"a time beyond numbers",
       {{2, 6}, {7, 10 * lease_second}, 9, far, false},
       11,
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
  auto c = child();
  CHECK(c.hear(grant_of(1, 1, 30'000), 14 * lease_second) == grant_verdict::taken);
  CHECK(c.tick(15 * lease_second) == 20'000);
  auto renewal = grant_of(1, 1, 30'000);
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
