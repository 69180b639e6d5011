// The run under a power budget: before its first pace, at a pace, without room, and what it tells.
#include <doctest/doctest.h>

#include "tests/actors/scripted_run.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace std::chrono_literals;
using troupe::train::test::any_has;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;

namespace {

struct budgeted_run : scripted_run {
  using scripted_run::scripted_run;

  uint64_t words = 0;

  void power(uint32_t pace_of_1024, const std::string& reason = {}, bool brake = false,
             uint64_t start_offset_us = 0) {
    pacer.tell(run, make_msg<fbs::JobPower>(context(), [&](auto& p) {
                 p.number = ++words;
                 p.brake = brake;
                 p.start_offset_us = start_offset_us;
                 p.pace_of_1024 = pace_of_1024;
                 p.reason = reason;
                 p.power_w = 61.5;
                 p.energy_j = 4000;
                 p.source = fbs::PowerSource::modelled;
               }));
  }
  fbs::PaceTakenT taken() { return pacer.take<fbs::PaceTaken>().m.unpack(); }
  void end_with(double held_ms) {
    for (size_t i = 0; i < 2; ++i) {
      const auto asked = stages[i].take<fbs::RunStep>();
      asked.answer<fbs::StepDone>([&](auto& d) {
        d.step = asked->step();
        d.rank = static_cast<uint32_t>(i);
        d.loss_sum = d.target_count = 4;
        d.power_wait_ms = held_ms / static_cast<double>(i + 1);
      });
    }
  }
};

}  // namespace

TEST_CASE("PWR-3: a run with a budget makes no step before it is told its pace") {
  budgeted_run f({.budget_w = 80});
  const auto first = f.taken();
  CHECK(first.step == 0);
  CHECK(first.budget_w == 80);
  f.start();
  CHECK(f.stages[0].idle());
  CHECK(f.status().state == "waiting for power");
  CHECK(f.warnings().empty());
  f.power(300);
  const auto step = f.stages[0].take<fbs::RunStep>();
  CHECK(step->step() == 1);
  CHECK(step->pace_of_1024() == 300);
  const auto taken = f.taken();
  CHECK(taken.step == 1);
  CHECK(taken.pace_of_1024 == 300);
  CHECK(f.warnings().empty());
}

TEST_CASE(
    "PWR-3: a run under a power budget above its job makes no step before it is told a pace") {
  budgeted_run f({.power_parent = "auto"});
  const auto first = f.taken();
  CHECK(first.step == 0);
  CHECK(first.budget_w == 0);  // a person has set none
  f.start();
  CHECK(f.stages[0].idle());
  CHECK(f.status().state == "waiting for power");
  f.power(0, "no lease yet from the power budget row0 at 127.0.0.1:4242");
  CHECK(any_has(f.warnings(), "waits for power: no lease yet from the power budget row0"));
  f.power(300);
  std::vector<troupe::test::told<fbs::RunStep>> asked;
  for (const auto& stage : f.stages) asked.push_back(stage.take<fbs::RunStep>());
  CHECK(asked[0]->pace_of_1024() == 300);
  const auto taken = f.taken();  // the pacer acknowledges lesser caps by it
  CHECK(taken.step == 1);
  CHECK(taken.pace_of_1024 == 300);
  f.power(0, "the power budget row0 wants the work paused");
  for (size_t i = 0; i < asked.size(); ++i) f.end_step(asked[i], i);
  CHECK(f.stages[0].idle());
  CHECK(f.taken().step == 0);
  const auto number = f.ask<fbs::SetValue>([](auto& s) {
    s.key = "power.budget_w";
    s.value = "60";
  });
  CHECK(f.answer_of(number).starts_with("power.budget_w = 60.0"));
  CHECK(f.taken().budget_w == 60);
}

