// A job that goes back because a person or its loss wants it so: JOB-17, JOB-18.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/job_policy.hpp"
#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::folder_of;
using troupe::train::test::job_harness;
using troupe::train::test::mentions;
using troupe::train::test::planned_job;
using troupe::train::test::recovering_job;
using enum troupe::train::job_state;

namespace {

using parts = std::vector<checkpoint::skipped_tokens>;

/// Batches of two rows of eight tokens; a checkpoint after each second step.
constexpr uint64_t tokens_a_step = 16;

/// So many steps are made, and each checkpoint that was due is committed.
void make_steps(job_harness& job, uint64_t steps, double loss = 10) {
  for (uint64_t made = 0; made < steps; ++made) {
    job.step(loss);
    if (job.saving.contains(job.policy.step())) job.commit(job.policy.step());
  }
}

job_harness job_after(uint64_t steps, job_plan plan = recovering_job("", 400)) {
  job_harness job(std::move(plan));
  job.start();
  make_steps(job, steps);
  return job;
}

/// What the committer chooses.
checkpoint::resume_point chosen(uint64_t step) {
  return {folder_of(step), step, {}, {step, step * tokens_a_step, 1.5, ""}};
}

/// Through the recovery that goes back; `to`: the checkpoint that is chosen, 0: there is none.
void go_back(job_harness& job, uint64_t to) {
  REQUIRE(job.policy.state() == recovering);
  job.hear(job.admitted());
  while (const auto* ask = job.find<todo::ask>()) {
    if (ask->phase != start_phase::choose_checkpoint) {
      job.pass();
      continue;
    }
    if (to == 0 || to > ask->at_most) {
      job.hear(heard::ask_failed{{errc::bad_data, "no other checkpoint of this run"}});
      continue;
    }
    heard::phase_done done{start_phase::choose_checkpoint};
    done.chosen = chosen(to);
    job.hear(done);
  }
}

const todo::find* finding_in(const job_harness& job, health::finding_name name) {
  for (const auto& c : job.last)
    if (const auto* f = std::get_if<todo::find>(&c); f && f->who.name == name) return f;
  return nullptr;
}

job_plan watchful(config::spike_action action, int64_t steps_back = 4) {
  auto plan = recovering_job("", 400);
  plan.job.recovery.on_spike = action;
  plan.job.recovery.spike_steps_back = steps_back;
  return plan;
}

/// Three losses in a row that are far too high.
void spike(job_harness& job) {
  for (int i = 0; i < 2; ++i) make_steps(job, 1, 40);
  job.step(40);
}

}  // namespace

TEST_CASE("JOB-17: job: a person's rewind goes back after the step, to the checkpoint he names") {
  auto job = job_after(7);
  CHECK(job.person(heard::rewind{0, 5, 0, "it went wrong"}) ==
        "goes back after step 8 to the newest checkpoint of step 5 or before");
  CHECK(job.policy.state() == stepping);
  job.step();
  REQUIRE(job.find<todo::recover>());
  CHECK(job.find<todo::recover>()->epoch == 8);
  job.hear(job.admitted());
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  CHECK(job.find<todo::ask>()->at_most == 5);
  CHECK(job.find<todo::ask>()->unsound.empty());
  heard::phase_done done{start_phase::choose_checkpoint};
  done.chosen = chosen(4);
  job.hear(done);
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 5);
  CHECK(job.policy.tokens() == 4 * tokens_a_step);
  CHECK(job.policy.skipped().empty());
  const auto& fault = job.policy.incidents().back();
  CHECK(fault.finding == "rewound");
  CHECK(fault.fell_after_step == 8);
  CHECK(fault.resumed_after_step == 4);
  CHECK(fault.done == "it went back, from step-00000004");
  CHECK(fault.rule == 0);
}

