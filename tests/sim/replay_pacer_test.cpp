// A recorded pacer is replayed, of a job with a budget of its own and of one under another.
#include <algorithm>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "actors/replay/actor_logs.hpp"
#include "actors/replay/message_parts.hpp"
#include "actors/sim/simulation.hpp"
#include "tests/sim/recorded.hpp"

using namespace troupe;
using namespace troupe::replay;
using namespace troupe::replay::test;

TEST_CASE("replay: a pacer decides the same again by the same readings, another one by others") {
  auto budgeted = small();
  budgeted.budget_w = 1.2 * sim::least_budget_w(budgeted);
  recorded r("pacer", budgeted);
  auto log = choose(r.read(), "pacer");
  REQUIRE_MESSAGE(log, (log ? "" : render(log.error())));
  const auto same = again(*log);
  CHECK_MESSAGE(same.differences.empty(), text_of(same));
  CHECK(same.given == log->given());
  CHECK(same.given > 10);
  CHECK(same.recorded > 0);
  CHECK(same.recorded == same.replayed);
  auto batches = r.batches();
  const auto at = alter(
      batches,
      [](fbs::ActorLogEventT& e) {
        return e.kind == fbs::ActorLogKind::got &&
               rewrite<fbs::PaceTaken>(e, [](auto& t) { t.budget_w = 1; });
      },
      [](auto&) {});
  r.write(batches);
  log = choose(r.read(), "pacer");
  REQUIRE(log);
  const auto other = again(*log);
  REQUIRE_FALSE(other.differences.empty());
  CHECK(other.differences.front().message >= at);
}

namespace {

sim::simulation_options under_budget() {
  auto out = small();
  out.power_parent_w = 3 * sim::least_budget_w(out);
  out.dead_after_ms = std::max<int64_t>(out.dead_after_ms, 1000);
  return out;
}

}  // namespace

TEST_CASE("replay: a pacer under a power budget finds it again, and has the leases that it had") {
  recorded r("pacer", under_budget());
  auto log = choose(r.read(), "pacer");
  REQUIRE_MESSAGE(log, (log ? "" : render(log.error())));
  const auto same = again(*log);
  CHECK_MESSAGE(same.differences.empty(), text_of(same));
  CHECK(same.given == log->given());
  CHECK(same.recorded > 0);
  CHECK(same.recorded == same.replayed);
  const auto granted = std::ranges::count_if(log->turns, [](const auto& turn) {
    return turn.given && cast<fbs::PowerGrant>(message_in(turn.given->parts));
  });
  CHECK(granted > 3);
  auto batches = r.batches();
  const auto at = alter(
      batches,
      [](fbs::ActorLogEventT& e) {
        return e.kind == fbs::ActorLogKind::got &&
               rewrite<fbs::PowerGrant>(e, [](auto& g) { g.cap_mw /= 2; });
      },
      [](auto&) {});
  r.write(batches);
  log = choose(r.read(), "pacer");
  REQUIRE(log);
  const auto other = again(*log);
  REQUIRE_FALSE(other.differences.empty());
  CHECK(other.differences.front().message >= at);
}

TEST_CASE("replay: a pacer whose recording does not tell which life it is of is refused") {
  recorded r("pacer", under_budget());
  auto log = choose(r.read(), "pacer");
  REQUIRE(log);
  log->record->incarnation = 0;
  const auto refused = replay::replay(*log);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unavailable);
}

TEST_CASE("replay: what a pacer under a budget has computed itself is what was read then") {
  auto o = under_budget();
  auto log = choose(recorded("pacer", o).read(), "pacer");
  REQUIRE(log);
  log->record->machine = "boot";  // of a head whose own time counts: each tick reads it first
  for (auto& turn : log->turns)
    if (turn.given && summary_of(turn.given->parts) == "tick")
      turn.readings.insert(turn.readings.begin(), {1, 1, 1, 1});
  const auto same = again(*log);
  CHECK_MESSAGE(same.differences.empty(), text_of(same));
}