TEST_CASE(
    "JLP-2: run: a step names the word that it follows, and where none is made a lesser pace is "
    "acknowledged") {
  budgeted_run f({.power_parent = "auto"});
  CHECK(f.taken().follows == 0);
  f.power(0, "no lease yet");
  f.power(300);
  CHECK(f.pacer.idle());  // a greater pace needs no word
  f.power(200);
  auto taken = f.taken();
  CHECK(taken.step == 0);
  CHECK(taken.follows == 3);
  f.power(200);
  CHECK(f.pacer.idle());
  f.start();
  taken = f.taken();
  CHECK(taken.step == 1);
  CHECK(taken.follows == 4);
  f.power(100);  // while that goes on
  CHECK(f.pacer.idle());
  f.ask<fbs::SetValue>([](auto& s) {
    s.key = "power.budget_w";
    s.value = "60";
  });
  taken = f.taken();
  CHECK(taken.step == 1);
  CHECK(taken.follows == 4);  // not what was heard since
  f.step();
  taken = f.taken();
  CHECK(taken.step == 2);
  CHECK(taken.pace_of_1024 == 100);
  CHECK(taken.follows == 5);
  f.power(0, "the power budget row0 wants the work paused");
  f.step();
  taken = f.taken();
  CHECK(taken.step == 0);
  CHECK(taken.follows == 6);
  CHECK(f.pacer.idle());
}

TEST_CASE("run: under a power budget above its job a person's pause is told, and that it goes on") {
  budgeted_run f({.power_parent = "auto"});
  CHECK(!f.taken().paused);
  f.power(300);
  f.start();
  CHECK(f.taken().step == 1);
  f.power(0, "the power budget row0 wants the work paused");
  f.power(300);
  CHECK(f.pacer.idle());  // that is no person
  f.ask<fbs::Pause>();
  CHECK(f.pacer.idle());  // its step goes on
  f.step();
  auto taken = f.taken();
  CHECK(taken.paused);
  CHECK(taken.step == 0);
  f.ask<fbs::Pause>();
  CHECK(f.pacer.idle());
  f.power(0, "the power budget row0 wants the work paused");
  CHECK(f.taken().paused);  // it acknowledges
  f.ask<fbs::Resume>();
  taken = f.taken();
  CHECK(!taken.paused);
  CHECK(taken.step == 0);
}

TEST_CASE("PWR-4: a pace is of a whole step, all of its ranks and the validation behind it") {
  budgeted_run f({.train = "validate_every = 1\nvalidate_batches = 5\n", .budget_w = 80});
  f.power(300);
  f.start();
  f.power(700);  // while the first step goes on
  for (size_t i = 0; i < 2; ++i) {
    const auto asked = f.stages[i].take<fbs::RunStep>();
    CHECK(asked->pace_of_1024() == 300);
    f.end_step(asked, i);
  }
  for (const auto& stage : f.stages) {
    const auto asked = stage.take<fbs::Validate>();
    CHECK(asked->pace_of_1024() == 300);
    asked.answer<fbs::ValidationDone>([](auto& v) { v.power_wait_ms = 30; });
  }
  for (const auto& stage : f.stages) CHECK(stage.take<fbs::RunStep>()->pace_of_1024() == 700);
  const auto told = f.pacer.take_all<fbs::PaceTaken>();
  REQUIRE(told.size() == 3);  // at the start, step 1, step 2: a validation is one stretch with it
  CHECK(told[1]->pace_of_1024() == 300);
  CHECK(told[2]->step() == 2);
  CHECK(told[2]->pace_of_1024() == 700);
  CHECK(f.status().values->run->power_wait_ms == 30);
}

TEST_CASE("run: how long a step may take is stretched by its pace") {
  budgeted_run f({.step_s = 3, .budget_w = 80});
  f.power(512);
  f.start();
  f.pass(6s - 1ms);
  CHECK(f.coordinator.idle());
  f.pass(1ms);
  CHECK(f.ended().code == static_cast<uint8_t>(errc::timeout));
}

