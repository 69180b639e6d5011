// Simulated jobs that take slack, with all that plans it, and what befalls them meanwhile; and that
// this is looked at: a watch that sees nothing would pass (SIM-39 to SIM-44).
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <flatbuffers/flatbuffers.h>

#include "actors/sim/clocked_engine.hpp"
#include "actors/sim/device_clocks.hpp"
#include "actors/sim/fuzz.hpp"
#include "actors/sim/named_faults.hpp"
#include "actors/sim/simulation.hpp"
#include "actors/sim/slack_watch.hpp"
#include "tests/sim/powered_run.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;
using troupe::sim::test::as;

namespace {

constexpr int64_t slack_ms = 1'000'000, slack_second = 1'000 * slack_ms;

/// Two replicas of four unlike stages, a machine each: steps of some 2.6 s.
simulation_options slack_cluster(int steps, slack_from by = slack_from::profile) {
  simulation_options o;
  o.nodes = 8;
  o.pipeline = 4;
  o.micro_batches = 8;
  o.steps = steps;
  o.checkpoint_every = 0;
  o.meter_ms = 500;
  o.heartbeat_ms = 500;
  o.suspect_after_ms = 1500;
  o.dead_after_ms = 4000;
  o.times.jitter = 0.004;
  constexpr int64_t forward_ms[] = {76, 80, 72, 85};
  for (const auto ms : forward_ms)
    o.times.stages.push_back(
        {ms * slack_ms, 2 * ms * slack_ms, o.times.update_ns, o.times.save_ns});
  o.slack = true;
  o.slack_by = by;
  return o;
}

struct slack_run {
  simulation_outcome outcome;
  std::map<uint64_t, double> losses, step_s;
  std::map<uint64_t, std::string> states;
  std::map<uint64_t, uint32_t> lowest_mhz;  ///< of a step that had clocks
};

slack_run run_slack_job(simulation_options o, bool succeeds = true) {
  slack_run out;
  o.sees = [&](const any_msg& m, int64_t) {
    if (const auto* step = as<fbs::RunStep>(m); step != nullptr && step->clocks() != nullptr)
      for (const auto mhz : *step->clocks()->mhz()) {
        auto& lowest = out.lowest_mhz.try_emplace(step->step(), mhz).first->second;
        lowest = std::min(lowest, mhz);
      }
    if (const auto* report = as<fbs::StepReport>(m)) {
      out.step_s[report->step()] = report->step_ms() / 1000;
      out.losses[report->step()] = report->loss();
      out.states[report->step()] = report->slack() != nullptr ? report->slack()->str() : "";
    }
  };
  auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  out.outcome = std::move(*done);
  CHECK_MESSAGE(!out.outcome.violation, out.outcome.violation.value_or(""));
  if (succeeds) CHECK(out.outcome.ends == std::vector<std::string>{"success"});
  return out;
}

slack_run run_without_slack(simulation_options o) {
  o.slack = false;
  o.slack_by = slack_from::beside;
  return run_slack_job(std::move(o));
}

bool has_state(const slack_run& r, const std::string& state) {
  return std::any_of(r.states.begin(), r.states.end(),
                     [&](const auto& s) { return s.second == state; });
}
const std::string& last_state(const slack_run& r) {
  return r.states.rbegin()->second;
}

template <class T, class Fill>
msg<T> said_of_slack(Fill fill) {
  message_context c;
  c.sender = 7;
  c.epoch = 2;
  return make_msg<T>(c, fill);
}

/// The loss of a step of a rank alone whose micro-batches went forth and back in this order.
double loss_of_turns(bool has_clocks,
                     const std::vector<std::pair<train::pipeline_op, int>>& turns) {
  constexpr int64_t patience_ns = 3600 * slack_second;
  world_options of;
  of.nodes = 2;
  world w(of);
  environment room(w, {}, {});
  train::engine_options o;
  o.epoch = 2;
  std::unique_ptr<train::engine> engine;
  if (has_clocks)
    engine = std::make_unique<clocked_engine>(&room, 1, o);
  else
    engine = std::make_unique<timed_engine>(&room, 1, o);
  train::op_order order;
  order.step = 1;
  engine->run(order, [](const status&) {});
  size_t done = 0;
  for (const auto& [kind, micro_batch] : turns) {
    order.kind = kind;
    order.micro_batch = micro_batch;
    engine->run(order, [&](const status& s) { done += s ? 1 : 0; });
  }
  CHECK(w.run(patience_ns, [&] { return done == turns.size(); }));
  std::optional<double> loss;
  engine->update(1, 0.1, [&](const status& s, const train::step_outcome& told) {
    if (s) loss = told.loss_sum;
  });
  CHECK(w.run(patience_ns, [&] { return loss.has_value(); }));
  engine.reset();
  w.end();
  return loss.value_or(0);
}

/// Steps as a run tells of them.
struct watched_slack {
  slack_watch watch;
  double joules = 0;
  uint64_t step = 0;
  int64_t now_ns = slack_second;

