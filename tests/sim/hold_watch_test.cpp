// Jobs that their power budget brakes or sheds, whose devices do not follow, and whose budget
// promises more than it has, on virtual time: none is taken for a broken one, and each goes on. And
// that this is looked at: a watch that sees nothing would pass.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/hold_watch.hpp"
#include "tests/sim/powered_run.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;
using namespace troupe::sim::test;

namespace {

constexpr int64_t second_of_hold = 1'000'000'000;
constexpr double tight_w = 850;  // the job's slowest steps draw 639, its neighbour has 170

/// Of low priority: what its neighbour takes is cut from it.
simulation_options under_a_tight_budget(int steps) {
  auto o = four_nodes();
  o.seed = 3;
  o.steps = steps;
  o.power_parent_w = tight_w;
  return o;
}

bool is_neighbours(const granted_lease& g) {
  return g.static_share_mw == 170'000;
}

/// Whether a step begins within that time.
bool steps_within(const powered_run& r, int64_t from_ns, int64_t to_ns) {
  return std::any_of(r.shares.begin(), r.shares.end(),
                     [&](const auto& s) { return s.first >= from_ns && s.first < to_ns; });
}

template <class T, class Fill>
msg<T> told_to_job(Fill fill) {
  message_context c;
  c.sender = 7;
  c.epoch = 2;
  return make_msg<T>(c, fill);
}
auto pace_word(uint32_t pace, bool brake = false) {
  return told_to_job<fbs::JobPower>([&](auto& p) {
    p.pace_of_1024 = pace;
    p.brake = brake;
  });
}
auto pace_taken(uint64_t step, bool paused = false) {
  return told_to_job<fbs::PaceTaken>([&](auto& t) {
    t.step = step;
    t.paused = paused;
  });
}

}  // namespace

TEST_CASE("PWR-2: a simulated job that is shed saves, pauses, and goes on when there is room") {
  const auto free = run_powered(under_a_tight_budget(600));
  auto o = under_a_tight_budget(600);
  constexpr int64_t at_ns = 20 * second_of_hold, lasts_ns = 120 * second_of_hold;
  o.faults = {{fault_kind::actuator_lies, at_ns, lasts_ns, 2}};
  const auto done = run_powered(o);
  CHECK(done.outcome.ends == std::vector<std::string>{"success"});
  CHECK(done.outcome.recoveries.empty());
  CHECK(done.losses == free.losses);
  std::vector<int64_t> sheds_ns, ends_ns;  // its neighbour wishes for less meanwhile, now and then
  for (const auto& g : done.leases) {
    CHECK(!(g.shed && is_neighbours(g)));
    if (is_neighbours(g) || g.shed == (sheds_ns.size() > ends_ns.size())) continue;
    (g.shed ? sheds_ns : ends_ns).push_back(g.at_ns);
  }
  REQUIRE(!sheds_ns.empty());
  REQUIRE(ends_ns.size() == sheds_ns.size());
  CHECK(sheds_ns.front() >= at_ns);
  CHECK(sheds_ns.front() <= at_ns + 10 * second_of_hold);
  REQUIRE(done.saves_asked_ns.size() == sheds_ns.size());
  CHECK(done.outcome.checkpoints > free.outcome.checkpoints);
  for (size_t i = 0; i < sheds_ns.size(); ++i) {
    CHECK(done.saves_asked_ns[i] >= sheds_ns[i]);
    CHECK(done.saves_asked_ns[i] <= sheds_ns[i] + second_of_hold);
    CHECK(!steps_within(done, sheds_ns[i] + second_of_hold, ends_ns[i]));
    CHECK(steps_within(done, ends_ns[i], ends_ns[i] + 10 * second_of_hold));
  }
}

TEST_CASE("BGT-10: a simulated budget pulls its brake by itself, and no job is given up for it") {
  const auto free = run_powered(under_a_tight_budget(600));
  for (const bool pulls : {false, true}) {
    CAPTURE(pulls);
    auto o = under_a_tight_budget(600);
    o.power_pulls = pulls;
    constexpr int64_t at_ns = 20 * second_of_hold, lasts_ns = 600 * second_of_hold;
    o.faults = {{fault_kind::actuator_lies, at_ns, lasts_ns, 1, "1"},
                {fault_kind::actuator_lies, at_ns, lasts_ns, 1, "2"}};
    const auto done = run_powered(o);
    CHECK(done.outcome.ends == std::vector<std::string>{"success"});
    CHECK(done.outcome.recoveries.empty());
    CHECK(done.losses == free.losses);
    const auto braked =
        std::find_if(done.leases.begin(), done.leases.end(), [](const auto& g) { return g.brake; });
    REQUIRE((braked != done.leases.end()) == pulls);
    if (!pulls) continue;
    CHECK(braked->at_ns >= at_ns);
    CHECK(braked->at_ns <= at_ns + 30 * second_of_hold);
    CHECK(!done.leases.back().brake);
    CHECK(!steps_within(done, braked->at_ns + 10 * second_of_hold, at_ns + lasts_ns));
  }
}