TEST_CASE("run: without room it waits behind its step, says why, and goes on once there is some") {
  budgeted_run f({.budget_w = 80});
  f.power(300);
  f.start();
  f.power(0, "the machines draw 90 W without steps");
  CHECK(any_has(f.warnings(), "waits for power: the machines draw 90 W without steps"));
  f.power(0, "the machines draw 90 W without steps");
  CHECK(f.warnings().empty());
  f.step();
  CHECK(f.stages[0].idle());
  CHECK(f.status().state == "waiting for power");
  CHECK(f.status().values->run->pace_percent == 0);
  // Neither a person's resume lifts it, nor does the pacer's word lift a person's pause (PWR-2).
  CHECK(f.answer_of(f.ask<fbs::Resume>()).starts_with("refused"));
  const auto pause = f.ask<fbs::Pause>();
  CHECK(f.answer_of(pause).starts_with("pauses"));
  CHECK(f.status().state == "paused");
  f.pass(2s);
  f.ask<fbs::Resume>();
  CHECK(f.status().state == "waiting for power");
  f.pass(3s);
  f.power(0, "the machines draw 91 W without steps");
  f.ask<fbs::Pause>();
  f.power(400);
  CHECK(any_has(f.warnings(), "goes on"));
  CHECK(f.stages[0].idle());
  CHECK(f.status().state == "paused");
  f.ask<fbs::Resume>();
  CHECK(f.stages[0].take<fbs::RunStep>()->pace_of_1024() == 400);
  CHECK(f.status().values->run->power_wait_ms == 3000);  // in which nobody else held it
}

TEST_CASE(
    "PWR-2: a run that is asked for a checkpoint and then to pause saves the step that it ends") {
  budgeted_run f({.power_parent = "auto"});
  f.power(1024);
  f.start();
  CHECK(f.answer_of(f.ask<fbs::CheckpointNow>()) == "saves after step 1");
  f.power(0, "the power budget row0 wants the work paused");
  f.step();
  f.commit(1);
  CHECK(f.status().state == "waiting for power");
  CHECK(f.status().values->run->saved_step == 1);
  CHECK(f.stages[0].take_all<fbs::RunStep>().empty());
  f.power(1024);
  const auto next = f.stages[0].take_all<fbs::RunStep>();
  REQUIRE(next.size() == 1);
  CHECK(next[0]->step() == 2);
}

TEST_CASE("run: a person may set the budget, which the pacer hears at once, also while it waits") {
  budgeted_run f({.budget_w = 80});
  f.taken();
  f.start();
  f.ask<fbs::SetValue>([](auto& s) {
    s.key = "power.budget_w";
    s.value = "120";
  });
  CHECK(f.taken().budget_w == 120);
  f.power(700);
  CHECK(f.taken().step == 1);
  f.power(800);  // while that goes on
  f.ask<fbs::SetValue>([](auto& s) {
    s.key = "power.budget_w";
    s.value = "60";
  });
  const auto told = f.taken();  // before the step that follows
  CHECK(told.budget_w == 60);
  CHECK(told.step == 1);
  CHECK(told.pace_of_1024 == 700);
  f.power(400);
  f.step();
  CHECK(f.stages[0].take<fbs::RunStep>()->pace_of_1024() == 400);
}

TEST_CASE("run: a job without a budget is told its watts, and cannot be given one") {
  budgeted_run f;
  CHECK(f.taken().budget_w == 0);
  f.start();
  CHECK(f.stages[1].take<fbs::RunStep>()->pace_of_1024() == 1024);
  CHECK(f.pacer.idle());
  const auto number = f.ask<fbs::SetValue>([](auto& s) {
    s.key = "power.budget_w";
    s.value = "60";
  });
  CHECK(f.answer_of(number).starts_with("refused"));
  f.power(1024);
  CHECK(f.status().values->run->power_w == 61.5);
}

TEST_CASE(
    "run: a step's report has watts, joules, pace and the wait of the rank held back longest") {
  budgeted_run f({.budget_w = 80});
  f.power(256);
  f.start();
  f.end_with(500);
  const auto r = f.reporter.take_all<fbs::StepReport>().at(0).m.unpack();
  CHECK(r.power_w == 61.5);
  CHECK(r.power_source == fbs::PowerSource::modelled);
  CHECK(r.energy_j == 4000);
  CHECK(r.pace_of_1024 == 256);
  CHECK(r.power_wait_ms == 500);
  f.power(1024);
  f.end_with(0);
  CHECK(f.reporter.take_all<fbs::StepReport>().at(0)->power_wait_ms() == 0);
  const auto shown = std::move(f.status().values->run);
  CHECK(shown->power_wait_ms == 500);
  CHECK(shown->pace_percent == 100);
}

