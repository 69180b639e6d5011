// The stage under the brake of a power budget: what it holds back within a step, what that counts
// as, and how long the others wait for it.
#include <algorithm>

#include <doctest/doctest.h>

#include "actors/health/rank_vitals.hpp"
#include "tests/actors/scripted_stage.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace std::chrono_literals;
using troupe::train::test::scripted_stage;
using troupe::train::test::stage_words;

namespace {

/// Of a job under a power budget.
struct braked_stage : scripted_stage {
  explicit braked_stage(int count = 3) : scripted_stage(0, 1, count) {
    auto order_of_job = description();
    order_of_job.config_toml += "[power]\nparent = \"auto\"\n";
    order(order_of_job);
    worker.take<fbs::BuildStage>().answer<fbs::StageReady>();
    attach();
    worker.take<fbs::AttachLoader>().answer<fbs::Ack>();
    answer<fbs::Ack>(introduce());
  }
  void brake(bool on) {
    answer<fbs::Ack>(ask<fbs::Brake>([&](auto& b) { b.on = on; }));
  }
  fbs::RankVitalsT vitals() const {
    const auto& registry = runtime().registry;
    return health::rank_vitals(0, registry.find("stage/0")->view(), {}, now_ns());
  }
};

const std::string for_the_brake = "pacer: the next operation (the brake of its power budget)";

}  // namespace