  explicit watched_slack(const slack_watch_terms& terms = {}) : watch(terms) { watch.begin_head(); }
  /// `mhz` 0: at the highest clocks.
  std::optional<std::string> make(const std::string& state, uint32_t mhz, double s, double j,
                                  bool trial = false, double loss = 3) {
    ++step;
    const auto begun = said_of_slack<fbs::RunStep>([&](auto& r) {
      r.step = step;
      if (mhz == 0) return;
      r.clocks = std::make_unique<fbs::StageClocksT>();
      r.clocks->mhz = {mhz};
      r.clocks->holds = trial;
    });
    if (auto wrong = watch.see(begun, joules, now_ns)) return wrong;
    now_ns += static_cast<int64_t>(s * 1e9);
    joules += j;
    return watch.see(said_of_slack<fbs::StepReport>([&](auto& r) {
                       r.step = step;
                       r.step_ms = s * 1000;
                       r.loss = loss;
                       r.slack = state;
                     }),
                     joules, now_ns);
  }
  void measure() {
    for (int i = 0; i < 6; ++i) CHECK(!make("measuring", 0, 1, 100));
    CHECK(!make("planned", 0, 1, 100));
  }
};

}  // namespace

TEST_CASE("DCK-1: a simulated device takes longer at a lower clock, at fewer watts") {
  const device_clocks d;
  const auto rows = d.rows(0.1, 590);
  REQUIRE(rows.size() == d.ladder().size());
  CHECK(rows.front().frequency_mhz == 1410);
  CHECK(rows.front().time_s == doctest::Approx(0.1));
  CHECK(rows.front().energy_j == doctest::Approx(59));
  CHECK(rows.back().frequency_mhz == 810);
  for (size_t i = 1; i < rows.size(); ++i) {
    CHECK(rows[i].frequency_mhz < rows[i - 1].frequency_mhz);
    CHECK(rows[i].time_s > rows[i - 1].time_s);
    CHECK(rows[i].energy_j < rows[i - 1].energy_j);
  }
}

TEST_CASE("CLE-1: what is left of an operation takes as long as the new clock has it") {
  const auto rows = device_clocks().rows(1, 400);
  slack_device device(1410);
  device.begin(10, rows, 2);
  CHECK(device.ends_s() == doctest::Approx(12));
  CHECK(device.watts() == doctest::Approx(400));
  CHECK(device.wish(810));
  CHECK(device.mhz() == 1410);
  CHECK(device.least_mhz() == 810);  // nobody knows which of both it has
  CHECK(!device.set(11));
  CHECK(device.ends_s() == doctest::Approx(11 + device_clocks().times_of(810)));
  CHECK(device.watts() < 200);
  device.let_go(11.5, 1410);
  const double left = 0.5 - 0.5 / (2 * device_clocks().times_of(810));
  CHECK(device.ends_s() == doctest::Approx(11.5 + 2 * left));
  device.end(device.ends_s());
  device.lies(810);
  device.begin(20, rows, 1);
  CHECK(device.mhz() == 1410);
  CHECK(device.ends_s() == doctest::Approx(20 + device_clocks().times_of(810)));
}

TEST_CASE(
    "SIM-39 to SIM-41: a simulated job takes its slack by the real planner: the same losses") {
  auto o = slack_cluster(60);
  o.monitored = true;  // SIM-36, SIM-44
  o.predictor = predictor_is::working;
  o.quiet_steps = 16;
  const auto with = run_slack_job(o);
  const auto without = run_without_slack(slack_cluster(60));
  CHECK(with.losses == without.losses);
  CHECK(last_state(with) == "planned");
  REQUIRE(!with.lowest_mhz.empty());
  CHECK(with.lowest_mhz.rbegin()->second < 1410);
  const auto& c = with.outcome.slack;
  CHECK(c.planned > 30);
  CHECK(c.lengths > 30);
  CHECK(c.joules > 20);
  CHECK(c.planned_j < 0.95 * c.highest_j);
  CHECK(without.outcome.slack.planned == 0);
}

