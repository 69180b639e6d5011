// The stage below full speed: what it holds back, for how long, and what it says of that.
#include <doctest/doctest.h>

#include "actors/health/rank_vitals.hpp"
#include "tests/actors/scripted_stage.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace std::chrono_literals;
using troupe::train::test::scripted_stage;
using troupe::train::test::stage_words;

namespace {

struct paced_stage : scripted_stage {
  uint64_t computed_us = 0;

  using scripted_stage::scripted_stage;
  uint64_t train_at(uint64_t step, uint32_t pace_of_1024) {
    return ask<fbs::RunStep>([&](auto& r) {
      r.step = step;
      r.pace_of_1024 = pace_of_1024;
    });
  }
  /// The operation takes so long, in which the device computes for a part of it.
  void does(const std::string& word, std::chrono::milliseconds time,
            std::chrono::milliseconds computes) {
    const auto op = find(word);
    pass(time);
    computed_us += static_cast<uint64_t>(computes.count()) * 1000;
    op.answer<fbs::OpDone>([&](auto& d) {
      d.step = op->step();
      d.kind = op->kind();
      d.micro_batch = op->micro_batch();
      d.computed_us = computed_us;
    });
  }
  uint64_t held_us() { return status().values->stage->held_us; }
};

}  // namespace