namespace {

/// Under a power budget, admitted at a pace; its stages answer of themselves nothing of the brake.
struct braked_run : budgeted_run {
  using said = std::vector<std::string>;

  explicit braked_run(bool recovers = false)
      : budgeted_run({.recovers = recovers, .power_parent = "auto"}) {
    CHECK(!taken().brake_armed);
    power(300);
    answers_brakes = false;
    admit();
  }
  void begin_steps() {
    for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
      pass_phase(static_cast<start_phase>(p));
  }
  void brake() { power(0, "the power budget row0 holds all work by its brake", true); }
};

}  // namespace

TEST_CASE(
    "PWR-4: run: the brake goes to all stages within the step, and its path is tried before") {
  braked_run f;
  CHECK(f.hear_brakes() == braked_run::said{"0 off", "1 off"});
  f.begin_steps();
  auto taken = f.taken();
  CHECK(taken.step == 1);
  CHECK(taken.brake_armed);
  f.brake();
  CHECK(f.hear_brakes() == braked_run::said{"0 on", "1 on"});
  CHECK(any_has(f.warnings(), "waits for power: the power budget row0 holds all work"));
  f.brake();
  CHECK(f.hear_brakes().empty());  // as before
  CHECK(f.pacer.idle());
  f.power(300);
  CHECK(f.hear_brakes() == braked_run::said{"0 off", "1 off"});
  CHECK(any_has(f.warnings(), "goes on"));
  f.step();
  taken = f.taken();
  CHECK(taken.step == 2);
  CHECK(taken.brake_armed);
}

TEST_CASE("PWR-4: run: the brake overtakes what waits at a stage, on and off") {
  braked_run f;
  const auto all_urgent = [&f] {
    for (const auto& stage : f.stages) {
      const auto order = stage.take<fbs::Brake>();
      CHECK(order.is_urgent());
      order.answer<fbs::Ack>();
    }
  };
  all_urgent();  // its path is tried
  f.begin_steps();
  for (const auto& stage : f.stages) CHECK(!stage.take<fbs::RunStep>().is_urgent());
  f.brake();
  all_urgent();
  f.power(300);
  all_urgent();
}

TEST_CASE("PWR-4: run: where a stage does not answer, its brake is not armed, and is asked again") {
  braked_run f;
  f.stages[0].take<fbs::Brake>().answer<fbs::Ack>();
  f.stages[1].take<fbs::Brake>();
  f.pass(2s);
  f.begin_steps();
  CHECK(!f.taken().brake_armed);
  f.power(300);
  CHECK(f.hear_brakes() == braked_run::said{"0 off", "1 off"});
  const auto taken = f.taken();  // at once
  CHECK(taken.step == 1);
  CHECK(taken.brake_armed);
  f.power(300);
  CHECK(f.hear_brakes().empty());
  CHECK(f.pacer.idle());
  f.step();
  CHECK(f.taken().brake_armed);
}

TEST_CASE("PWR-4: run: of the step that begins as the brake ends it is told that it can be held") {
  braked_run f;
  f.hear_brakes();
  f.begin_steps();
  f.taken();
  f.brake();
  f.hear_brakes();
  f.step();
  CHECK(f.taken().step == 0);
  f.power(300);
  auto taken = f.taken();
  CHECK(taken.step == 2);
  CHECK(!taken.brake_armed);
  f.hear_brakes();
  taken = f.taken();
  CHECK(taken.step == 2);
  CHECK(taken.pace_of_1024 == 300);
  CHECK(taken.brake_armed);
  f.brake();
  f.stages[0].take_all<fbs::Brake>().at(0).answer<fbs::Ack>();
  CHECK(f.pacer.idle());  // it may still answer
  f.pass(2s);
  taken = f.taken();
  CHECK(taken.step == 2);
  CHECK(!taken.brake_armed);
}

