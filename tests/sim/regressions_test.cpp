// What the simulation has found, each finding as a sweep of one fault over all the moments of a
// short run: a seed would test something else after the next change of the code.
#include <doctest/doctest.h>
#include <spdlog/spdlog.h>

#include "actors/sim/simulation.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr int64_t us = 1'000;

struct sweep_of {
  fault_kind kind;
  std::vector<uint64_t> random_numbers;  ///< victims or variants
  int64_t from_us = 0, to_us = 290'000, every_us = 4'000;
  int checkpoint_every = 2;
};

/// A run of two nodes, two stages and four steps lasts up to 0.29 virtual seconds.
simulation_options short_run(const fault& f, int checkpoint_every) {
  simulation_options o;
  o.seed = 11 + f.random;
  o.nodes = 2;
  o.pipeline = 2;
  o.steps = 4;
  o.checkpoint_every = checkpoint_every;
  o.validate_every = 2;
  o.launches = 2;
  o.faults = {f};
  return o;
}

void survives(const sweep_of& s) {
  spdlog::set_level(spdlog::level::off);  // what the actors log of foreign faults
  size_t befell = 0;
  for (const auto random : s.random_numbers)
    for (int64_t at = s.from_us; at < s.to_us; at += s.every_us) {
      CAPTURE(random);
      CAPTURE(at);
      const fault f{s.kind, at * us + static_cast<int64_t>(random), 0, random};
      const auto done = simulate(short_run(f, s.checkpoint_every));
      REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
      CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
      befell += done->faults.size();
    }
  CHECK(befell > s.random_numbers.size() * static_cast<size_t>(s.to_us - s.from_us) /
                     static_cast<size_t>(s.every_us) / 4);
}

std::vector<uint64_t> up_to(uint64_t n) {
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

}  // namespace

// Run and coordinator both told the reporter of the end, with different reasons.
TEST_CASE("simulation found: the end is told once, whenever a node crashes") {
  survives({fault_kind::crash_node, up_to(2), 0, 290'000, 1'000});
}

// Odd random_numbers stop without saving: a run that had done all its steps succeeded without a
// checkpoint. Of four steps the third is saved on the way, so that the last one is saved at the end
// only.
TEST_CASE("simulation found: a stop after the last step comes too late") {
  survives({fault_kind::stop_run, up_to(2), 0, 290'000, 1'000, 3});
}

// A run that is killed once it has told its end, before its coordinator has gone.
TEST_CASE("simulation found: the end is told once, when the run is killed after it") {
  survives({fault_kind::kill_actor, up_to(16), 260'000, 290'000, 500});
}

// Coordinator, run, stage and loader changed their state by messages of an epoch that had ended,
// and a node that had not joined yet took orders from anybody. Each number is another message.
TEST_CASE("simulation found: messages of the past change nothing") {
  survives({fault_kind::old_message, up_to(16), 0, 290'000, 4'000});
}

// A killed node left its workers behind, a killed run left the cluster waiting for ever.
TEST_CASE("simulation found: whoever is killed, nothing is left behind and the end is told") {
  survives({fault_kind::kill_actor, up_to(11), 0, 290'000, 4'000});
}

// A node that slept through a recovery wakes and makes a step of the epoch that is over, with the
// rate of then (SIM-11 looked at it by step alone).
TEST_CASE("simulation found: what a late host uses is of its own epoch") {
  size_t finished = 0;
  for (int64_t at = 0; at < 600; ++at) {  // the setting is to come right after the recovery
    const auto at_ms = 200 + 10 * (at % 15), set_ms = at_ms + 800 + 10 * (at / 15);
    CAPTURE(at_ms);
    CAPTURE(set_ms);
    constexpr int64_t ms = 1'000'000;
    auto o = short_run({fault_kind::freeze_node, at_ms * ms, 30'000 * ms, 0}, 0);
    o.nodes = 1;
    o.workers = 2;
    o.spares = 1;
    o.recovers = true;
    o.relaunches = false;  // what is lost wakes
    o.dead_after_ms = 800;
    o.steps = 8;
    o.faults.push_back({fault_kind::set_value, set_ms * ms, 0, 0});
    const auto done = simulate(o);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
    CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
    finished += done->launches == 1 && done->ends.front() == "success";
  }
  CHECK(finished > 500);
}