TEST_CASE(
    "STG-5: below full speed one operation at a time begins, behind the stretched time of the "
    "last") {
  paced_stage f;
  f.start();
  const auto number = f.train_at(4, 512);
  f.give_tokens();
  CHECK(f.given() == stage_words{"begin"});
  f.does("begin", 0ms, 0ms);
  CHECK(f.given() == stage_words{"forward 0 in 0 of 2"});
  f.does("forward 0 in 0 of 2", 100ms, 100ms);
  CHECK(f.given().empty());
  CHECK(f.held_us() == 100'000);
  CHECK(f.awaited() == stage_words{"pacer: the next operation (pace 50 %)"});
  f.pass(99ms);
  CHECK(f.given().empty());
  f.pass(1ms);
  CHECK(f.given() == stage_words{"backward 0 in 0 of 2"});
  CHECK(f.held_us() == 100'000);  // until it has ended: none ended for that long, and its own time
  CHECK(f.awaited() == stage_words{"worker/0: backward of micro-batch 0"});
  f.does("backward 0 in 0 of 2", 300ms, 50ms);  // it waited for somebody else for 250 ms
  CHECK(f.given().empty());
  f.pass(50ms);
  CHECK(f.given() == stage_words{"forward 1 in 0 of 2"});
  for (const char* word : {"forward 1 in 0 of 2", "backward 1 in 0 of 2", "forward 2 in 0 of 2",
                           "last backward 2 in 0 of 2"}) {
    f.does(word, 10ms, 10ms);
    CHECK(f.worker.idle());
    f.pass(10ms);
  }
  CHECK(f.finish().held);
  const auto done = f.answer<fbs::StepDone>(number);
  CHECK(done.power_wait_ms == doctest::Approx(190));
  CHECK(f.held_back() ==  // STG-7
        stage_words{"held_by_pace 50 for 100 ms", "held_by_pace 50 for 50 ms",
                    "held_by_pace 50 for 10 ms", "held_by_pace 50 for 10 ms",
                    "held_by_pace 50 for 10 ms", "held_by_pace 50 for 10 ms"});
  CHECK(done.pace_of_1024 == 512);
  CHECK(done.step == 4);
  CHECK(done.loss_sum == 12);
  REQUIRE(done.parts.size() == 1);
}

TEST_CASE("STG-5: the update's time, too, is stretched, into the step that follows") {
  paced_stage f(0, 1, 1);
  f.start();
  f.train_at(4, 256);
  f.give_tokens();
  f.does("begin", 0ms, 0ms);
  f.does("forward 0 in 0 of 2", 0ms, 0ms);
  f.does("last backward 0 in 0 of 2", 0ms, 0ms);
  const auto asked = f.worker.take<fbs::FinishStep>();
  f.pass(20ms);
  asked.answer<fbs::StepDone>([&](auto& d) { d.computed_us = 20'000; });
  const auto next = f.train_at(5, 1024);
  CHECK(f.given().empty());
  f.pass(59ms);
  CHECK(f.given().empty());
  f.pass(1ms);
  CHECK(f.given() == stage_words{"begin"});
  f.give_tokens();
  f.all_done();
  f.finish();
  CHECK(f.answer<fbs::StepDone>(next).power_wait_ms == doctest::Approx(60));
}

TEST_CASE("STG-5: batches of a validation are asked for once all of the last one is done") {
  paced_stage f(0, 1, 1);
  f.start();
  const auto number = f.ask<fbs::Validate>([](auto& v) {
    v.step = 4;
    v.batches = 2;
    v.pace_of_1024 = 512;
  });
  f.give_tokens();
  f.does("begin", 0ms, 0ms);
  CHECK(f.loader.idle());
  f.does("evaluate 0 in 0 of 2", 30ms, 30ms);
  CHECK(f.loader.take_all<fbs::BatchRequest>().size() == 1);
  CHECK(f.given().empty());
  CHECK(f.waits<fbs::ValidationDone>(number));
}

TEST_CASE(
    "stage: a pass that fails while it is held back ends, and the next one is not disturbed") {
  paced_stage f(0, 1, 1);
  f.start();
  const auto number = f.train_at(4, 100);
  f.give_tokens();
  f.does("begin", 0ms, 0ms);
  f.find("forward 0 in 0 of 2").refuse({errc::io, "lost"});
  CHECK(f.refusal<fbs::StepDone>(number) == "io: stage 0 of replica 0: lost");
  CHECK(f.held_us() == 0);
  CHECK(f.awaited().empty());
  f.train_at(5, 1024);
  CHECK(f.given() == stage_words{"begin"});
  f.pass(10s);
  CHECK(f.given().empty());
}

TEST_CASE("stage: what a worker may take is stretched by the pace, for it waits for others of it") {
  paced_stage f(0, 1, 1);
  f.start();
  const std::chrono::milliseconds patience(
      find_call("Worker", message_traits<fbs::RunOp>::id)->timeout_ms);
  const auto slow = f.train_at(4, 512);
  f.give_tokens();
  f.pass(2 * patience - 1ms);
  CHECK(f.waits<fbs::StepDone>(slow));
  f.pass(1ms);
  CHECK(!f.waits<fbs::StepDone>(slow));
  const auto fast = f.train_at(5, 1024);
  f.give_tokens();
  f.pass(patience);
  CHECK(!f.waits<fbs::StepDone>(fast));
}

TEST_CASE("PWR-4: where a quota makes it slower a stage tells its worker the pace of each pass") {
  paced_stage f;
  auto here = f.description();
  here.config_toml += "[power]\nbudget_w = 40\ncontrol = [\"cgroup\"]\n";
  f.order(here);
  f.worker.take<fbs::BuildStage>().answer<fbs::StageReady>();
  f.attach();
  f.worker.take<fbs::AttachLoader>().answer<fbs::Ack>();
  f.answer<fbs::Ack>(f.introduce());
  f.train_at(4, 512);
  f.give_tokens();
  const auto begun = f.find("begin");
  CHECK(begun->pace_of_1024() == 512);
  CHECK(f.find("forward 0 in 0 of 2")->pace_of_1024() == 1024);  // held back by nothing here
  CHECK(f.held_us() == 0);
}

TEST_CASE("STG-5: where nothing is to be had but pauses a stage holds operations back by itself") {
  for (const bool pauses : {true, false}) {
    CAPTURE(pauses);
    paced_stage f;
    auto here = f.description();
    here.config_toml += "[power]\nbudget_w = 40\ncontrol = [\"nvml_clocks\", \"pace\"]\n";
    f.order(here);
    f.worker.take<fbs::BuildStage>().answer<fbs::StageReady>([&](auto& r) { r.pauses = pauses; });
    f.attach();
    f.worker.take<fbs::AttachLoader>().answer<fbs::Ack>();
    f.answer<fbs::Ack>(f.introduce());
    f.train_at(4, 512);
    f.give_tokens();
    const auto given = f.given();
    REQUIRE_FALSE(given.empty());
    CHECK((given == stage_words{"begin"}) == pauses);
  }
}

TEST_CASE(
    "STG-5: once what made its device slower is gone a stage holds operations back by itself") {
  for (const bool is_gone : {true, false}) {
    CAPTURE(is_gone);
    paced_stage f;
    f.loses_control = is_gone;
    auto here = f.description();
    here.config_toml += "[power]\nbudget_w = 40\ncontrol = [\"cpufreq\"]\n";
    f.order(here);
    f.worker.take<fbs::BuildStage>().answer<fbs::StageReady>();
    f.attach();
    f.worker.take<fbs::AttachLoader>().answer<fbs::Ack>();
    f.answer<fbs::Ack>(f.introduce());
    const auto first = f.train_at(4, 512);
    f.give_tokens();
    for (auto words = f.given(); !words.empty(); words = f.given())
      for (const auto& word : words) f.does(word, 0ms, 0ms);
    f.finish();
    CHECK(f.answer<fbs::StepDone>(first).pauses == is_gone);
    f.train_at(5, 512);
    f.give_tokens();
    const auto given = f.given();
    REQUIRE_FALSE(given.empty());
    CHECK((given == stage_words{"begin"}) == is_gone);
  }
}