TEST_CASE("PWR-1: run: a step counts as made until the ranks of its epoch must have ended") {
  for (const bool others_come : {true, false}) {
    CAPTURE(others_come);
    budgeted_run f({.recovers = true, .power_parent = "auto"});
    f.taken();
    f.power(1024);
    f.start();
    CHECK(f.taken().step == 1);
    f.power(300);
    f.lose("b");
    auto taken = f.taken();
    CHECK(taken.step == 1);
    CHECK(taken.pace_of_1024 == 1024);
    CHECK(taken.follows == 1);
    f.pass(10s - 1ms);  // recovery.quiet_ms
    f.power(200);
    CHECK(f.pacer.idle());
    if (others_come)
      f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
    else
      f.pass(1ms);  // where no word comes
    taken = f.taken();
    CHECK(taken.step == 0);
    CHECK(taken.follows == 3);
    CHECK(f.pacer.idle());
  }
}

TEST_CASE("PWR-1: run: a step counts as made until ranks have ended a validation that was left") {
  for (const bool one_fails : {false, true}) {
    CAPTURE(one_fails);
    budgeted_run f({.train = "validate_every = 100\n", .power_parent = "auto"});
    f.power(1024);
    f.start();
    f.stop(true);
    f.step();
    std::vector<troupe::test::told<fbs::Validate>> asked;
    for (const auto& stage : f.stages) asked.push_back(stage.take_all<fbs::Validate>().at(0));
    const auto told = f.pacer.take_all<fbs::PaceTaken>();
    REQUIRE(!told.empty());
    CHECK(told.back()->step() == 1);
    if (one_fails) {
      asked[0].refuse({errc::io, "a kernel failed"});
      CHECK(f.status().state == "finishing checkpoints");
      CHECK(f.pacer.idle());
      continue;  // nobody says when the other has ended
    }
    f.stop(false);
    CHECK(f.status().state == "finishing checkpoints");
    CHECK(f.pacer.idle());
    for (const auto& a : asked) a.answer<fbs::ValidationDone>();
    CHECK(f.taken().step == 0);
    f.commit(1);
    CHECK(f.ended().code == static_cast<uint8_t>(errc::cancelled));
  }
}

TEST_CASE("PWR-4: run: under the brake no step begins, and the stages of a new epoch are held") {
  braked_run f(true);
  f.hear_brakes();
  f.begin_steps();
  f.taken();
  f.brake();
  f.hear_brakes();
  f.lose("b");
  const auto between = f.pacer.take_all<fbs::PaceTaken>();
  REQUIRE(!between.empty());
  CHECK(between.back()->step() == 1);  // old ranks may still end an operation
  CHECK(!between.back()->brake_armed());
  f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
  CHECK(f.hear_brakes() == braked_run::said{"0 on", "1 on"});
}

TEST_CASE("PWR-4: run: a stop waits for the brake, and one more ends the run without the step") {
  for (const int way : {0, 1, 2, 3}) {
    const int stops = 1 + way % 2;
    const bool is_first = way > 1;  // before the brake
    CAPTURE(stops);
    CAPTURE(is_first);
    braked_run f;
    f.hear_brakes();
    f.begin_steps();
    if (is_first) f.stop(true);
    CHECK(!any_has(f.warnings(), "brake"));  // none is on
    f.brake();
    f.hear_brakes();
    if (!is_first) f.stop(true);
    CHECK(any_has(f.warnings(), "stopped again it ends at once"));
    f.power(300);  // what was said once is neither said again nor a stop
    f.brake();
    f.hear_brakes();
    CHECK(!any_has(f.warnings(), "stopped again"));
    CHECK(f.coordinator.idle());
    if (stops == 2) {
      f.stop(true);
      CHECK(f.ended().code == static_cast<uint8_t>(errc::cancelled));
      CHECK(f.stages[0].take_all<fbs::SaveCheckpoint>().empty());
      continue;
    }
    f.power(300);
    f.step();
    CHECK(f.stages[0].take_all<fbs::SaveCheckpoint>().size() == 1);
    CHECK(f.coordinator.idle());
  }
}

