// The run of a job that takes slack: what it tells of steps, which clocks its ranks get, and when.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/train/schedule_policy.hpp"
#include "tests/actors/scripted_run.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;

namespace {

/// Of one micro-batch on each of two ranks.
struct slack_run : scripted_run {
  explicit slack_run(double budget_w = 0)
      : scripted_run({.budget_w = budget_w,
                      .predictor = true,
                      .steps = 8,
                      .checkpoint_every = 8,
                      .slack = true}) {}

  void clocks(const std::function<void(fbs::JobClocksT&)>& change = {}) {
    fbs::JobClocksT c;
    c.of_epoch = run_epoch;
    c.state = "planned";
    auto& table = *c.tables.emplace_back(std::make_unique<fbs::ReplicaClocksT>());
    for (uint32_t s = 0; s < 2; ++s) {
      auto& stage = *table.stages.emplace_back(std::make_unique<fbs::StageClocksT>());
      const size_t operations = 2 * static_cast<size_t>(micro_batches());
      stage.mhz.assign(operations, 1000 + s);
      stage.lasts_s.assign(operations, 0.5F);
      stage.shortest_s.assign(operations, 0.25F);
    }
    c.of_replica = {0};
    if (change) change(c);
    pacer.tell(run, make_msg<fbs::JobClocks>(context(), c));
  }
  static int64_t micro_batches() { return troupe::train::test::plan_of_two({}).micro_batches; }
  /// The clock that each rank's next step begins with, 0 where it has none; both are ended.
  std::vector<uint32_t> step_at() {
    std::vector<uint32_t> out;
    for (size_t i = 0; i < 2; ++i) {
      const auto asked = stages[i].take<fbs::RunStep>();
      out.push_back(asked->clocks() == nullptr ? 0 : asked->clocks()->mhz()->Get(0));
      end_step(asked, i);
    }
    return out;
  }
  /// Both end their step, after so long for forward and update.
  void took(double forward_ms, double update_ms) {
    for (size_t i = 0; i < 2; ++i) {
      const auto asked = stages[i].take<fbs::RunStep>();
      asked.answer<fbs::StepDone>([&](auto& d) {
        d.step = asked->step();
        d.rank = static_cast<uint32_t>(i);
        d.target_count = 4 * static_cast<uint64_t>(i);
        const std::vector<step_part> parts{{pipeline_op::forward, forward_ms, 0, 8},
                                           {pipeline_op::update, update_ms, 0, 8}};
        d.parts = to_message(parts);
      });
    }
  }
  void start_with_ladders(const std::vector<std::vector<uint32_t>>& ladders) {
    admit();
    for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
      if (static_cast<start_phase>(p) != start_phase::build_stages)
        pass_phase(static_cast<start_phase>(p));
      else
        for (size_t i = 0; i < 2; ++i)
          stages[i].take<fbs::BuildStage>().answer<fbs::StageReady>(
              [&](auto& r) { r.clocks_mhz = ladders[i]; });
  }
  /// Of the first step that was not asked for yet.
  fbs::StepMadeT made() {
    pacer.take_all<fbs::PaceTaken>();
    return pacer.take<fbs::StepMade>().m.unpack();
  }
  void power(uint32_t pace_of_1024, bool brake = false) {
    pacer.tell(run, make_msg<fbs::JobPower>(context(), [&](auto& p) {
                 p.number = ++words;
                 p.pace_of_1024 = pace_of_1024;
                 p.brake = brake;
               }));
  }
  uint64_t words = 0;
};

using rank_clocks = std::vector<uint32_t>;

}  // namespace

TEST_CASE("run: of a job that takes slack each step is told, by what its first stages computed") {
  slack_run f;
  f.start();
  CHECK(f.step_at() == rank_clocks{0, 0});
  const auto told = f.made();
  CHECK(told.step == 1);
  CHECK(told.stages == 2);
  CHECK(told.micro_batches == static_cast<uint32_t>(slack_run::micro_batches()));
  REQUIRE(told.replica_s.size() == 1);
  CHECK(told.replica_s[0] == doctest::Approx(0.02));
  CHECK_FALSE(told.paced);
  CHECK_FALSE(told.sets_clocks);  // none of its ranks said that it does
  CHECK_FALSE(told.saves_energy);
  scripted_run plain;
  plain.start();
  plain.step();
  CHECK(plain.pacer.take_all<fbs::StepMade>().empty());
}

