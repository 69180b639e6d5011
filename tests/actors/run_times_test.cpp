// What the run tells the predictor of its steps, and that it does without it (PRD-1, PRD-5).
#include <doctest/doctest.h>

#include "actors/train/run_times.hpp"
#include "tests/actors/scripted_run.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace std::chrono_literals;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;

namespace {

struct predicted_run : scripted_run {
  explicit predicted_run(int64_t every = 0)
      : scripted_run({.predictor = true, .steps = 100, .checkpoint_every = every}) {
    start();
  }
  void taken(uint64_t step) {
    predictor.tell(run, make_msg<fbs::StepTimesTaken>(context(), [&](auto& t) { t.step = step; }));
  }
  fbs::StepTimesT told_times() {
    const auto all = predictor.take_all<fbs::StepTimes>();
    REQUIRE(all.size() == 1);
    CHECK(all[0].m.epoch() == run_epoch);
    CHECK_FALSE(all[0].is_request());
    return all[0].m.unpack();
  }
  /// Both ranks have made a step at this pace.
  void step_at(uint32_t of_1024, double held_ms) {
    for (size_t i = 0; i < 2; ++i) {
      stages[i].take_all<fbs::SaveCheckpoint>();  // which may take their time
      const auto asked = stages[i].take<fbs::RunStep>();
      asked.answer<fbs::StepDone>([&](auto& d) {
        d.step = asked->step();
        d.rank = static_cast<uint32_t>(i);
        d.loss_sum = d.target_count = 4;
        d.pace_of_1024 = of_1024;
        d.power_wait_ms = held_ms;
      });
    }
  }
};

}  // namespace

TEST_CASE("run: the predictor is told where the time of each rank went, and what the rank is") {
  predicted_run f;
  f.pass(40ms);
  f.step();
  const auto t = f.told_times();
  CHECK(t.step == 1);
  CHECK(t.took_ms == doctest::Approx(40));
  CHECK(t.replicas == 1);
  CHECK(t.dropped == 0);
  REQUIRE(t.ranks.size() == 2);
  CHECK(t.ranks[0]->rank == 0);
  CHECK(t.ranks[0]->node == "a");
  CHECK(t.ranks[0]->layers == 3);
  CHECK(t.ranks[0]->threads == 3);
  CHECK(t.ranks[1]->rank == 1);
  CHECK(t.ranks[1]->node == "b");
  CHECK(t.ranks[1]->layers == 2);
  CHECK(t.ranks[1]->threads == 4);
  REQUIRE(t.ranks[1]->parts.size() == 3);
  CHECK(t.ranks[1]->parts[0]->kind == "forward");
  CHECK(t.ranks[1]->parts[0]->busy_ms == 30);
  CHECK(t.ranks[1]->parts[0]->work == 8);
  CHECK(t.ranks[1]->parts[2]->kind == "receive_activation");
  CHECK(t.ranks[1]->parts[2]->busy_ms == 4);  // the wait for the other end is taken off
  CHECK(t.oddity == fbs::StepOddity::saves);  // it waited for copies for a tenth of its forward
}

TEST_CASE("PRD-1: a run whose predictor is silent makes its steps, and waits for nothing of it") {
  predicted_run f;
  f.step();
  f.step();
  f.step();
  CHECK(f.predictor.take_all<fbs::StepTimes>().size() == 1);
  const auto status = f.status();
  CHECK(status.values->run->step == 3);
  for (const auto& wait : status.waits) CHECK(wait->whom != "predictor");
  f.predictor.die();
  f.step();
  CHECK(f.status().values->run->step == 4);
}

TEST_CASE("PRD-5: one step at most is on its way to the predictor, the others are counted") {
  predicted_run f;
  f.step();
  CHECK(f.told_times().step == 1);
  f.step();
  f.step();
  CHECK(f.predictor.idle());
  f.taken(1);
  CHECK(f.predictor.idle());  // nothing is sent belatedly
  f.step();
  const auto t = f.told_times();
  CHECK(t.step == 4);
  CHECK(t.dropped == 2);
}

TEST_CASE("run: what sets a step apart goes with it to the predictor") {
  predicted_run f;
  const auto oddity = [&](uint64_t step) {
    const auto t = f.told_times();
    CHECK(t.step == step);
    f.taken(step);
    return t.oddity;
  };
  f.step_at(1024, 0);
  CHECK(oddity(1) == fbs::StepOddity::none);
  f.step_at(512, 0);
  CHECK(oddity(2) == fbs::StepOddity::paced);
  f.ask<fbs::SetValue>([](auto& s) {
    s.key = "train.lr";
    s.value = "0.001";
  });
  f.step_at(1024, 0);  // within which it came
  CHECK(oddity(3) == fbs::StepOddity::follows_set);
  f.step_at(1024, 0);
  CHECK(oddity(4) == fbs::StepOddity::follows_set);
  f.step_at(1024, 3);
  CHECK(oddity(5) == fbs::StepOddity::paced);
}

TEST_CASE("run: a step beside a save that does not hold it up is told as such") {
  predicted_run f(1);
  f.step_at(1024, 0);
  CHECK(f.told_times().oddity == fbs::StepOddity::none);  // nothing was to be saved before
  f.taken(1);
  f.step_at(1024, 0);
  CHECK(f.told_times().oddity == fbs::StepOddity::beside_save);
  f.taken(2);
  f.step_at(512, 0);
  CHECK(f.told_times().oddity == fbs::StepOddity::paced);
}

TEST_CASE("run: what sets a step apart on any of its ranks is told, not what the first one says") {
  const predicted_run f;
  std::vector<msg<fbs::StepDone>> done;
  for (const uint32_t pace : {1024u, 512u})
    done.push_back(make_msg<fbs::StepDone>(f.context(), [&](auto& d) { d.pace_of_1024 = pace; }));
  const std::vector<std::vector<step_part>> parts{{{pipeline_op::capture, 1, 0, 8}}, {}};
  CHECK(oddity_of_step(done, parts) == fbs::StepOddity::paced);
}
