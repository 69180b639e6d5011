// Whole clusters under a power budget, on virtual time: what their meters say stays within it, all
// ranks work at one pace, nobody is thought lost or hung for it, and results are those without it.
#include <doctest/doctest.h>

#include "actors/sim/fuzz.hpp"
#include "actors/sim/power_watch.hpp"
#include "messages/registry.hpp"
#include "tests/sim/powered_run.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;
using namespace troupe::sim::test;

namespace {

constexpr int64_t ms = 1'000'000, s = 1000 * ms;

}  // namespace

TEST_CASE(
    "PWR-4: a simulated job keeps its budget at one pace for all ranks, and computes the same") {
  const auto free = run_powered(four_nodes());
  CHECK(free.outcome.ends == std::vector<std::string>{"success"});
  CHECK(free.watts.empty());  // nobody asked
  auto o = four_nodes();
  o.budget_w = 900;  // of 4 x 75 W idle, and some 1,700 W at full speed
  const auto braked = run_powered(o);
  CHECK(braked.outcome.ends == std::vector<std::string>{"success"});
  CHECK(braked.losses == free.losses);
  size_t below = 0;
  for (const auto& [step, paces] : braked.paces) {
    CHECK(paces.size() == 1);
    below += *paces.begin() < 1024 ? 1 : 0;
  }
  CHECK(below == braked.paces.size());
  CHECK(braked.waited_ms > 0);
  CHECK(braked.energy_j > 0);
  const auto settled = braked.outcome.virtual_ns / 2;
  CHECK(mean_w(braked, settled) <= 1.02 * o.budget_w);
  CHECK(mean_w(braked, settled) >= 0.95 * o.budget_w);
  CHECK(braked.outcome.virtual_ns > free.outcome.virtual_ns * 3 / 2);
}

TEST_CASE("JPP-10: a simulated job on a ramp rises as slowly, with the same losses") {
  const auto free = run_powered(four_nodes());
  auto o = four_nodes();
  o.ramp_w_s = 60;  // of some 1,400 W above what is drawn idle
  const auto ramped = run_powered(o);
  CHECK(ramped.outcome.ends == std::vector<std::string>{"success"});
  CHECK(ramped.losses == free.losses);
  REQUIRE(ramped.shares.size() > 10);
  const auto began_ns = ramped.shares.front().first;
  CHECK(ramped.shares.front().second <= 0.1);
  for (const auto& [at_ns, share] : ramped.shares)
    if (at_ns - began_ns < 10 * s) CHECK(share < 0.6);  // 660 W of 1,400, at most
  CHECK(ramped.shares.back().second == 1);
  for (const auto& [step, paces] : ramped.paces) CHECK(paces.size() == 1);
  CHECK(ramped.outcome.virtual_ns > free.outcome.virtual_ns);
}

TEST_CASE(
    "JPP-6: a simulated job whose budget a person cuts draws no more than that from then on") {
  auto o = four_nodes();
  o.budget_w = 1500;
  o.faults = {{fault_kind::budget_cut, 60 * s, 0, 200}};
  const double cut_w = least_budget_w(o) + 0.2 * (o.budget_w - least_budget_w(o));
  const auto done = run_powered(o);
  CHECK(done.outcome.ends == std::vector<std::string>{"success"});
  REQUIRE(done.outcome.faults.size() == 1);
  CHECK(mean(done.watts, 30 * s, 60 * s) >= 0.95 * o.budget_w);
  CHECK(mean(done.watts, 65 * s, 90 * s) <= 1.02 * cut_w);
  CHECK(mean(done.watts, 65 * s, 90 * s) >= 0.9 * cut_w);
}

TEST_CASE("JPP-3: a simulated job goes on while a machine's meters are silent, and slower") {
  auto o = four_nodes();
  o.budget_w = 1000;
  o.faults = {{fault_kind::meter_silent, 60 * s, 40 * s, 0}};
  const auto done = run_powered(o);
  CHECK(done.outcome.ends == std::vector<std::string>{"success"});
  REQUIRE(done.outcome.faults.size() == 1);
  const auto before = mean(done.shares, 40 * s, 60 * s);
  const auto silent = mean(done.shares, 75 * s, 100 * s);
  CHECK(silent < 0.95 * before);
  CHECK(silent > 0.3 * before);
  CHECK(mean(done.shares, 140 * s, 200 * s) == doctest::Approx(before).epsilon(0.1));
}

TEST_CASE("power: random clusters under a budget, and faults, violate nothing") {
  constexpr uint64_t seeds = 60;
  const fuzz_options o{.first = 1, .seeds = seeds, .kinds = all_power_faults(), .budget = true};
  const auto done = fuzz(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  if (done->failure) {
    MESSAGE(replay_command(o, done->failure->seed));
    FAIL_CHECK(done->failure->what.message);
  }
  CHECK(done->faults > seeds / 4);
}

TEST_CASE("SIM-28, SIM-29: paces that differ, and one that nobody told, are seen") {
  power_watch watch(100);
  const auto told = [](uint32_t pace) {
    return make_msg<fbs::JobPower>(message_context{.sender = 7},
                                   [&](auto& p) { p.pace_of_1024 = pace; });
  };
  const auto step = [](uint64_t number, uint32_t pace, uint64_t sender = 7, uint32_t epoch = 0) {
    message_context c;
    c.sender = sender;
    c.epoch = epoch;
    return make_msg<fbs::RunStep>(c, [&](auto& s) {
      s.step = number;
      s.pace_of_1024 = pace;
    });
  };
  CHECK(watch.see(step(1, 1024)));
  CHECK(!watch.see(told(500)));
  CHECK(!watch.see(step(1, 500)));
  CHECK(!watch.see(told(600)));
  CHECK(watch.see(step(1, 600)));
  CHECK(!watch.see(step(2, 600)));
  CHECK(watch.see(step(3, 700)));
  CHECK(!watch.see(step(4, 700, 0)));
  watch.begin(2);
  CHECK(watch.see(step(5, 600, 7, 2)));
  CHECK(watch.see(step(5, 600, 7, 3)));
  CHECK(!watch.see(step(5, 600)));  // of the head before, late
  CHECK(watch.see(step(6, 800)));
}

TEST_CASE(
    "PWR-3: a budget below what its machines draw without steps lets none begin, and says so") {
  auto o = four_nodes();
  o.budget_w = 250;
  o.steps = 5;
  o.faults = {{fault_kind::stop_run, 60'000 * ms, 0, 1}};
  const auto held = run_powered(o);
  CHECK(held.paces.empty());
  CHECK(held.outcome.steps == 0);
}