TEST_CASE("JOB-17: job: what is passed over stays so, whatever comes, and is in every checkpoint") {
  auto job = job_after(7);
  job.person(heard::rewind{0, 4, 3});
  job.step();
  job.hear(job.admitted());
  heard::phase_done done{start_phase::choose_checkpoint};
  done.chosen = chosen(4);
  job.hear(done);
  const parts skipped{{4 * tokens_a_step, 3 * tokens_a_step}};
  CHECK(job.policy.skipped() == skipped);
  CHECK(job.policy.tokens() == 4 * tokens_a_step);
  CHECK(job.policy.memory().skipped == skipped);
  CHECK_FALSE(job.policy.memory().rewind);  // a next head is there already
  // A fault in the middle of it: nothing is passed over twice.
  job.hear(heard::node_lost{"n1", "was killed"});
  go_back(job, 0);
  CHECK(job.policy.skipped() == skipped);
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 5);
  job.step();
  CHECK(job.policy.tokens() == (4 + 3 + 1) * tokens_a_step);
  CHECK(job.find<todo::report>()->step.tokens == 5 * tokens_a_step);
  job.step();
  CHECK(job.policy.tokens() == (4 + 3 + 2) * tokens_a_step);
  REQUIRE(job.saving.contains(6));
  job.hear(heard::shards_saved{6, 100});
  REQUIRE(job.find<todo::commit>());
  const auto state = checkpoint::parse_state(job.find<todo::commit>()->state);
  REQUIRE(state);
  CHECK(state->skipped == skipped);
  CHECK(state->tokens == 9 * tokens_a_step);
  // Who begins with that checkpoint is at the same place.
  job_harness next(recovering_job("", 400),
                   checkpoint::resume_point{folder_of(6), 6, {}, *state});
  CHECK(next.policy.skipped() == skipped);
  CHECK(next.policy.tokens() == 9 * tokens_a_step);
}

TEST_CASE("JOB-17: job: one that is paused goes back at once, and is paused there") {
  auto job = job_after(6);
  job.person(heard::pause{});
  job.step();
  REQUIRE(job.policy.state() == paused);
  CHECK(job.person(heard::rewind{0, 4, 1}) ==
        "goes back now to the newest checkpoint of step 4 or before; the data of 1 step from there "
        "on are passed over");
  go_back(job, 4);
  CHECK(job.policy.state() == paused);
  CHECK(job.policy.step() == 4);
  job.person(heard::resume{});
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 5);
}

TEST_CASE("JOB-17: job: what cannot be gone back to is refused, and nothing happens") {
  auto job = job_after(7);
  CHECK(job.person(heard::rewind{0, 8}).find("step 8 is not made yet") != std::string::npos);
  CHECK(job_after(1).person(heard::rewind{0, 1}).find("no checkpoint") != std::string::npos);
  auto without = job_after(7, planned_job("", ""));
  CHECK(job_after(3, planned_job()).person(heard::rewind{0, 2}).find("recovery.enabled is false") !=
        std::string::npos);
  job_harness late(recovering_job("", 400), chosen(6));
  late.start();
  CHECK(late.person(heard::rewind{0, 5}).find("cannot go back behind step 6") != std::string::npos);
  for (const uint64_t steps : {checkpoint::most_skipped_steps + 1, UINT64_MAX})
    CHECK(job.person(heard::rewind{0, 4, steps}).find("cannot be passed over") !=
          std::string::npos);
  job.person(heard::rewind{0, 4});
  CHECK(job.person(heard::rewind{0, 2}).find("goes back already, to step 4") != std::string::npos);
  job.step();
  CHECK(job.find<todo::recover>());
}

TEST_CASE("JOB-17: job: where the checkpoint is gone, the job goes on from its newest one") {
  auto job = job_after(7);
  job.person(heard::rewind{0, 3});
  job.step();
  go_back(job, 0);
  CHECK(mentions(job.warned, "the run cannot go back"));
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 7);
  CHECK_FALSE(job.policy.memory().rewind);
  CHECK(job.policy.incidents().back().done ==
        "there was no checkpoint to go back to, from step-00000006");
}

TEST_CASE("JOB-17: job: the last step is made, and a rewind that was asked for still comes") {
  auto plan = recovering_job("", 6);
  auto job = job_after(5, plan);
  job.person(heard::rewind{0, 4});
  job.step();
  REQUIRE(job.find<todo::recover>());
  go_back(job, 4);
  CHECK(job.find<todo::run_step>()->step == 5);
}

TEST_CASE("JOB-17: job: a loss that is no number in the step before does not stop it") {
  auto job = job_after(7);
  job.person(heard::rewind{0, 4});
  job.step(std::numeric_limits<double>::quiet_NaN());
  CHECK_FALSE(job.end);
  CHECK(job.policy.incidents().back().finding == "rewound");
  go_back(job, 4);
  CHECK(job.find<todo::run_step>()->step == 5);
}

TEST_CASE("JOB-17: job: what is passed over is saved after the next step, whatever is due") {
  auto job = job_after(7);
  job.person(heard::rewind{0, 4, 1});
  job.step();
  go_back(job, 4);
  job.step();
  CHECK(job.saving.contains(5));
}