TEST_CASE(
    "JPP-1: a simulated job whose device follows no pace is slowed, held, and goes on after it") {
  auto o = under_a_tight_budget(600);
  constexpr int64_t at_ns = 20 * second_of_hold, lasts_ns = 120 * second_of_hold;
  o.faults = {{fault_kind::actuator_lies, at_ns, lasts_ns, 1, "0"}};
  const auto done = run_powered(o);
  CHECK(done.outcome.ends == std::vector<std::string>{"success"});
  CHECK(done.outcome.recoveries.empty());
  CHECK(done.outcome.faults.size() == 1);
  CHECK(steps_within(done, at_ns, at_ns + 5 * second_of_hold));
  CHECK(!steps_within(done, at_ns + 25 * second_of_hold, at_ns + lasts_ns));
  constexpr int64_t tries_again_ns = 610 * second_of_hold;  // such steps are made once more
  CHECK(steps_within(done, at_ns + lasts_ns, at_ns + lasts_ns + tries_again_ns));
}

TEST_CASE("SIM-34: a simulated job whose devices follow late is not taken for a broken one") {
  auto o = under_a_tight_budget(2000);
  for (int i = 0; i < 6; ++i)
    o.faults.push_back({fault_kind::actuator_late, (10 + 10 * i) * second_of_hold,
                        15 * second_of_hold, 1, std::to_string(i % 4)});
  const auto done = run_powered(o);
  CHECK(done.outcome.ends == std::vector<std::string>{"success"});
  CHECK(done.outcome.recoveries.empty());
  CHECK(done.outcome.faults.size() == 6);
}

TEST_CASE("BGT-2: a simulated budget that promises more than it has is drawn on, and is braked") {
  auto o = four_nodes();
  o.seed = 2;
  o.steps = 1500;
  o.power_parent_w = 2500;
  const auto in_shares = run_powered(o);
  o.power_thresholds = true;
  const auto promised = run_powered(o);
  CHECK(promised.outcome.ends == std::vector<std::string>{"success"});
  CHECK(promised.outcome.recoveries.empty());
  CHECK(promised.losses == in_shares.losses);
  int64_t most_mw = 0;
  for (const auto& g : promised.leases) most_mw = std::max(most_mw, g.cap_mw);
  CHECK(most_mw == 2'800'000);  // the job's ceiling: more than all there is
}

TEST_CASE("SIM-34: an incident that nothing but watts explains, and a job that stays, are seen") {
  const auto incident = told_to_job<fbs::IncidentReport>([](auto& r) {
    r.incident = std::make_unique<fbs::IncidentT>();
    r.incident->finding = "stuck_device";
  });
  hold_watch watch;
  watch.begin();
  CHECK(watch.see(incident, 1));
  CHECK(!watch.see(pace_word(500), 2));
  CHECK(!watch.look(2 + 2 * hold_watch::goes_on_within_ns));  // it has not begun yet
  int64_t now = 3;
  CHECK(!watch.see(pace_taken(1), now));
  CHECK(!watch.look(now + hold_watch::goes_on_within_ns));
  CHECK(watch.look(now + hold_watch::goes_on_within_ns + 1));
  for (const bool brake : {false, true}) {  // held, however long
    CHECK(!watch.see(pace_word(brake ? 500 : 0, brake), now += 10));
    CHECK(!watch.look(now += 10 * hold_watch::goes_on_within_ns));
    CHECK(!watch.see(pace_word(500), now));
    CHECK(!watch.look(now + hold_watch::goes_on_within_ns));
    CHECK(watch.look(now + hold_watch::goes_on_within_ns + 1));
  }
  CHECK(!watch.see(pace_taken(1, true), now));  // by a person
  CHECK(!watch.look(now += 10 * hold_watch::goes_on_within_ns));
  CHECK(!watch.see(pace_taken(1), now));
  CHECK(!watch.look(now + hold_watch::goes_on_within_ns));
  CHECK(watch.look(now + hold_watch::goes_on_within_ns + 1));
  CHECK(!watch.see(told_to_job<fbs::RunEnded>([](auto&) {}), now));
  CHECK(!watch.look(now + 2 * hold_watch::goes_on_within_ns));
  CHECK(!watch.see(pace_taken(2), now));
  CHECK(watch.look(now + 2 * hold_watch::goes_on_within_ns));
  watch.befell();  // it may be anything
  CHECK(!watch.look(now + 2 * hold_watch::goes_on_within_ns));
  CHECK(!watch.see(incident, now));
}

TEST_CASE("SIM-35: a child that draws more than counts is seen, once it had time to be counted") {
  hold_watch watch;
  constexpr auto time_ns = hold_watch::counted_within_ns;
  CHECK(!watch.draws(101, 100, 0));
  CHECK(!watch.draws(101, 100, time_ns));
  CHECK(watch.draws(101, 100, time_ns + 1));
  CHECK(!watch.draws(101, 101, time_ns + 2));
  CHECK(!watch.draws(102, 101, time_ns + 3));
  CHECK(!watch.draws(102, std::nullopt, 2 * time_ns));  // nobody hears it
  CHECK(!watch.draws(102, 101, 3 * time_ns));
  CHECK(watch.draws(102, 101, 4 * time_ns + 1));
}
