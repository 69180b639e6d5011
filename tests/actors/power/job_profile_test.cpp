// The profile that a job measures in its first steps, by its pacer: which clocks a run is told of,
// what a person hears, and that slack begins with what comes of it.
#include "actors/power/job_profile.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/actors/power/made_pipeline.hpp"
#include "tests/actors/power/scripted_pacer.hpp"
#include "tests/actors/power/slack_profiles.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::power::test::made_pipeline;
using troupe::power::test::pacer_epoch;
using troupe::power::test::scripted_pacer;

namespace {

constexpr int profiled_micro_batches = 8;

/// A job of two replicas without a profile, by its pacer.
struct unprofiled_job {
  made_pipeline made;
  std::optional<live_profile> taken;
  planned_slack_ptr plan;
  scripted_pacer f;
  fbs::StepMadeT said;
  std::optional<fbs::JobClocksT> told;  ///< last
  std::vector<std::string> notices;
  uint32_t epoch = pacer_epoch;
  bool has_second_meters = false;  ///< of other nodes on the same machines, which say less often
  int beats = 0;

  unprofiled_job() {
    made.truth = a100_form(2);
    made.slowness = {1, 1};
    pacer_options options{0, pacer_epoch};
    options.slack = [this] { return plan; };
    options.profiles = profile_order{made.blocking_w, [this](const auto& p) { taken = p; }};
    f.start(options);
    said.stages = 2;
    said.micro_batches = profiled_micro_batches;
    said.sets_clocks = said.saves_energy = true;
    said.replica_s = {1, 1};
    for (int s = 0; s < 2; ++s) {
      auto& ladder = *said.ladders.emplace_back(std::make_unique<fbs::StageLadderT>());
      for (const int mhz : made.clocks()) ladder.mhz.push_back(static_cast<uint32_t>(mhz));
    }
  }
  uint32_t clock_of(size_t stage, size_t replica) const {
    if (!told || told->of_replica.empty()) return 1410;
    return told->tables[told->of_replica[replica]]->stages[stage]->mhz.front();
  }
  void beat(const std::string& node, size_t machine, double energy_j, bool modelled) {
    f.coordinator.tell(f.target, make_msg<fbs::Heartbeat>(f.context(), [&](fbs::HeartbeatT& h) {
                         h.vitals = std::make_unique<fbs::VitalsT>();
                         h.vitals->node = node;
                         h.vitals->power = std::make_unique<fbs::PowerVitalsT>();
                         auto& p = *h.vitals->power;
                         p.machine = fmt::format("boot{}", machine);
                         p.power_w = 300;
                         p.energy_j = energy_j;
                         p.interval_ms = 1000;
                         p.source =
                             modelled ? fbs::PowerSource::modelled : fbs::PowerSource::measured;
                       }));
  }
  void beat(bool modelled) {
    for (size_t m = 0; m < made.joules.size(); ++m) {
      beat(fmt::format("node{}", m), m, made.joules[m], modelled);
      f.pass(1ms);
      if (has_second_meters && ++beats % 3 == 0)  // which began to count later
        beat(fmt::format("other{}", m), m, std::max(0.0, made.joules[m] - 700), modelled);
    }
  }
  void tell() {
    f.run.tell(f.target, make_msg<fbs::StepMade>(f.context_of(epoch), said));
    for (const auto& m : f.run.take_all<fbs::JobClocks>()) {
      told = m.m.unpack();
      if (!told->notice.empty()) notices.push_back(told->notice);
    }
  }
  void put_ranks() {
    said.nodes.clear();
    for (auto* v : {&said.rank_node, &said.rank_stage, &said.rank_replica}) v->clear();
    for (auto* v : {&said.rank_forward_s, &said.rank_backward_s, &said.rank_busy_s}) v->clear();
    for (const auto& r : made.ranks) {
      said.rank_node.push_back(static_cast<uint32_t>(said.nodes.size()));
      said.nodes.push_back(fmt::format("node{}", said.nodes.size()));
      said.rank_stage.push_back(static_cast<uint32_t>(r.stage));
      said.rank_replica.push_back(static_cast<uint32_t>(r.replica));
      said.rank_forward_s.push_back(static_cast<float>(r.forward_s));
      said.rank_backward_s.push_back(static_cast<float>(r.backward_s));
      said.rank_busy_s.push_back(static_cast<float>(r.busy_s));
    }
  }
  /// One at the clocks that it is told.
  void step(bool modelled = false) {
    ++said.step;
    said.trial = told ? told->trial : 0;
    made.make([this](size_t s, size_t d) { return static_cast<int>(clock_of(s, d)); });
    said.step_s = static_cast<double>(made.step_ns) / 1e9;
    put_ranks();
    f.pass(std::chrono::nanoseconds(made.step_ns));
    beat(modelled);
    tell();
  }
  /// The run has other ranks, which have made no step yet.
  void recover() {
    ++epoch;
    told.reset();
  }
  /// So many steps at most.
  void measure(bool modelled = false, int most = 300) {
    for (int i = 0; i < most && !taken; ++i) step(modelled);
  }
};

}  // namespace