TEST_CASE("run: at how many ranks clocks are given back, and to how many processes, it tells") {
  slack_run f;
  f.start();
  for (const uint32_t others : {3U, 0U}) {
    for (size_t i = 0; i < 2; ++i) {
      const auto asked = f.stages[i].take<fbs::RunStep>();
      asked.answer<fbs::StepDone>([&](auto& d) {
        d.step = asked->step();
        d.rank = static_cast<uint32_t>(i);
        d.target_count = 4 * static_cast<uint64_t>(i);
        if (i == 1) d.clocks_given_back_to = others;
      });
    }
    const auto told = f.made();
    CHECK(told.ranks == 2);
    CHECK(told.given_back == (others > 0 ? 1 : 0));
    CHECK(told.given_back_to == others);
  }
}

TEST_CASE("RSL-1, RSL-2: run: ranks have the clocks that fit, from the next step on") {
  slack_run f;
  f.start();
  CHECK(f.step_at() == rank_clocks{0, 0});
  f.clocks();
  CHECK(f.step_at() == rank_clocks{0, 0});  // it had begun
  CHECK(f.step_at() == rank_clocks{1000, 1001});
  using change = std::function<void(fbs::JobClocksT&)>;
  for (const change& wrong : {change([](auto& c) {
                                c.of_replica = {0, 0};
                              }),
                              change([](auto& c) { c.of_replica = {1}; }),
                              change([](auto& c) { c.tables[0]->stages.pop_back(); }),
                              change([](auto& c) { c.tables[0]->stages[1]->mhz.pop_back(); })}) {
    slack_run other;
    other.start();
    other.clocks(wrong);
    other.step_at();
    CHECK(other.step_at() == rank_clocks{0, 0});
  }
  slack_run late;
  late.start();
  late.clocks([](auto& c) { c.of_epoch = run_epoch - 1; });
  late.step_at();
  CHECK(late.step_at() == rank_clocks{0, 0});
}

TEST_CASE("run: of a trial of clocks it tells what each rank took, and of no other step") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) { c.trial = 3; });
  f.step_at();
  const auto before = f.made();
  CHECK(before.trial == 0);
  CHECK(before.rank_stage.empty());
  REQUIRE(before.ladders.size() == 2);
  CHECK(before.ladders[0]->mhz.empty());  // its ranks named none
  CHECK(f.step_at() == rank_clocks{1000, 1001});
  const auto made = f.made();
  CHECK(made.trial == 3);
  CHECK(made.nodes == std::vector<std::string>{"a", "b"});
  CHECK(made.rank_node == std::vector<uint32_t>{0, 1});
  CHECK(made.rank_stage == std::vector<uint32_t>{0, 1});
  CHECK(made.rank_replica == std::vector<uint32_t>{0, 0});
  REQUIRE(made.rank_forward_s.size() == 2);
  const auto each = static_cast<double>(slack_run::micro_batches());
  CHECK(static_cast<double>(made.rank_forward_s[1]) == doctest::Approx(0.03 / each));
  CHECK(static_cast<double>(made.rank_busy_s[1]) == doctest::Approx(0.03));
}

TEST_CASE("RSL-3: run: in a trial of clocks a rank took what it took before, for who judges it") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) { c.trial = 1; });
  f.step_at();
  f.monitor.take_all<fbs::StepDone>();
  for (size_t i = 0; i < 2; ++i)
    f.stages[i].take<fbs::RunStep>().answer<fbs::StepDone>([&](auto& d) {
      d.step = 2;
      d.rank = static_cast<uint32_t>(i);
      d.target_count = 4 * static_cast<uint64_t>(i);
      const std::vector<step_part> parts{{pipeline_op::forward, i == 0 ? 60.0 : 15.0, 0, 8}};
      d.parts = to_message(parts);
    });
  const auto told = f.monitor.take_all<fbs::StepDone>();
  REQUIRE(told.size() == 2);
  for (const auto& done : told) {
    const auto parts = parts_of(done->parts());
    REQUIRE(parts.size() == 1);
    CHECK(parts[0].busy_ms == doctest::Approx(done->rank() == 0 ? 20 : 15));
    CHECK(parts[0].waited_ms == doctest::Approx(done->rank() == 0 ? 40 : 0));
  }
}

