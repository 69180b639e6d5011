// What the test of a group says.
#include "actors/health/group_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::health;
using fbs::CheckVerdict;

namespace {

fbs::GroupReportT group_report(size_t members) {
  fbs::GroupReportT r;
  for (size_t i = 0; i < members; ++i) {
    auto& m = *r.members.emplace_back(std::make_unique<fbs::GroupMemberT>());
    m.node = std::string("n") + static_cast<char>('0' + i);
    m.seen = std::make_unique<fbs::TestGroupSeenT>();
    m.seen->start_ms = 10.0 + static_cast<double>(i);
    m.seen->stop_ms = 1;
    m.seen->bytes_per_s = 1e8 - static_cast<double>(i);
  }
  return r;
}

}  // namespace

TEST_CASE("group: the slowest member counts, errors are those of all, and the first is told") {
  auto r = group_report(3);
  auto g = seen_in(r);
  CHECK(g.finished);
  CHECK(g.start_ms == 12);
  CHECK(g.bytes_per_s == 1e8 - 2);
  CHECK(g.wrong_text.empty());
  r.members[1]->seen->wrong_sums = 2;
  r.members[1]->seen->first_place = 17;
  r.members[1]->seen->first_seen = 4097;
  r.members[1]->seen->first_wanted = 4096;
  r.members[2]->seen->wrong_sums = 5;
  g = seen_in(r);
  CHECK(g.wrong_sums == 7);
  CHECK(g.wrong_text == "element 17 of the sum is 4097, not 4096, at n1");
}

TEST_CASE("group: whose part came otherwise is told, if it is a member's") {
  auto r = group_report(2);
  r.members[0]->seen->wrong_gathered = 3;
  r.members[0]->seen->gathered_from = 1;
  CHECK(seen_in(r).wrong_text == "3 elements came to n0 other than n1 has them");
  r.members[0]->seen->gathered_from = 99;
  CHECK(seen_in(r).wrong_text == "3 elements came to n0 other than their sender has them");
}

TEST_CASE("group: one member that did not come to the end is said, and it is not finished") {
  auto r = group_report(2);
  r.members[1]->seen.reset();
  r.members[1]->failure = "nobody came";
  const auto g = seen_in(r);
  CHECK_FALSE(g.finished);
  CHECK(g.failure == "n1: nobody came");
  CHECK_FALSE(seen_in(fbs::GroupReportT()).finished);
}

TEST_CASE("GRP-1: wrong bits are bad, however busy it was, and what only took long is not") {
  group_seen g;
  g.finished = true;
  g.start_ms = 5;
  CHECK(verdict_of(g) == CheckVerdict::ok);
  CHECK(verdict_of_start(g, 2) == CheckVerdict::ok);
  g.start_ms = wanted_start_ms(2) + 1;
  CHECK(verdict_of(g) == CheckVerdict::ok);
  CHECK(verdict_of_start(g, 2) == CheckVerdict::bad);
  CHECK(verdict_of_start(g, 60) == CheckVerdict::ok);
  g.finished = false;
  CHECK(verdict_of(g) == CheckVerdict::bad);
  g.busy = true;
  CHECK(verdict_of(g) == CheckVerdict::unknown);
  CHECK(verdict_of_start(g, 2) == CheckVerdict::unknown);
  for (auto* wrong : {&g.wrong_sums, &g.wrong_gathered}) {
    *wrong = 1;
    CHECK(verdict_of(g) == CheckVerdict::bad);
    CHECK(verdict_of_start(g, 2) == CheckVerdict::bad);
    *wrong = 0;
  }
}

TEST_CASE("GRP-2: a group that a member had no time for says nothing of anybody") {
  group_seen g;
  g.tried = false;
  CHECK(verdict_of(g) == CheckVerdict::unknown);
  CHECK(verdict_of_start(g, 2) == CheckVerdict::unknown);
}