TEST_CASE("SIM-43: a simulated job measures what clocks cost it, and plans by that") {
  const auto r = run_slack_job(slack_cluster(110, slack_from::measured));
  CHECK(r.outcome.slack.trials > 3);
  CHECK(has_state(r, "profiling"));
  CHECK(last_state(r) == "planned");
  CHECK(r.outcome.slack.planned > 10);
  CHECK(r.outcome.slack.planned_j < r.outcome.slack.highest_j);
  CHECK(r.losses == run_without_slack(slack_cluster(110)).losses);
}

TEST_CASE("SIM-42: a straggler is waited for at lower clocks, and the table goes back behind it") {
  auto o = slack_cluster(90);
  fault slow;
  slow.kind = fault_kind::slow_section;
  slow.at_ns = 80 * slack_second;
  slow.lasts_ns = 50 * slack_second;
  slow.random = 3;
  slow.whom = "node7/backward";
  o.faults = {slow};
  const auto r = run_slack_job(o);
  CHECK(r.outcome.slack.held > 5);
  CHECK(r.outcome.slack.returns >= 1);
  CHECK(last_state(r) == "planned");
}

TEST_CASE(
    "JSL-2: simulated devices that follow late, refuse or lie end no job, nor what is planned") {
  for (const auto kind : {fault_kind::actuator_late, fault_kind::actuator_lies}) {
    for (const uint64_t random : {uint64_t{1}, uint64_t{2 + 4 * 400}, uint64_t{2 + 4 * 401}}) {
      CAPTURE(random);
      auto o = slack_cluster(70);
      o.faults = {{kind, 60 * slack_second, 60 * slack_second, random, "5"}};
      const auto r = run_slack_job(o);
      CHECK(r.outcome.faults.size() == 1);
      CHECK(r.outcome.recoveries.empty());
      CHECK(r.losses == run_without_slack(slack_cluster(70)).losses);
    }
  }
}

TEST_CASE("faults: clocks come late or lie in a job that takes slack, and one without has none") {
  for (const auto* word : {"actuator_late:3@5+5", "actuator_lies:3@5"}) {
    rng chance(1);
    const auto f = parse_fault(word, chance);
    REQUIRE(f);
    auto o = slack_cluster(5);
    const auto with = simulated_job(o);
    REQUIRE(with);
    CHECK(check_fault(*f, *with));
    o.slack = false;
    const auto without = simulated_job(o);
    REQUIRE(without);
    CHECK(!check_fault(*f, *without));
  }
}

TEST_CASE("SIM-43: whoever dies while a simulated job tries clocks, no rank keeps one for good") {
  for (const auto* path : {"worker/2", "pacer"}) {
    CAPTURE(path);
    auto o = slack_cluster(120, slack_from::measured);
    o.recovers = true;
    o.checkpoint_every = 10;
    o.faults = {{fault_kind::kill_actor, 40 * slack_second, 0, 1, path}};
    const auto r = run_slack_job(o, std::string(path) == "pacer");
    CHECK(r.outcome.faults.size() == 1);
    CHECK(r.outcome.slack.trials > 0);
  }
}

TEST_CASE("TEN-1: a simulated loss is another one where a micro-batch is not where it was") {
  using op = train::pipeline_op;
  for (const bool has_clocks : {false, true}) {
    CAPTURE(has_clocks);
    const auto loss = [&](const std::vector<std::pair<op, int>>& turns) {
      return loss_of_turns(has_clocks, turns);
    };
    const auto whole =
        loss({{op::forward, 0}, {op::backward, 0}, {op::forward, 1}, {op::backward, 1}});
    CHECK(whole == 1000.0 / 101);
    CHECK(loss({{op::forward, 0}, {op::forward, 1}, {op::backward, 0}, {op::backward, 1}}) ==
          whole);
    CHECK(loss({{op::forward, 0}, {op::forward, 1}, {op::backward, 1}, {op::backward, 0}}) !=
          whole);
    CHECK(loss({{op::forward, 1}, {op::backward, 1}, {op::forward, 0}, {op::backward, 0}}) !=
          whole);
    CHECK(loss({{op::forward, 0}, {op::backward, 0}, {op::forward, 1}}) != whole);
    CHECK(loss({{op::forward, 0}, {op::backward, 0}, {op::backward, 0}}) != whole);
  }
}

TEST_CASE("SIM-39: another loss of a step is seen, whatever its clocks were") {
  watched_slack w;
  CHECK(!w.make("measuring", 0, 1, 100, false, 3));
  --w.step;
  w.watch.begin_head();
  CHECK(!w.make("planned", 1200, 1, 100, false, 3));
  --w.step;
  w.watch.begin_head();
  CHECK(w.make("planned", 1200, 1, 100, false, 3.5));
}