TEST_CASE("RSL-3: run: a step of a trial is one at a lesser pace, of all that has its clock") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) { c.trial = 1; });
  f.took(20, 4);
  for (const auto& done : f.monitor.take_all<fbs::StepDone>()) CHECK(done->pace_of_1024() == 1024);
  CHECK(f.predictor.take<fbs::StepTimes>()->oddity() == fbs::StepOddity::none);
  f.predictor.tell(f.run, f.make<fbs::StepTimesTaken>([](auto& t) { t.step = 1; }));
  f.took(40, 8);
  const auto told = f.monitor.take_all<fbs::StepDone>();
  REQUIRE(told.size() == 2);
  for (const auto& done : told) {
    CHECK(done->pace_of_1024() == 512);
    for (const auto& p : parts_of(done->parts()))
      CHECK(p.busy_ms == doctest::Approx(p.kind == pipeline_op::update ? 4 : 20));
  }
  CHECK(f.predictor.take<fbs::StepTimes>()->oddity() == fbs::StepOddity::paced);
}

TEST_CASE("RSL-3: run: usual is what ranks take at the highest clocks, which no pace holds") {
  slack_run f(80);
  f.power(1024);
  f.start_with_ladders({{1500, 1000}, {1500, 1001}});
  const auto told = [&] { return f.monitor.take_all<fbs::StepDone>()[0]; };
  const auto trial = [&](uint32_t mhz) {
    f.clocks([&](auto& c) {
      c.trial = 1;
      for (auto& stage : c.tables[0]->stages) std::ranges::fill(stage->mhz, mhz);
    });
  };
  trial(1500);
  f.took(90, 4);  // kernels are chosen
  f.took(20, 4);  // in a trial of the highest clocks
  CHECK(f.monitor.take_all<fbs::StepDone>()[2]->pace_of_1024() == 1024);
  f.power(512);
  f.took(20, 4);  // it had begun
  trial(1000);
  f.power(1024);
  f.took(60, 4);  // at half of its speed
  f.monitor.take_all<fbs::StepDone>();
  f.took(30, 4);
  const auto lowered = told();
  CHECK(lowered->pace_of_1024() == 682);
  CHECK(parts_of(lowered->parts())[0].busy_ms == doctest::Approx(20));
}

TEST_CASE("RSL-2: run: a step whose clocks were none for its ranks is of no trial") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) {
    c.trial = 1;
    c.of_replica = {1};
  });
  f.step();
  f.step();
  CHECK(f.pacer.take_all<fbs::StepMade>().back()->trial() == 0);
}

TEST_CASE("RSL-4: run: once its pacer has ended ranks have the highest clocks") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) { c.trial = 1; });
  f.step_at();
  CHECK(f.step_at() == rank_clocks{1000, 1001});
  f.pacer.die();
  CHECK(f.step_at() == rank_clocks{1000, 1001});  // it had begun
  CHECK(f.step_at() == rank_clocks{0, 0});
  CHECK(f.warnings().size() == 1);

  slack_run over;
  over.start();
  over.clocks([](auto& c) { c.trial = 1; });
  over.pacer.tell(over.run,
                  caf::down_msg{over.pacer.self()->address(), caf::exit_reason::user_shutdown});
  over.step_at();
  CHECK(over.step_at() == rank_clocks{0, 0});
  CHECK(over.warnings().empty());  // its head ends
}

TEST_CASE("run: the log of steps says of each what it had") {
  slack_run f(80);
  f.power(1024);
  f.start();
  const auto logged = [&] { return f.reporter.take_all<fbs::StepReport>().back()->slack()->str(); };
  f.clocks([](auto& c) {
    c.trial = 1;
    c.state = "profiling";
  });
  f.step();
  CHECK(logged() == "off: no_plan");  // it had begun
  f.power(512);
  f.step();
  CHECK(logged() == "profiling");
  f.power(1024);
  f.step();
  CHECK(logged() == "off: paced");
  f.clocks([](auto& c) {  // the fourth step has begun
    c.state = "profiled";
    c.tables.clear();
    c.of_replica.clear();
  });
  f.step();
  CHECK(logged() == "profiling");
  f.step();
  CHECK(logged() == "profiled");
}

