// Slow machines in a simulated cluster, and who is named for them (SIM-36 to SIM-38).
#include "actors/sim/slowness_watch.hpp"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/sim/fuzz.hpp"
#include "actors/sim/named_faults.hpp"
#include "actors/sim/pace_model.hpp"
#include "actors/sim/simulation.hpp"
#include "messages/message_list.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

using train::pipeline_op;

constexpr int64_t a_ms = 1'000'000;
constexpr int64_t at_ns = 1'500 * a_ms, lasts_ns = 1'500 * a_ms;

/// Two stages of two ranks on a node each, which know what is normal before anything befalls.
simulation_options watched_cluster() {
  simulation_options o;
  o.nodes = 4;
  o.pipeline = 2;
  o.steps = 140;
  o.checkpoint_every = 0;
  o.meter_ms = 0;
  o.monitored = true;
  o.predictor = predictor_is::working;
  o.quiet_steps = 16;
  return o;
}

simulation_outcome watched_with(const std::vector<fault>& faults) {
  auto o = watched_cluster();
  o.faults = faults;
  auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  CHECK(done->ends == std::vector<std::string>{"success"});
  CHECK(done->faults.size() == faults.size());
  CHECK(done->slowness.looks > 100);
  return std::move(*done);
}

/// What the monitor shows: nothing but what is added, of a cluster that knows what is normal.
struct shown_slowness {
  fbs::FindingsT all;

  explicit shown_slowness(uint64_t steps) {
    all.quiet_steps = steps;
    all.quiet_steps_needed = 28;
  }
  shown_slowness& part(const std::string& node, const std::string& part,
                       const std::string& suspected) {
    auto& p = *all.parts.emplace_back(std::make_unique<fbs::ExpectedPartT>());
    p.node = node;
    p.part = part;
    p.suspected = suspected;
    return *this;
  }
  shown_slowness& finding(const std::string& name, const std::string& node) {
    auto& f = *all.findings.emplace_back(std::make_unique<fbs::FindingT>());
    f.name = name;
    f.node = node;
    return *this;
  }
};

}  // namespace

TEST_CASE("MON-2: where a simulated job stands still its monitor asks who waits, and goes on") {
  auto o = watched_cluster();
  o.heartbeat_ms = 1000;
  o.suspect_after_ms = 3000;
  o.dead_after_ms = 30'000;
  fault stands;
  stands.kind = fault_kind::freeze_node;
  stands.at_ns = at_ns;
  stands.lasts_ns = 9'000 * a_ms;
  stands.whom = "node2";
  o.faults = {stands};
  size_t questions = 0;
  o.sees = [&](const any_msg& m, int64_t) {
    questions += m.type() == message_traits<fbs::ListActors>::id ? 1 : 0;
  };
  const auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  CHECK(done->ends == std::vector<std::string>{"success"});
  CHECK(questions > 0);
}

TEST_CASE(
    "PMD-1: a slow section, a decay, spikes and all that is slow take so many times as long") {
  const slowdown section{fault_kind::slow_section, 2, pipeline_op::backward, 2, 10, 20, 0};
  pace_model paces;
  paces.add(section);
  CHECK(paces.times(2, pipeline_op::backward, 1, 10) == 2);
  CHECK(paces.times(2, pipeline_op::backward, 1, 9) == 1);
  CHECK(paces.times(2, pipeline_op::backward, 1, 20) == 1);
  CHECK(paces.times(2, pipeline_op::forward, 1, 10) == 1);
  CHECK(paces.times(1, pipeline_op::backward, 1, 10) == 1);
  paces.add({fault_kind::slow_all, 0, pipeline_op::count, 3, 15, 30, 0});
  CHECK(paces.times(2, pipeline_op::backward, 1, 15) == 6);
  CHECK(paces.times(1, pipeline_op::update, 1, 25) == 3);
  const slowdown decay{fault_kind::decay, 1, pipeline_op::count, 2, 100, 200, 0};
  CHECK(times_of(decay, 1, 1, 100) == 1);
  CHECK(times_of(decay, 1, 1, 150) == doctest::Approx(1.5));
  const slowdown spikes{fault_kind::spikes, 1, pipeline_op::count, spike_times, 0, 1, 7};
  int seen = 0;
  for (uint64_t step = 0; step < 100'000; ++step) {
    const auto times = times_of(spikes, 1, step, 0);
    seen += times == spike_times;
    CHECK((times == 1 || times == spike_times));
  }
  CHECK(seen > 800);
  CHECK(seen < 1200);
}