TEST_CASE("SIM-40: a step that planned clocks make longer is seen, unless something ails the job") {
  watched_slack w;
  w.measure();
  CHECK(!w.make("planned", 1200, 1.019, 90));
  CHECK(w.watch.counted().lengths == 1);
  CHECK(w.make("planned", 1200, 1.03, 90));
  watched_slack slow;
  slow.measure();
  slow.watch.slows(100 * slack_second);
  CHECK(!slow.make("planned", 1200, 1.5, 90));
  watched_slack ails;
  ails.measure();
  ails.watch.ails();
  CHECK(!ails.make("planned", 1200, 1.5, 90));
}

TEST_CASE("SIM-41: planned clocks that cost more joules than the highest are seen") {
  for (const double j : {101.0, 104.0}) {
    watched_slack w;
    w.measure();
    bool seen = false;
    for (int i = 0; i < 20; ++i) seen |= w.make("planned", 1200, 1, j).has_value();
    CHECK(seen == (j > 102));
  }
}

TEST_CASE("SIM-42: a table that stays for a straggler that is none any more is seen") {
  watched_slack w;
  w.measure();
  w.watch.slows(w.now_ns + 5 * slack_second);
  for (int i = 0; i < 4; ++i) CHECK(!w.make("held", 1000, 1.2, 80));
  for (uint64_t i = 0; i < slack_watch::returns_within; ++i) CHECK(!w.make("held", 1000, 1.2, 80));
  CHECK(w.make("held", 1000, 1.2, 80));
}

TEST_CASE(
    "SIM-43: a trial's clocks that are not over are seen, and of one trial after another not") {
  watched_slack w;
  w.measure();
  for (int i = 0; i < 120; ++i) CHECK(!w.make("profiling", 1200, 1, 80, true));
  bool seen = false;
  for (int i = 0; i < 10; ++i) seen |= w.make("profiling", 1200, 1, 80, true).has_value();
  CHECK(seen);
  watched_slack many;
  many.measure();
  for (uint32_t mhz = 810; mhz < 820; ++mhz)
    for (int i = 0; i < 100; ++i) CHECK(!many.make("profiling", mhz, 1, 80, true));
  CHECK(many.watch.counted().trials == 10);
}

TEST_CASE("SIM-44: whoever is suspected where only clocks came down is seen") {
  const auto suspect = said_of_slack<fbs::Suspect>([](auto& s) { s.node = "node1"; });
  const auto gone = said_of_slack<fbs::Suspect>([](auto& s) {
    s.node = "node1";
    s.gone = true;
  });
  const auto incident = said_of_slack<fbs::IncidentReport>([](auto&) {});
  watched_slack w;
  w.measure();
  CHECK(!w.watch.see(gone, 0, w.now_ns));
  CHECK(w.watch.see(suspect, 0, w.now_ns));
  CHECK(w.watch.see(incident, 0, w.now_ns));
  w.watch.slows(w.now_ns + 1);
  CHECK(!w.watch.see(suspect, 0, w.now_ns));
  watched_slack ails;
  ails.watch.ails();
  CHECK(!ails.watch.see(incident, 0, ails.now_ns));
}

TEST_CASE("fuzz: of random clusters without more said some have jobs that take slack") {
  const fuzz_options plain{.first = 1, .seeds = 1000, .kinds = all_faults()};
  const fuzz_options alone{.first = 1, .seeds = 1, .kinds = all_slack_faults(), .slack = true};
  int taking = 0, measuring = 0, of_clocks = 0;
  for (uint64_t seed = 1; seed <= plain.seeds; ++seed) {
    const auto o = options_of(plain, seed);
    if (!o.slack) continue;
    ++taking;
    measuring += o.slack_by == slack_from::measured;
    for (const auto& f : o.faults) of_clocks += is_of_clocks(f.kind);
    CHECK(o.steps == options_of(alone, seed).steps);  // by the word for it, too
  }
  CHECK(taking == 50);
  CHECK(measuring > 10);
  CHECK(of_clocks > 10);
  const fuzz_options named{.first = 1, .seeds = 1, .kinds = {fault_kind::crash_node}};
  for (uint64_t seed = 1; seed <= 40; ++seed) CHECK(!options_of(named, seed).slack);
}

TEST_CASE("fuzz: jobs that take slack come to their end, whatever befalls them") {
  const fuzz_options o{.first = 1, .seeds = 12, .kinds = all_slack_faults(), .slack = true};
  uint64_t planned = 0, trials = 0;
  for (uint64_t seed = o.first; seed <= o.seeds; ++seed) {
    CAPTURE(seed);
    const auto done = simulate(options_of(o, seed));
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
    CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
    planned += done->slack.planned;
    trials += done->slack.trials;
  }
  CHECK(planned > 0);
  CHECK(trials > 0);
}