TEST_CASE("JOB-17: job: a committer that does not answer is none without such a checkpoint") {
  auto job = job_after(7);
  job.person(heard::rewind{0, 4, 1});
  job.step();
  job.hear(job.admitted());
  REQUIRE(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  job.hear(heard::ask_failed{{errc::timeout, "no answer"}});
  CHECK(job.policy.state() == explaining);
  job.wait();
  go_back(job, 4);
  CHECK(job.find<todo::run_step>()->step == 5);
  CHECK(job.policy.skipped() == parts{{4 * tokens_a_step, tokens_a_step}});
}

TEST_CASE("JOB-15: job: where the checkpoint that it went back to cannot be loaded, as ever") {
  auto job = job_after(7);
  job.person(heard::rewind{0, 4});
  job.step();
  job.hear(job.admitted());
  heard::phase_done done{start_phase::choose_checkpoint};
  done.chosen = chosen(4);
  job.hear(done);
  while (job.find<todo::ask>()->phase != start_phase::load_weights) job.pass();
  job.hear(heard::ask_failed{{errc::bad_data, "a sum is wrong"}});
  CHECK(job.policy.state() == recovering);
  job.hear(job.admitted());
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->unsound == std::vector<std::string>{folder_of(4)});
  job.hear(heard::ask_failed{{errc::bad_data, "no other checkpoint of this run"}});
  REQUIRE(job.end);
  CHECK(job.end->code == errc::bad_data);
}

TEST_CASE("JOB-17: job: the next head keeps the promise of one that is lost before") {
  auto job = job_after(7);
  job.person(heard::rewind{0, 4, 2, "bad data"});
  auto memory = job.policy.memory();
  REQUIRE(memory.rewind);
  CHECK(*memory.rewind == rewind_order{4, 2, "bad data"});
  memory.lost = lost_head{"was killed", 7, 7, job.now_ns};
  const auto head_from = [&](uint64_t step) {
    job_harness next(recovering_job("", 400), chosen(step));
    next.now_ns = job.now_ns;
    next.policy.remember(memory);
    for (const auto& c : next.policy.begin(next.now_ns))
      if (const auto* s = std::get_if<todo::say>(&c); s && s->warning)
        next.warned.push_back(s->text);
    next.hear(next.admitted());
    while (next.find<todo::ask>()) next.pass();
    return next;
  };
  auto next = head_from(4);
  REQUIRE(next.find<todo::recover>());
  go_back(next, 4);
  CHECK(next.find<todo::run_step>()->step == 5);
  CHECK(next.policy.skipped() == parts{{4 * tokens_a_step, 2 * tokens_a_step}});
  const auto newer = head_from(6);
  CHECK(mentions(newer.warned, "does not go back to step 4 or before, as ordered"));
  REQUIRE(newer.find<todo::run_step>());
  CHECK_FALSE(newer.policy.memory().rewind);
}

TEST_CASE("REQ-6: job: settings that were made since hold no more, and new ones do at once") {
  auto job = job_after(3);
  job.person(heard::set_value{0, "train.lr", "0.25"});  // from step 5 on
  make_steps(job, 5);
  job.person(heard::rewind{0, 2});
  CHECK(job.person(heard::set_value{0, "train.lr", "0.5"}).find("about to go back") !=
        std::string::npos);
  job.step();
  job.hear(job.admitted());
  heard::phase_done done{start_phase::choose_checkpoint};
  done.chosen = chosen(2);
  job.hear(done);
  CHECK(mentions(job.said, "train.lr = 0.25 from step 5 on holds no more"));
  // A fault before the first step takes back nothing that was said since.
  CHECK(job.person(heard::set_value{0, "train.lr", "0.125"}) == "train.lr = 0.125 from step 3 on");
  job.hear(heard::node_lost{"n1", "was killed"});
  go_back(job, 0);
  make_steps(job, 4);
  CHECK(job.policy.plan().job.train.lr == 0.125);
}

TEST_CASE("JOB-18: job: a spike is told, with what was set before it, and told when it is over") {
  auto job = job_after(30, watchful(config::spike_action::tell));
  job.person(heard::set_value{0, "train.lr", "0.5"});
  make_steps(job, 1);
  spike(job);
  const auto* found = finding_in(job, health::finding_name::loss_spike);
  REQUIRE(found);
  CHECK_FALSE(found->gone);
  CHECK(found->shown.seen == 20);
  CHECK(found->shown.wanted == doctest::Approx(5.1));
  CHECK(found->shown.text.find("train.lr was set to 0.5 for step 32") != std::string::npos);
  CHECK(found->shown.text.find("step 32 ") != std::string::npos);
  CHECK(job.policy.state() == stepping);
  if (job.saving.contains(job.policy.step())) job.commit(job.policy.step());
  make_steps(job, 2);
  job.step();
  found = finding_in(job, health::finding_name::loss_spike);
  REQUIRE(found);
  CHECK(found->gone);
}