TEST_CASE("SIM-36: nobody is named without a fault, nor for single steps that are longer (PRD-2)") {
  CHECK(watched_with({}).slowness.suspects == 0);
  const auto spiky = watched_with({{fault_kind::spikes, 100 * a_ms, 10'000 * a_ms, 1, "node0"},
                                   {fault_kind::spikes, 100 * a_ms, 10'000 * a_ms, 2, "node1"},
                                   {fault_kind::spikes, 100 * a_ms, 10'000 * a_ms, 3, "node2"},
                                   {fault_kind::spikes, 100 * a_ms, 10'000 * a_ms, 4, "node3"}});
  CHECK(spiky.slowness.named == 0);
  CHECK(spiky.slowness.jobs == 0);
}

TEST_CASE("SIM-37: a machine that has become slow is named, with its section (PRD-3)") {
  for (const auto section : slow_sections) {
    const auto whom = fmt::format("node2/{}", train::facts_of(section).name);
    CAPTURE(whom);
    for (const uint64_t random : {1, 2, 3})
      CHECK(watched_with({{fault_kind::slow_section, at_ns, lasts_ns, random, whom}})
                .slowness.named == 1);
  }
  CHECK(watched_with({{fault_kind::slow_device, at_ns, lasts_ns, 0, "3"}}).slowness.named == 1);
  CHECK(watched_with({{fault_kind::decay, at_ns, 2 * lasts_ns, 5, "node1"}}).slowness.named == 1);
}

TEST_CASE("SIM-38: where all become slow it is the job, and nobody is named (PRD-4)") {
  const auto done = watched_with({{fault_kind::slow_all, at_ns, lasts_ns, 4}});
  CHECK(done.slowness.jobs == 1);
  CHECK(done.slowness.named == 0);
}

TEST_CASE("SIM-36 to SIM-38: what is shown wrongly of slowness is noticed") {
  const told_slowness of_node{fault_kind::slow_section, "node1", "backward", 0, 1'000};
  const auto slow = [](uint64_t steps) {
    return shown_slowness(steps).part("node1", "backward", "slow");
  };
  slowness_watch watch(4);
  CHECK(!watch.hear(shown_slowness(30).all, 0));
  CHECK(watch.hear(slow(31).all, 0));
  CHECK(watch.hear(shown_slowness(31).finding("slow_part", "node1").all, 0));
  CHECK(watch.hear(shown_slowness(31).finding("straggler", "node1").all, 0));
  CHECK(watch.hear(shown_slowness(31).part("", "backward", "job").all, 0));
  CHECK(watch.hear(shown_slowness(31).part("", "send_gradient", "link").all, 0));
  CHECK(watch.doubted("node1"));
  watch.becomes(of_node);
  CHECK(!watch.hear(slow(32).all, 1));
  CHECK(watch.hear(slow(32).part("node1", "forward", "slow").all, 1));
  CHECK(watch.hear(slow(33).part("node0", "backward", "slow").all, 1));
  CHECK(!watch.doubted("node1"));
  CHECK(watch.counted().named == 1);
  SUBCASE("one that is not named") {
    slowness_watch late(4);
    CHECK(!late.hear(shown_slowness(30).all, 0));
    late.becomes(of_node);
    CHECK(!late.hear(shown_slowness(31).all, 1));
    CHECK(!late.hear(shown_slowness(31 + slowness_watch::named_within).all, 1));
    CHECK(late.hear(shown_slowness(32 + slowness_watch::named_within).all, 1));
    CHECK(!late.hear(shown_slowness(90).all, 1'000));  // it is over
  }
  SUBCASE("all that are slow") {
    slowness_watch all(4);
    CHECK(!all.hear(shown_slowness(30).all, 0));
    all.becomes({fault_kind::slow_all, "", {}, 0, 1'000});
    CHECK(!all.hear(shown_slowness(31).all, 1));
    CHECK(all.hear(slow(32).all, 1));
    CHECK(all.hear(shown_slowness(32 + slowness_watch::named_within).all, 1));
    CHECK(!all.hear(shown_slowness(60).part("", "backward", "job").all, 1));
  }
  SUBCASE("most that are slow, one by one") {
    slowness_watch most(4);
    most.becomes(of_node);
    CHECK(most.hear(shown_slowness(30).part("", "backward", "job").all, 1));
    most.becomes({fault_kind::decay, "node2", {}, 0, 1'000});
    CHECK(!most.hear(shown_slowness(30).part("", "backward", "job").all, 1));
  }
  SUBCASE("one that always was") {
    slowness_watch unlike(4);
    unlike.is_slower("node1");
    CHECK(!unlike.hear(shown_slowness(30).part("node1", "update", "misconfigured").all, 0));
    CHECK(unlike.hear(shown_slowness(30).part("node1", "update", "slow").all, 0));
    CHECK(unlike.hear(shown_slowness(30).part("node0", "update", "misconfigured").all, 0));
  }
  SUBCASE("what else may look like slowness is not judged") {
    slowness_watch ailing(4);
    ailing.ails();
    CHECK(!ailing.hear(slow(31).all, 0));
    CHECK(!ailing.doubted("node1"));
  }
}

TEST_CASE("PRD-1 to PRD-4: random clusters some machines of which become slow violate nothing") {
  slowness_counts sum;
  uint64_t steps = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    auto done = simulate(fuzzed_watched(seed, all_faults()));
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
    INFO("faults: ", fmt::format("{}", fmt::join(done->faults, "; ")));
    CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
    CHECK(done->ends == std::vector<std::string>{"success"});
    steps += done->steps;
    sum.looks += done->slowness.looks;
    sum.named += done->slowness.named;
    sum.jobs += done->slowness.jobs;
  }
  CHECK(sum.looks > steps / 2);
  CHECK(sum.named > 10);
  CHECK(sum.jobs > 5);
}

TEST_CASE(
    "fuzz: of random clusters without more said some have slow machines, and some who looks") {
  const fuzz_options plain{.first = 1, .seeds = 1000, .kinds = all_faults()};
  int watched = 0, slow = 0;
  for (uint64_t seed = 1; seed <= plain.seeds; ++seed) {
    const auto o = options_of(plain, seed);
    watched += o.monitored && !o.slack;
    bool has_some = false;
    for (const auto& f : o.faults) has_some |= is_of_pace(f.kind);
    slow += has_some && !o.monitored;
  }
  CHECK(watched == 50);
  CHECK(slow > 200);
  const fuzz_options named{.first = 1, .seeds = 1, .kinds = {fault_kind::crash_node}};
  for (uint64_t seed = 1; seed <= 40; ++seed) CHECK(!options_of(named, seed).monitored);
}