TEST_CASE("STG-6: the brake holds what has not begun, within the step, until it is off") {
  braked_stage f;
  const auto number = f.train(4);
  f.give_tokens();
  // No more is under way than a device needs to go on.
  CHECK(f.given() == stage_words{"begin", "forward 0 in 0 of 2"});
  f.done("begin");
  CHECK(f.given() == stage_words{"backward 0 in 0 of 2"});
  f.brake(true);
  CHECK(f.status().values->stage->braked);
  f.done("forward 0 in 0 of 2");
  f.done("backward 0 in 0 of 2");  // what has begun ends
  CHECK(f.given().empty());
  CHECK(f.awaited() == stage_words{for_the_brake});
  f.pass(10min);
  CHECK(f.given().empty());
  CHECK(f.waits<fbs::StepDone>(number));
  f.brake(true);  // said again
  CHECK(f.given().empty());
  CHECK(f.held_back().empty());  // it goes on
  f.brake(false);
  CHECK(f.held_back() == stage_words{"held_by_brake 100 for 600000 ms"});  // STG-7
  CHECK(!f.status().values->stage->braked);
  CHECK(f.given() == stage_words{"forward 1 in 0 of 2", "backward 1 in 0 of 2"});
  f.all_done();
  CHECK(f.finish().held);
  const auto done = f.answer<fbs::StepDone>(number);
  CHECK(done.loss_sum == 12);
  CHECK(done.power_wait_ms == doctest::Approx(600'000));
  CHECK(f.awaited().empty());
  const auto next = f.train(5);
  f.give_tokens();
  f.all_done();
  CHECK_FALSE(f.finish().held);
  CHECK(f.answer<fbs::StepDone>(next).power_wait_ms == 0);
}

TEST_CASE("STG-6: the update is held as well, and so is the step that begins under the brake") {
  braked_stage f(1);
  const auto first = f.train(4);
  f.give_tokens();
  f.done("begin");
  CHECK(f.given() == stage_words{"last backward 0 in 0 of 2"});
  f.brake(true);
  f.all_done();
  f.pass(1s);
  CHECK(f.worker.idle());
  f.brake(false);
  f.finish();
  CHECK(f.answer<fbs::StepDone>(first).power_wait_ms == doctest::Approx(1000));
  f.brake(true);
  f.train(5);
  CHECK(f.given().empty());
  CHECK(std::ranges::count(f.awaited(), for_the_brake) == 1);
  f.brake(false);
  CHECK(f.given() == stage_words{"begin"});
  CHECK(std::ranges::count(f.awaited(), for_the_brake) == 0);
}

TEST_CASE("STG-6: a rank that waits for a held one, as long as groups do, is not given up") {
  braked_stage f(1);
  const std::chrono::milliseconds usual(
      find_call("Worker", message_traits<fbs::RunOp>::id)->timeout_ms);
  const auto patience = usual * work_pace::whole / work_pace_policy::least_pace.of_1024;
  const auto number = f.train(4);
  f.give_tokens();
  f.pass(patience - 1ms);
  CHECK(f.waits<fbs::StepDone>(number));
  f.pass(1ms);
  CHECK(!f.waits<fbs::StepDone>(number));
}

TEST_CASE("STG-6: a pass that fails under the brake ends, and the next one begins once it is off") {
  braked_stage f(1);
  f.brake(true);
  const auto number = f.train(4);
  f.loader.take<fbs::BatchRequest>().refuse({errc::io, "lost"});
  CHECK(f.refusal<fbs::StepDone>(number) == "io: stage 0 of replica 0: lost");
  CHECK(f.awaited().empty());
  f.train(5);
  CHECK(f.given().empty());
  f.brake(false);
  CHECK(f.given() == stage_words{"begin"});
}

TEST_CASE("OPG-5: stage: behind a pass that failed no more operations are at the device than two") {
  braked_stage f;
  f.train(4);
  f.give_tokens();
  f.done("begin");
  REQUIRE(f.given() == stage_words{"backward 0 in 0 of 2"});  // beside the forward of before
  f.find("forward 0 in 0 of 2").refuse({errc::io, "lost"});
  f.train(5);
  f.give_tokens();
  CHECK(f.given() == stage_words{"begin"});  // the other place is taken by what the last pass left
  f.done("backward 0 in 0 of 2");
  CHECK(f.given() == stage_words{"forward 0 in 0 of 2"});
}

TEST_CASE("STG-6: at a pace, too, the brake holds, and after it the pace") {
  braked_stage f(1);
  f.ask<fbs::RunStep>([](auto& r) {
    r.step = 4;
    r.pace_of_1024 = 512;
  });
  f.give_tokens();
  f.brake(true);
  f.done("begin");
  f.pass(1s);
  CHECK(f.given().empty());
  f.brake(false);
  CHECK(f.given() == stage_words{"forward 0 in 0 of 2"});
}

TEST_CASE("STK-5: a rank says in its vitals that the brake holds it") {
  braked_stage f(1);
  f.train(4);
  CHECK(!f.vitals().braked);
  f.brake(true);
  CHECK(f.vitals().braked);
  f.brake(false);
  CHECK(!f.vitals().braked);
}

TEST_CASE("PWR-4: the brake is urgent") {
  CHECK(find_call("Stage", message_traits<fbs::Brake>::id)->high_priority);
  CHECK(find_call("Budget", message_traits<fbs::SetPowerBrake>::id)->high_priority);
}

TEST_CASE("OPG-7: a step that starts late begins nothing before, tells why, and is not stuck") {
  braked_stage f(1);
  const auto number = f.ask<fbs::RunStep>([](auto& s) {
    s.step = 4;
    s.start_offset_us = 300'000;
  });
  CHECK(f.given().empty());
  CHECK(std::ranges::count(f.awaited(), "pacer: its start between the steps of other jobs") == 1);
  CHECK(f.status().values->stage->held_us == 300'000);
  f.give_tokens();
  f.pass(299ms);
  CHECK(f.given().empty());
  f.pass(1ms);
  CHECK(f.given() == stage_words{"begin", "forward 0 in 0 of 2"});
  CHECK(f.held_back() == stage_words{"held_by_offset 100 for 300 ms"});  // STG-7
  f.all_done();
  CHECK(f.finish().held);
  CHECK(f.answer<fbs::StepDone>(number).power_wait_ms == doctest::Approx(300));
  const auto next = f.train(5);
  f.give_tokens();
  f.all_done();
  CHECK_FALSE(f.finish().held);
  CHECK(f.answer<fbs::StepDone>(next).power_wait_ms == 0);
}

TEST_CASE("OPG-7: whatever is told no step starts more than ten seconds late") {
  braked_stage f(1);
  f.ask<fbs::RunStep>([](auto& s) {
    s.step = 4;
    s.start_offset_us = ~uint64_t{0};
  });
  f.pass(9999ms);
  CHECK(f.given().empty());
  f.pass(1ms);
  CHECK(f.given() == stage_words{"begin"});
}