TEST_CASE("JPR-1: pacer: a job without a profile measures one, and its slack begins with that") {
  unprofiled_job job;
  job.step();
  REQUIRE(job.told);
  CHECK(job.told->state == "profiling");
  CHECK(job.told->trial == 1);
  REQUIRE(job.told->of_replica.size() == 2);
  const auto& first = *job.told->tables[0]->stages[1];
  CHECK(first.mhz == std::vector<uint32_t>(2 * profiled_micro_batches, 1410));
  CHECK(first.holds);
  CHECK(job.f.status().slack.starts_with("measures clocks: step 0 of "));
  job.step();
  CHECK(job.f.status().slack.starts_with("measures clocks: step 1 of "));
  while (job.told->trial == 1) job.step();
  CHECK(job.clock_of(0, 0) != job.clock_of(0, 1));  // spread over ranks
  job.measure();
  REQUIRE(job.taken);
  CHECK_FALSE(job.taken->modelled);
  CHECK(job.told->state == "profiled");
  CHECK(job.told->of_replica.empty());
  CHECK(job.notices.size() == 2);
  const auto truth = job.made.only(tried_clocks(job.made.clocks(), {}));
  for (int s = 0; s < 2; ++s)
    for (const auto which : {instruction::forward, instruction::backward}) {
      const auto &is = job.taken->profile.rows(s, which), &should = truth.rows(s, which);
      REQUIRE(is.size() == should.size());
      for (size_t i = 0; i < is.size(); ++i) {
        CHECK(is[i].time_s == doctest::Approx(should[i].time_s).epsilon(1e-3));
        CHECK(is[i].energy_j == doctest::Approx(should[i].energy_j).epsilon(1e-2));
      }
    }

  auto made = std::make_shared<planned_slack>();
  made->policy = std::make_unique<frontier_policy>(job.taken->profile, profiled_micro_batches, 84);
  made->plan = plan_slack(*made->policy, planned_frontier(*made->policy), made->set_s);
  made->note = "it is in clocks.csv";
  job.plan = made;
  job.said.replica_s.assign(2, made->plan.highest.time_s);
  for (int i = 0; i < live_slack_terms().measured_steps; ++i) job.step();
  CHECK(job.told->state == "planned");
  CHECK(job.told->trial == 0);
  CHECK(job.told->of_replica.size() == 2);
  CHECK(std::ranges::count(job.notices, "it is in clocks.csv") == 1);
}

TEST_CASE("JPR-4: pacer: of two nodes on a machine one's meter counts") {
  unprofiled_job job;
  job.has_second_meters = true;
  job.measure();
  REQUIRE(job.taken);
  const auto truth = job.made.only(tried_clocks(job.made.clocks(), {}));
  for (int s = 0; s < 2; ++s) {
    const auto &is = job.taken->profile.rows(s, instruction::forward),
               &should = truth.rows(s, instruction::forward);
    REQUIRE(is.size() == should.size());
    for (size_t i = 0; i < is.size(); ++i)
      CHECK(is[i].energy_j == doctest::Approx(should[i].energy_j).epsilon(1e-2));
  }
}

TEST_CASE("JPR-1: pacer: behind a recovery lower clocks wait until it is known what is usual") {
  unprofiled_job job;
  job.step();
  while (job.told->trial < 3) job.step();
  const auto clock = job.clock_of(0, 0);
  CHECK(clock < 1410);
  job.recover();
  for (int i = 1; i < job_profile::warming_steps; ++i) {
    job.step();
    REQUIRE(job.told);
    CHECK(job.told->state == "profiling");
    CHECK(job.told->trial == 0);
    CHECK(job.told->of_replica.empty());
    CHECK(job.told->of_epoch == job.epoch);
  }
  job.step();
  CHECK(job.told->trial == 4);  // the third again
  CHECK(job.clock_of(0, 0) == clock);
  CHECK(job.notices.size() == 1);
  job.measure();
  CHECK(job.taken);
}