TEST_CASE("JOB-18: job: rewind_skip goes back before the spike, and past the data until now") {
  auto job = job_after(31, watchful(config::spike_action::rewind_skip));
  spike(job);  // steps 32 to 34
  REQUIRE(job.find<todo::recover>());
  CHECK(job.policy.incidents().back().finding == "loss_spike");
  job.hear(job.admitted());
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->at_most == 27);
  heard::phase_done done{start_phase::choose_checkpoint};
  done.chosen = chosen(26);
  job.hear(done);
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 27);
  CHECK(job.policy.skipped() == parts{{26 * tokens_a_step, 8 * tokens_a_step}});
  CHECK(job.policy.incidents().back().done ==
        "it went back and passed over the data of 8 steps, from step-00000026");
  make_steps(job, 1);
  CHECK(job.policy.tokens() == 35 * tokens_a_step);
}

TEST_CASE("JOB-18: job: where nothing is as old as wanted, what is older than the spike will do") {
  auto job = job_after(31, watchful(config::spike_action::rewind_skip, 100));
  spike(job);
  job.hear(job.admitted());
  CHECK(job.find<todo::ask>()->at_most == 0);
  job.hear(heard::ask_failed{{errc::bad_data, "no other checkpoint of this run"}});
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  CHECK(job.find<todo::ask>()->at_most == 31);
  heard::phase_done done{start_phase::choose_checkpoint};
  done.chosen = chosen(30);
  job.hear(done);
  while (job.find<todo::ask>()) job.pass();
  CHECK(job.find<todo::run_step>()->step == 31);
}

TEST_CASE("JOB-18: job: a spike without a checkpoint before it is gone back for once") {
  auto job = job_after(31, watchful(config::spike_action::rewind_skip));
  spike(job);
  go_back(job, 0);
  CHECK_FALSE(finding_in(job, health::finding_name::loss_spike));
  REQUIRE(job.find<todo::run_step>());
  for (int i = 0; i < 5; ++i) {
    job.step(40);
    CHECK_FALSE(job.find<todo::recover>());
  }
}

TEST_CASE("JOB-18: job: a loss that is no number goes back if that is wanted, else ends the job") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto told = job_after(31, watchful(config::spike_action::tell));
  told.step(nan);
  REQUIRE(told.end);
  CHECK(told.end->code == errc::training);
  CHECK(finding_in(told, health::finding_name::bad_loss));

  auto job = job_after(31, watchful(config::spike_action::rewind_skip, 0));
  job.step(nan);
  CHECK_FALSE(job.end);
  CHECK_FALSE(job.find<todo::report>());
  CHECK(job.policy.incidents().back().finding == "bad_loss");
  go_back(job, 30);
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 31);
  CHECK(job.policy.skipped() == parts{{30 * tokens_a_step, 2 * tokens_a_step}});
  const auto* gone = finding_in(job, health::finding_name::bad_loss);
  REQUIRE(gone);
  CHECK(gone->gone);
}

TEST_CASE("JOB-18: job: the same steps are not made again and again, and the hour's budget holds") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto again = job_after(31, watchful(config::spike_action::rewind, 0));
  again.step(nan);
  go_back(again, 30);
  make_steps(again, 1);
  again.step(nan);  // step 32 once more
  REQUIRE(again.end);
  CHECK(mentions(again.warned, "the same steps were made again"));

  auto plan = watchful(config::spike_action::rewind_skip, 0);
  plan.job.recovery.most_per_hour = 2;
  auto job = job_after(31, plan);
  for (int round = 0; round < 2; ++round) {
    job.step(nan);
    REQUIRE_FALSE(job.end);
    go_back(job, 30);
    make_steps(job, 1);
  }
  job.step(nan);
  CHECK(job.end);
}

TEST_CASE("JOB-18: job: settings that persons were promised hold when it goes back by itself") {
  auto job = job_after(20, watchful(config::spike_action::rewind_skip));
  job.person(heard::set_value{0, "train.lr", "0.25"});
  make_steps(job, 11);
  spike(job);
  go_back(job, 26);
  CHECK(job.policy.plan().job.train.lr == 0.25);
  CHECK_FALSE(mentions(job.said, "holds no more"));
}