TEST_CASE("PWR-4: run: who stops without saving waits for no brake") {
  for (const bool is_first : {false, true}) {
    CAPTURE(is_first);
    braked_run f;
    f.hear_brakes();
    f.begin_steps();
    if (is_first) f.stop(false);
    CHECK(f.coordinator.idle());  // the step ends soon
    f.brake();
    if (!is_first) f.stop(false);
    CHECK(f.ended().code == static_cast<uint8_t>(errc::cancelled));
  }
}

TEST_CASE("PWR-4: run: a step that may be braked waits for its ranks as at the least pace") {
  budgeted_run f({.step_s = 3, .power_parent = "auto"});
  f.power(1024);
  f.start();
  const auto patience = 3000ms * work_pace::whole / work_pace_policy::least_pace.of_1024;
  f.pass(patience - 1ms);
  CHECK(f.coordinator.idle());
  f.pass(1ms);
  CHECK(f.ended().code == static_cast<uint8_t>(errc::timeout));
}

TEST_CASE("PWR-4: run: a start that is held back is of one step, of all its ranks, and told") {
  budgeted_run f({.power_parent = "auto", .checkpoint_every = 4});
  f.taken();
  f.power(1024);
  f.start();
  CHECK(f.taken().start_offset_us == 0);
  f.power(1024, {}, false, 400'000);  // while the first step goes on
  f.power(1000);                      // says no more of it
  const auto offsets = [&](uint64_t expected) {
    for (size_t i = 0; i < 2; ++i) {
      const auto asked = f.stages[i].take<fbs::RunStep>();
      CHECK(asked->start_offset_us() == expected);
      f.end_step(asked, i);
    }
  };
  offsets(0);
  CHECK(f.taken().start_offset_us == 400'000);
  offsets(400'000);
  CHECK(f.taken().start_offset_us == 0);
  offsets(0);
}

TEST_CASE("run: no start is held back once no step may begin, or none was made") {
  using order = void (*)(budgeted_run&);
  const order pauses[] = {
      [](budgeted_run& f) {
        f.power(0, "the power budget row0 wants the work paused");
        f.power(1024);
      },
      [](budgeted_run& f) {
        f.power(0, "the power budget row0 holds all work by its brake", true);
        f.power(1024);
        f.hear_brakes();
      },
      [](budgeted_run& f) { f.ask<fbs::Pause>(); },
  };
  for (const auto& pause : pauses) {
    CAPTURE(&pause - pauses);
    budgeted_run f({.power_parent = "auto"});
    f.power(1024);
    f.start();
    f.power(1024, {}, false, 400'000);
    pause(f);
    f.step();
    f.ask<fbs::Resume>();
    CHECK(f.stages[0].take<fbs::RunStep>()->start_offset_us() == 0);
  }
}

TEST_CASE("run: an order to hold a start back is void for ranks that are given out anew") {
  budgeted_run f({.recovers = true, .power_parent = "auto"});
  f.power(1024);
  f.start();
  f.power(1024, {}, false, 400'000);
  f.stages[0].take<fbs::RunStep>();
  f.stages[1].take<fbs::RunStep>();
  f.lose("b");
  f.power(1024, {}, false, 300'000);  // of the beat before
  f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
  f.power(1024, {}, false, 200'000);  // while no step is made
  for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  CHECK(f.stages[0].take<fbs::RunStep>()->start_offset_us() == 0);
}

TEST_CASE("run: no start is held back where no budget is above the job") {
  budgeted_run alone({.budget_w = 80});
  alone.power(1024);
  alone.start();
  alone.power(1024, {}, false, 400'000);
  alone.step();
  CHECK(alone.stages[0].take<fbs::RunStep>()->start_offset_us() == 0);
}