TEST_CASE("RSL-1: run: under a budget's pace or its brake no rank has a clock of its own") {
  slack_run f(80);
  f.power(1024);
  f.start();
  f.clocks();
  f.step_at();
  CHECK_FALSE(f.pacer.take_all<fbs::StepMade>().back()->paced());
  f.power(512);
  CHECK(f.step_at() == rank_clocks{1000, 1001});  // it had begun
  CHECK(f.step_at() == rank_clocks{0, 0});
  CHECK(f.pacer.take_all<fbs::StepMade>().back()->paced());
}

TEST_CASE("run: what slack says reaches the person, and the log of steps") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) {
    c.state = "off: refused";
    c.notice = "slack is not taken";
    c.warns = true;
    c.tables.clear();
    c.of_replica.clear();
  });
  CHECK(f.warnings() == std::vector<std::string>{"slack is not taken"});
  f.step();
  CHECK(f.reporter.take_all<fbs::StepReport>().back()->slack()->str() == "off: refused");
}

TEST_CASE("RSL-3: run: who judges ranks hears what they take without being slowed for another") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) { c.tables[0]->stages[0]->times = 2; });
  f.took(10, 1);
  f.monitor.take_all<fbs::StepDone>();
  CHECK(f.step_at() == rank_clocks{1000, 1001});
  const auto told = f.monitor.take_all<fbs::StepDone>();
  REQUIRE(told.size() == 2);
  for (const auto& done : told) {
    const auto parts = parts_of(done->parts());
    REQUIRE_FALSE(parts.empty());
    CHECK(parts[0].kind == pipeline_op::forward);
    CHECK(parts[0].busy_ms == doctest::Approx(done->rank() == 0 ? 10 : 30));
    CHECK(parts[0].waited_ms == doctest::Approx(done->rank() == 0 ? 10 : 0));
  }
  CHECK(f.made().step == 1);
}

TEST_CASE("RSL-3: run: a clock that comes late makes nobody quicker than at the highest") {
  slack_run f;
  f.start();
  f.clocks([](auto& c) { c.tables[0]->stages[0]->times = 2; });
  f.took(60, 1);  // it had begun
  f.monitor.take_all<fbs::StepDone>();
  f.took(90, 1);  // a half longer, where twice was planned
  for (const auto& done : f.monitor.take_all<fbs::StepDone>()) {
    if (done->rank() != 0) continue;
    const auto parts = parts_of(done->parts());
    REQUIRE_FALSE(parts.empty());
    CHECK(parts[0].busy_ms == doctest::Approx(60));
    CHECK(parts[0].waited_ms == doctest::Approx(30));
  }
}

TEST_CASE(
    "RSL-3: run: a plan that slows forwards alone is no reason to take backwards for quicker") {
  slack_run f;
  f.start();
  const auto order = one_forward_one_backward(0, 2, static_cast<int>(slack_run::micro_batches()));
  f.clocks([&](auto& c) {
    auto& stage = *c.tables[0]->stages[0];
    REQUIRE(stage.lasts_s.size() == order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const bool is_forward = order[i].kind == pipeline_op::forward;
      stage.shortest_s[i] = is_forward ? 0.1F : 0.2F;
      stage.lasts_s[i] = 0.2F;  // a forward twice as long
    }
    stage.times = 4 / 3.0F;
  });
  f.step_at();
  f.monitor.take_all<fbs::StepDone>();
  for (size_t i = 0; i < 2; ++i) {
    const auto asked = f.stages[i].take<fbs::RunStep>();
    asked.answer<fbs::StepDone>([&](auto& d) {
      d.step = asked->step();
      d.rank = static_cast<uint32_t>(i);
      d.target_count = 4 * static_cast<uint64_t>(i);
      const std::vector<step_part> parts{{pipeline_op::forward, 60, 0, 8},
                                         {pipeline_op::backward, 60, 0, 8}};
      d.parts = to_message(parts);
    });
  }
  const auto told = f.monitor.take_all<fbs::StepDone>();
  REQUIRE(told.size() == 2);
  for (const auto& done : told) {
    if (done->rank() != 0) continue;
    const auto parts = parts_of(done->parts());
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].busy_ms == doctest::Approx(30));
    CHECK(parts[0].waited_ms == doctest::Approx(30));
    CHECK(parts[1].busy_ms == doctest::Approx(60));
  }
}