TEST_CASE("JPR-5: pacer: steps that a budget paces are none of a trial's, and are not said to be") {
  unprofiled_job job;
  job.step();
  while (job.told->trial < 3) job.step();
  const auto clock = job.clock_of(0, 0);
  job.said.paced = true;
  job.step();
  CHECK(job.told->state == "off: paced");
  CHECK(job.f.status().slack == "off: paced");
  CHECK(job.told->trial == 0);
  CHECK(job.told->of_replica.empty());
  job.said.paced = false;
  job.step();
  CHECK(job.told->state == "profiling");
  CHECK(job.told->trial == 3);  // it goes on with it
  CHECK(job.clock_of(0, 0) == clock);
  CHECK(job.notices.size() == 1);
  job.measure();
  CHECK(job.taken);
}

TEST_CASE("JPR-1: pacer: what is usual is known of steps that nothing paces") {
  unprofiled_job job;
  job.step();
  while (job.told->trial < 2) job.step();
  job.recover();
  job.said.paced = true;
  for (int i = 0; i < 5; ++i) job.step();
  job.said.paced = false;
  for (int i = 1; i < job_profile::warming_steps; ++i) {
    job.step();
    CHECK(job.told->of_replica.empty());
  }
  job.step();
  CHECK(job.told->trial == 3);  // the second again
}

TEST_CASE("LPP-3: pacer: ranks that begin anew before they had lower clocks do not by those") {
  unprofiled_job job;
  job.step();
  while (job.told->trial < 2) job.step();
  for (int i = 0; i < 5; ++i) {
    job.recover();
    job.step();  // the first of those in which it is learned what is usual
  }
  job.measure();
  REQUIRE(job.taken);
  CHECK(job.taken->profile.rows(0, instruction::forward).size() ==
        tried_clocks(job.made.clocks(), {}).size());
}

TEST_CASE("JPR-1: pacer: joules that were calculated are told as that") {
  unprofiled_job job;
  job.measure(true);
  REQUIRE(job.taken);
  CHECK(job.taken->modelled);
}

TEST_CASE("JPR-2: pacer: where no clock can be set, or saves anything, none is tried") {
  struct other {
    void (*change)(fbs::StepMadeT&);
    const char* state;
  };
  for (const auto& one : {other{[](auto& s) { s.saves_energy = false; }, "off: no_saving"},
                          other{[](auto& s) { s.sets_clocks = false; }, "off: no_clocks"},
                          other{[](auto& s) { s.ladders.clear(); }, "off: no_clocks"},
                          other{[](auto& s) { s.ladders[1]->mhz.clear(); }, "off: no_clocks"},
                          other{[](auto& s) { s.failed = 1; }, "off: refused"}}) {
    CAPTURE(one.state);
    unprofiled_job job;
    one.change(job.said);
    job.step();
    REQUIRE(job.told);
    CHECK(job.told->state == one.state);
    CHECK(job.told->warns);
    CHECK(job.told->of_replica.empty());
    CHECK(job.f.status().slack == one.state);
    job.step();
    CHECK(job.notices.size() == 1);
  }
}

TEST_CASE("JPR-3: pacer: a step whose ranks say what cannot be is none of a trial's") {
  using change = void (*)(fbs::StepMadeT&);
  for (const change wrong :
       {change([](auto& s) { s.rank_forward_s[0] = -1; }),
        change([](auto& s) { s.rank_busy_s.pop_back(); }),
        change([](auto& s) { s.rank_node[1] = 99; }), change([](auto& s) { s.rank_stage[1] = 2; }),
        change([](auto& s) { s.rank_replica[1] = 2; }), change([](auto& s) { s.step_s = 0; })}) {
    unprofiled_job job;
    job.step();
    job.said.trial = job.told->trial;
    job.said.step_s = 1;
    job.put_ranks();
    wrong(job.said);
    job.f.run.tell(job.f.target, make_msg<fbs::StepMade>(job.f.context(), job.said));
    CHECK(job.f.status().slack.starts_with("measures clocks: step 0 of "));
  }
}
