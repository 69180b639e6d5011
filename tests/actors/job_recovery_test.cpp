// What the job does after a fault: JOB-11 to JOB-13, and what the rules of recovery say.
#include "actors/train/job_policy.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/drive_failure.hpp"
#include "actors/train/last_save_policy.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::folder_of;
using troupe::train::test::job_harness;
using troupe::train::test::mentions;
using troupe::train::test::planned_job;
using troupe::train::test::recovering_job;
using troupe::train::test::trained;
using enum troupe::train::job_state;

namespace {

/// As trained(), of a job that goes on after a fault.
job_harness with_recovery(uint64_t steps, const std::string& checkpoint = "") {
  job_harness job(recovering_job(checkpoint, 9));
  job.policy.begin(job.now_ns);
  job.start();
  for (uint64_t step = 1; step <= steps; ++step) {
    job.step();
    if (job.saving.contains(step)) job.commit(step);
  }
  return job;
}

const heard::node_lost lost{"n1", "was killed"};

}  // namespace

namespace {

/// Three replicas on nodes of their own, that are compared after each checkpoint and each 4 steps.
job_harness with_replicas(uint64_t steps, bool recovers = true) {
  auto plan = recovering_job("", 9);
  plan.job.recovery.enabled = recovers;
  plan.job.parallel.data = 3;
  plan.job.health.digest_every = 4;
  plan.job.cluster.node.resize(3);
  for (size_t n = 0; n < 3; ++n) plan.job.cluster.node[n].name = std::string(1, "abc"[n]);
  for (int r = 0; r < 3; ++r) plan.ranks.push_back({{{3, 1, 1}, r}, r, {0, 1}});
  job_harness job(std::move(plan));
  job.start();
  for (uint64_t step = 1; step <= steps; ++step) {
    heard::step_done done{10, 2, 1, 40, 0};
    done.weights.compared = step % 2 == 1 || step % 4 == 0;
    if (const auto* next = job.find<todo::run_step>()) CHECK(next->digest == done.weights.compared);
    job.hear(done);
    if (!job.find<todo::run_step>()) job.hear(heard::validated{8, 2});
    if (job.saving.contains(step)) job.commit(step);
  }
  return job;
}

heard::step_done odd_step(std::vector<int> wrong) {
  heard::step_done done{10, 2, 1, 40, 0};
  done.weights = {true, health::odd_replicas{std::move(wrong), {0, 1, 2}, 5}};
  return done;
}

}  // namespace

TEST_CASE("JOB-13: job: whom its replicas outvote is lost, and the step is not made") {
  auto job = with_replicas(3);
  job.hear(odd_step({1}));
  CHECK(job.policy.step() == 3);
  CHECK(job.policy.state() == stepping);
  REQUIRE(job.find<todo::give_up_node>());
  CHECK(job.find<todo::give_up_node>()->name == "b");
  CHECK(job.find<todo::give_up_node>()->finding == "wrong_bits");
  CHECK_FALSE(job.find<todo::run_step>());
  job.hear(heard::node_lost{"b", "is wrong", "wrong_bits"});
  CHECK(job.policy.state() == recovering);
  REQUIRE(job.policy.incidents().size() == 1);
  CHECK(job.policy.incidents().back().finding == "wrong_bits");
  job.hear(heard::admitted{});
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);  // step 3 compared what step 2 had saved
  CHECK(job.find<todo::run_step>()->digest);
}

TEST_CASE("JOB-13: job: where nobody can say who is wrong, all ranks begin anew") {
  for (const auto& wrong : {std::vector<int>(), std::vector{0, 2}}) {
    auto job = with_replicas(3);
    job.hear(odd_step(wrong));
    CHECK_FALSE(job.find<todo::give_up_node>());
    CHECK(job.policy.state() == recovering);
    CHECK(job.policy.incidents().back().node.empty());
    CHECK(job.policy.incidents().back().finding == "wrong_bits");
  }
}

TEST_CASE("JOB-13: job: a save that is open is of what was found wrong, and is given up") {
  auto job = with_replicas(3);
  job.step();
  REQUIRE(job.saving.contains(4));
  job.hear(odd_step({1}));
  REQUIRE(job.find<todo::give_up_node>());
  job.hear(heard::shards_saved{4, 10});
  CHECK_FALSE(job.find<todo::commit>());
  job.hear(heard::node_lost{"b", "is wrong", "wrong_bits"});
  job.hear(job.admitted());
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);
}

TEST_CASE("JOB-13: job: it goes back behind a checkpoint that nobody compared") {
  auto job = with_replicas(4);  // the checkpoint of step 4 is there, step 5 would compare it
  auto without = with_replicas(4, false);
  job.hear(odd_step({1}));
  REQUIRE(job.find<todo::give_up_node>());
  job.hear(heard::node_lost{"b", "is wrong", "wrong_bits"});
  job.hear(heard::admitted{});
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  CHECK(job.find<todo::ask>()->at_most == 3);
  CHECK(job.find<todo::ask>()->unsound.empty());
  auto alone = job;
  job.pass();
  CHECK(job.policy.saved_step() == 2);
  CHECK(job.policy.checkpoint() == folder_of(2));
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);
  for (int i = 3; i <= 4; ++i) job.step();
  CHECK(job.saving.contains(4));

  alone.hear(heard::ask_failed{{errc::bad_data, "there is none"}});
  REQUIRE(alone.end);
  CHECK(alone.end->is(wrong_bits_saved));
  without.hear(odd_step({1}));
  REQUIRE(without.end);
  CHECK(without.end->is(wrong_bits_saved));
}

TEST_CASE("JOB-13: job: one that is being committed is waited for, and left as well") {
  auto job = with_replicas(3);
  job.step();
  job.hear(heard::shards_saved{4, 100});
  job.saving.erase(4);
  job.hear(odd_step({}));
  CHECK(job.policy.state() == recovering);
  job.hear(heard::admitted{});
  auto failing = job;
  job.hear(heard::committed{4, folder_of(4)});
  CHECK(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  failing.hear(heard::save_failed{4, {errc::io, "no space"}});
  CHECK(failing.find<todo::ask>()->phase == start_phase::open_folder);
  CHECK(failing.policy.step() == 2);
}

TEST_CASE("JOB-13: job: the newest checkpoint that was compared is held until a newer one was") {
  auto job = with_replicas(2);
  CHECK_FALSE(job.find<todo::hold>());
  const auto step = [&] {
    heard::step_done done{10, 2, 1, 40, 0};
    done.weights.compared = true;
    job.hear(done);
    std::vector<std::pair<uint64_t, bool>> out;
    for (const auto& c : job.last)
      if (const auto* h = std::get_if<todo::hold>(&c)) out.emplace_back(h->step, h->hold);
    if (!job.find<todo::run_step>()) job.hear(heard::validated{8, 2});
    return out;
  };
  using holds = std::vector<std::pair<uint64_t, bool>>;
  CHECK(step() == holds{{2, true}});  // step 3 computes with what step 2 has saved
  CHECK(step().empty());
  job.commit(4);
  CHECK_FALSE(job.find<todo::hold>());
  CHECK(step() == holds{{4, true}, {2, false}});
  job.step();  // 6 is being written
  CHECK(step().empty());
  job.commit(6);  // it was compared before it was there
  REQUIRE(job.find<todo::hold>());
  CHECK(job.find<todo::hold>()->step == 6);
}

TEST_CASE("JOB-13: job: what is held of a checkpoint is said before the next one is committed") {
  auto job = with_replicas(2);
  for (int i = 0; i < 4; ++i) {
    heard::step_done done{10, 2, 1, 40, 0};
    done.weights.compared = true;
    job.hear(done);
    if (!job.find<todo::run_step>()) job.hear(heard::validated{8, 2});
  }
  job.hear(heard::shards_saved{4, 100});
  REQUIRE(job.find<todo::commit>());
  job.hear(heard::shards_saved{6, 100});
  CHECK_FALSE(job.find<todo::commit>());
  const auto ends = [&](auto j) {
    std::vector<std::string> said;
    j.hear(heard::committed{4, folder_of(4)});
    for (const auto& c : j.last) {
      if (const auto* h = std::get_if<todo::hold>(&c))
        said.push_back(fmt::format("{} {}", h->hold ? "hold" : "release", h->step));
      if (const auto* o = std::get_if<todo::commit>(&c))
        said.push_back(fmt::format("commit {}", o->step));
    }
    CHECK(said == std::vector<std::string>{"hold 4", "release 2", "commit 6"});
    return j;
  };
  ends(job);
  job.hear(lost);  // so it is in a recovery, which waits for both
  job.hear(heard::admitted{});
  auto back = ends(job);
  CHECK_FALSE(back.template find<todo::ask>());
  back.hear(heard::committed{6, folder_of(6)});
  CHECK(back.template find<todo::ask>());
  CHECK(back.policy.step() == 6);
}

TEST_CASE("JOB-15: job: a checkpoint that ranks cannot load is left for the one before it") {
  auto job = with_recovery(5);
  job.hear(lost);
  job.hear(heard::admitted{});
  while (job.find<todo::ask>()->phase != start_phase::load_weights) job.pass();
  const error damaged{errc::bad_data, "rank-00001.shard: slot 3 is damaged"};
  job.hear(heard::ask_failed{damaged});
  CHECK(job.policy.state() == recovering);
  REQUIRE(job.find<todo::recover>());
  CHECK(job.find<todo::recover>()->epoch == 9);
  CHECK(mentions(job.warned, "slot 3 is damaged"));
  job.hear({heard::node_lost{"n0", "is silent"}});  // meanwhile
  job.hear(heard::admitted{});
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  CHECK(job.find<todo::ask>()->unsound == std::vector{folder_of(4)});
  CHECK(job.find<todo::ask>()->at_most == 4);
  CHECK(job.person(heard::pause{}) == "done once the run has recovered");
  job.person(heard::resume{});
  auto none = job;
  job.hear(heard::phase_done{start_phase::choose_checkpoint, "", 0, 0, 0, 0, {},
                             checkpoint::resume_point{folder_of(2), 2, {}, {2, 32, 1.5, ""}}});
  CHECK(job.policy.step() == 2);
  CHECK(job.policy.tokens() == 32);
  CHECK(job.policy.saved_step() == 2);
  while (job.find<todo::ask>()) {
    if (job.find<todo::ask>()->phase == start_phase::load_weights)
      CHECK(job.find<todo::ask>()->folder == folder_of(2));
    job.pass();
  }
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);
  CHECK(job.policy.recoveries() == 2);
  CHECK(job.policy.incidents().size() == 1);

  none.hear(heard::ask_failed{{errc::bad_data, "no other checkpoint"}});
  REQUIRE(none.end);
  CHECK(none.end->code == errc::bad_data);
  CHECK(none.end->kind == start_unsound);
  CHECK(none.end->message == damaged.message);
}

TEST_CASE("JOB-15: job: the first start leaves the choice to the next one") {
  job_harness job(recovering_job("", 9),
                  checkpoint::resume_point{folder_of(4), 4, {}, {4, 64, 2.5, ""}});
  job.hear(job.admitted());
  while (job.find<todo::ask>()->phase != start_phase::load_weights) job.pass();
  job.hear(heard::ask_failed{{errc::bad_data, "damaged"}});
  REQUIRE(job.end);
  CHECK(job.end->kind == start_unsound);
}

TEST_CASE("JOB-13: job: without recovery it ends by the loss of the node, or at once") {
  auto job = with_replicas(3, false);
  job.hear(odd_step({}));
  REQUIRE(job.end);
  CHECK(job.end->is(weights_differ));
}

TEST_CASE("JOB-11: job: after a lost node it goes on in a new epoch, from the newest checkpoint") {
  auto job = with_recovery(5);
  CHECK(job.policy.epoch() == 7);
  job.hear(lost);
  CHECK(job.policy.state() == recovering);
  REQUIRE(job.find<todo::recover>());
  CHECK(job.find<todo::recover>()->epoch == 8);
  CHECK(mentions(job.warned,
                 "node n1 was killed [dead_process, noticed after 0.0 s]: "
                 "recovery 1 begins (epoch 7 -> 8)"));
  job.hear(heard::admitted{});
  std::vector<start_phase> asked;
  while (const auto* ask = job.find<todo::ask>()) {
    asked.push_back(ask->phase);
    if (ask->phase == start_phase::load_weights) {
      CHECK(ask->folder == folder_of(4));
      CHECK(ask->optimizer);
    }
    CHECK(job.policy.step() == 4);
    job.pass();
  }
  CHECK(asked.size() == 8);
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 5);
  CHECK(mentions(job.said,
                 "recovered in 9.0 s (named 0.0 s, re-formed 8.0 s, restored 1.0 s): "
                 "step 5 follows, 1 is made again"));
  job.step();
  CHECK(job.find<todo::report>()->step.tokens == 5 * 16);
  while (!job.end) {
    if (job.saving.contains(job.policy.step())) job.commit(job.policy.step());
    if (!job.end && job.policy.state() == stepping) job.step();
  }
  CHECK(job.end->code == errc::none);
}

TEST_CASE("JOB-11: job: without a checkpoint it begins anew from the first weights") {
  auto job = with_recovery(1);
  job.hear(lost);
  job.hear(heard::admitted{});
  while (job.find<todo::ask>()) {
    CHECK(job.find<todo::ask>()->phase != start_phase::load_weights);
    job.pass();
  }
  CHECK(job.find<todo::run_step>()->step == 1);
}

TEST_CASE("JOB-11: job: a save whose shards are not written is given up, a commit is waited for") {
  auto writing = with_recovery(2);
  writing.step();
  writing.step();
  REQUIRE(writing.saving.contains(4));
  auto committing = writing;
  writing.hear(lost);
  CHECK_FALSE(writing.find<todo::abandon>());  // somebody may write to it still
  writing.hear(heard::admitted{});
  REQUIRE(writing.find<todo::abandon>());
  CHECK(writing.find<todo::abandon>()->folder == "/first/step-00000004.e7.partial");
  CHECK(writing.policy.step() == 2);

  committing.hear(heard::shards_saved{4, 100});
  REQUIRE(committing.find<todo::commit>());
  auto failing = committing;
  committing.hear(lost);
  committing.hear(heard::admitted{});
  CHECK(committing.policy.state() == recovering);
  CHECK_FALSE(committing.find<todo::ask>());
  committing.hear(heard::committed{4, folder_of(4)});
  REQUIRE(committing.find<todo::ask>());
  CHECK(committing.policy.step() == 4);

  failing.hear(lost);
  failing.hear(heard::save_failed{4, {errc::io, "no space"}});
  CHECK(failing.policy.state() == recovering);
  failing.hear(heard::admitted{});
  CHECK(failing.policy.step() == 2);
}

TEST_CASE("JOB-11: job: a node that is lost in a recovery begins another one") {
  auto job = with_recovery(5);
  job.hear(lost);
  job.hear(heard::admitted{});
  job.pass();
  job.hear({heard::node_lost{"n0", "is silent"}});
  CHECK(job.find<todo::recover>()->epoch == 9);
  job.hear({heard::node_lost{"n1", "is silent"}});
  CHECK(job.find<todo::recover>()->epoch == 10);
  const error nobody{errc::timeout, "nobody came"};
  job.hear(heard::not_admitted{nobody});
  CHECK(job.end == nobody);
}

TEST_CASE("JOB-12: job: a node that is drained leaves once the step is made and saved") {
  auto job = with_recovery(4);
  job.hear(heard::release{"n1", "is drained"});
  CHECK(job.policy.state() == stepping);
  job.step();
  REQUIRE(job.saving.contains(5));  // no other one is due
  CHECK(job.policy.state() == paused);
  CHECK_FALSE(job.find<todo::run_step>());
  auto failing = job;
  job.commit(5);
  CHECK(job.policy.state() == recovering);
  REQUIRE(job.find<todo::recover>());
  job.hear(heard::admitted{{"n0", "n2"}});
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 6);  // none is made again
  CHECK(job.policy.incidents().back().finding == "drained");

  failing.hear(heard::save_failed{5, {errc::io, "no space"}});
  CHECK(failing.policy.state() == recovering);
  failing.hear(heard::admitted{{"n0", "n2"}});
  CHECK(failing.policy.step() == 4);
}

TEST_CASE("JOB-12: job: who is drained leaves after a fault of another, before the next step") {
  auto job = with_recovery(5);
  job.hear(heard::release{"n1", "is drained"});
  job.hear(heard::node_lost{"n0", "was killed"});
  CHECK(job.find<todo::recover>()->epoch == 8);
  job.hear(heard::admitted{{"n2", "n1"}});
  job.hear(heard::release{"n1", "is drained"});  // CRD-14
  CHECK(job.policy.state() == opening);
  job.hear(heard::phase_done{start_phase::open_folder, "/first"});
  while (job.find<todo::ask>()) job.pass();
  CHECK(job.policy.state() == recovering);  // step 4 is saved
  REQUIRE(job.find<todo::recover>());
  CHECK(job.find<todo::recover>()->epoch == 9);
  job.hear(heard::admitted{{"n2", "n3"}});
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 5);
}

TEST_CASE("JOB-12: job: nothing goes on before what a node leaves behind is saved") {
  auto job = with_recovery(4);
  job.hear(heard::release{"n1", "is drained"});
  job.step();
  REQUIRE(job.saving.contains(5));
  job.hear(heard::resume{0, pause_cause::nodes});  // it is back, but another one leaves
  CHECK(job.policy.state() == paused);
  CHECK_FALSE(job.policy.pauses().empty());
  job.hear(heard::set_value{1, "train.steps", "5"});  // as many as are made
  CHECK(job.policy.state() == paused);
  job.commit(5);
  CHECK(job.policy.state() == recovering);
}

TEST_CASE("JOB-12: job: between two steps it leaves at once, and an order costs no budget") {
  auto plan = recovering_job("", 9);
  plan.job.recovery.most_per_hour = 1;
  job_harness job(plan);
  job.start();
  for (int i = 0; i < 2; ++i) job.step();
  job.commit(2);
  for (uint32_t epoch = 8; epoch < 12; ++epoch) {
    job.person(heard::pause{});
    if (job.policy.state() == stepping) job.step();
    REQUIRE(job.policy.state() == paused);
    job.hear(heard::release{"n1", "is drained"});
    if (job.policy.state() == paused) job.commit(job.policy.step());
    REQUIRE(job.find<todo::recover>());
    CHECK(job.find<todo::recover>()->epoch == epoch);
    job.hear(heard::admitted{});
    while (job.find<todo::ask>()) job.pass();
    CHECK(job.policy.state() == paused);  // the person's holds
    job.person(heard::resume{});
  }
  job.hear(heard::node_lost{"n1", "is evicted", "evicted", 0, true});
  CHECK(job.policy.state() == recovering);
}

TEST_CASE("JOB-12: job: an order to do without a node is not followed where no step follows") {
  const heard::node_lost ordered{"n1", "is evicted", "evicted", 0, true};
  const heard::stop stop{"enough", true};
  struct row {
    job_state in;
    bool stopped;
    job_harness job;
  };
  std::vector<row> rows;
  const auto add = [&](bool stopped, job_harness job) {
    rows.push_back({job.policy.state(), stopped, std::move(job)});
    return rows.back().job;
  };
  auto job = with_recovery(5);
  job.hear(stop);
  job = add(true, job);  // its step runs
  job.step();
  job = add(true, job);
  CHECK(job.policy.state() == settling);
  job.hear(heard::shards_saved{6, 100});
  add(true, job);
  job.lose_save(6);
  job = add(true, job);
  CHECK(job.policy.state() == waiting);
  job.wait();
  add(true, job);
  auto last = with_recovery(8);
  last.step();
  last = add(false, last);  // all steps are made
  CHECK(last.policy.state() == settling);
  for (auto& [in, stopped, at] : rows) {
    CAPTURE(to_string(in));
    const auto open = at.saving;
    at.hear(ordered);
    CHECK(at.policy.state() == in);
    CHECK_FALSE(at.find<todo::recover>());
    CHECK_FALSE(at.find<todo::abandon>());
    CHECK_FALSE(at.end);
    CHECK(at.saving == open);
  }
  last.hear(ordered);
  last.commit(9);
  REQUIRE(last.end);
  CHECK(last.end->code == errc::none);
  // A fault is none that a person wants.
  auto faulty = with_recovery(5);
  faulty.hear(stop);
  faulty.hear(lost);
  REQUIRE(faulty.end);
  CHECK(faulty.end->code == errc::unavailable);
}

TEST_CASE("job: who stands in for whom is what was done, whatever came between") {
  job_harness job(recovering_job("", 9));
  job.hear(heard::admitted{{"n0", "n1"}});
  while (job.find<todo::ask>()) job.pass();
  for (int i = 0; i < 2; ++i) job.step();
  job.commit(2);
  job.hear(lost);
  job.hear(heard::admitted{{"n0", "n2"}});
  CHECK(mentions(job.said, "recovery 1 (epoch 7 -> 8): spare n2 for n1"));
  job.pass();
  job.hear(heard::node_lost{"n0", "is silent"});
  job.hear(heard::admitted{{"n3", "n2"}});
  while (job.find<todo::ask>()) job.pass();
  const auto& done = job.policy.incidents().back().done;
  CHECK(done == "spare n3 for n0, spare n2 for n1, from step-00000002 (rule 1)");
}

TEST_CASE("job: what failed as where a node has died recovers even where nobody says which") {
  auto job = with_recovery(5);
  job.hear(heard::ask_failed{{errc::timeout, "step 6 on rank 1: no answer"}});
  CHECK(job.policy.state() == explaining);
  CHECK(job.person(heard::pause{0, pause_cause::person, "a look"}) ==
        "done once the run has recovered");
  job.person(heard::resume{});
  auto named = job;
  named.hear(lost);
  CHECK(named.find<todo::recover>()->reason == "node n1 was killed");
  job.wait();
  REQUIRE(job.find<todo::recover>());
  CHECK(job.find<todo::recover>()->reason == "step 6 on rank 1: no answer");

  auto wrong = with_recovery(5);
  wrong.hear(heard::ask_failed{{errc::bad_data, "no rank 7"}});
  CHECK(wrong.end);
}

TEST_CASE("job: what a rank that swaps cannot read or write is a disk that fails") {
  const auto of_drive = [](const error& why) { return told_of_drive(why).within("rank 1"); };
  const error unread = error::system("read", EIO), silent{errc::timeout, "no answer"};
  const auto told_of = [](const error& why, bool swaps) {
    auto plan = recovering_job("", 9);
    if (swaps) plan.job.swap.dir = {"/nvme/swap"};
    plan.job.recovery.rule = {{.finding = health::finding_name::stuck_collective},
                              {.finding = health::finding_name::disk_failing}};
    job_harness job(plan);
    job.policy.begin(job.now_ns);
    job.start();
    job.step();
    job.hear(heard::ask_failed{why});
    job.wait();
    REQUIRE(job.find<todo::recover>());
    const auto& fault = job.policy.incidents().back();
    CHECK(fault.node.empty());
    CHECK(fault.finding == (fault.rule == 2 ? "disk_failing" : "stuck_collective"));
    return fault.rule;
  };
  CHECK(told_of(of_drive(unread), true) == 2);
  CHECK(told_of(of_drive(silent), true) == 2);
  CHECK(told_of(of_drive(error::system("make a file", EDQUOT)), true) == 1);
  CHECK(told_of(unread, true) == 1);  // as of another file, or a socket
  CHECK(told_of(unread, false) == 1);
  CHECK(told_of({errc::timeout, "no answer"}, true) == 1);
  const auto standard = config::default_rules();
  CHECK(std::any_of(standard.begin(), standard.end(), [](const auto& rule) {
    return rule.finding == health::finding_name::disk_failing;
  }));
}

TEST_CASE("job: the end of a wait that was cut short ends no other one") {
  auto job = with_recovery(5);
  job.hear(heard::ask_failed{{errc::timeout, "no answer"}});
  job.hear(lost);
  job.hear(heard::admitted{});
  while (job.find<todo::ask>()) job.pass();
  job.hear(heard::ask_failed{{errc::timeout, "no answer"}});
  REQUIRE(job.policy.state() == explaining);
  job.hear(heard::tick{});  // of the first one
  CHECK(job.policy.state() == explaining);
  job.wait();
  CHECK(job.find<todo::recover>());
}

TEST_CASE(
    "job: no recovery of one that stops, nor more than its budget, and the end needs no node") {
  auto stopping = with_recovery(5);
  stopping.hear(heard::stop{"enough", true});
  stopping.hear(lost);
  CHECK(stopping.end);

  auto plan = recovering_job();
  plan.job.recovery.most_per_hour = 2;
  job_harness falling(plan);
  falling.start();
  falling.hear(lost);
  falling.hear(lost);
  CHECK_FALSE(falling.end);
  falling.hear(lost);
  REQUIRE(falling.end);
  CHECK(is_error(*falling.end, health::recoveries_used_up, "n1", "2"));

  auto exporting_job = recovering_job("export_model = true\n");
  job_harness done(exporting_job);
  done.start();
  for (uint64_t step = 1; step <= 4; ++step) {
    done.step();
    if (done.saving.contains(step)) done.commit(step);
  }
  REQUIRE(done.policy.state() == exporting);
  done.hear(lost);
  CHECK(mentions(done.warned, "node n1 was killed"));
  done.hear(heard::exported{"model", {}});
  REQUIRE(done.end);
  CHECK(done.end->code == errc::none);
}

TEST_CASE("job: a rule says what a lost node is followed by, and the incident says which") {
  auto plan = recovering_job();
  const auto rule = [](config::recovery_action action) {
    return config::recovery_rule{health::finding_name::dead_process, action, 3600, 1};
  };
  plan.job.recovery.rule = {rule(config::recovery_action::restart),
                            rule(config::recovery_action::hold),
                            rule(config::recovery_action::end)};
  job_harness job(plan);
  job.start();
  const auto back = [&] {
    job.hear(lost);
    REQUIRE(job.find<todo::note_decision>());
    CHECK(job.find<todo::note_decision>()->what.node == "n1");
    job.hear(heard::admitted{});
    while (job.find<todo::ask>()) job.pass();
  };
  back();
  CHECK(job.policy.state() == stepping);
  CHECK(job.policy.incidents().back().rule == 1);
  CHECK(job.policy.incidents().back().action == "restart");
  job.step();
  back();
  CHECK(job.policy.state() == paused);  // held
  CHECK(job.policy.incidents().back().rule == 2);
  CHECK(job.policy.incidents().back().done.ends_with("(rule 2)"));
  job.person(heard::resume{});
  CHECK(job.policy.state() == stepping);
  job.step();
  job.hear(lost);
  REQUIRE(job.end);
  CHECK(is_error(*job.end, health::ended_by_rule, "n1", "3"));
  CHECK(job.end->code == errc::unavailable);
  CHECK(job.policy.incidents().back().action == "end");
}

TEST_CASE("REQ-7: job: who pauses the last step does not pause those that are made again") {
  auto job = with_recovery(5);
  while (job.policy.step() + 1 < static_cast<uint64_t>(job.policy.plan().job.train.steps)) {
    job.step();
    if (job.saving.contains(job.policy.step())) job.commit(job.policy.step());
  }
  CHECK(job.person(heard::pause{0, pause_cause::person, ""}).starts_with("pauses after step"));
  job.step();
  CHECK(job.policy.state() == settling);
  CHECK(mentions(job.said, "no step follows: it does not pause"));
  job.hear(lost);
  job.hear(heard::admitted{});
  while (job.find<todo::ask>()) job.pass();
  CHECK(job.policy.state() == stepping);
}

TEST_CASE("job: persons are heard in a recovery") {
  auto job = with_recovery(5);
  job.person(heard::set_value{0, "train.lr", "0.5"});  // from step 7 on
  job.hear(lost);
  CHECK(job.person(heard::pause{0, pause_cause::person, "a look"}) ==
        "done once the run has recovered");
  CHECK(job.person(heard::save_now{}) == "saves after the first step that follows the recovery");
  job.hear(heard::admitted{});
  while (job.find<todo::ask>()) job.pass();
  CHECK(job.policy.state() == paused);
  job.person(heard::resume{});
  for (const uint64_t step : {5, 6, 7}) {
    REQUIRE(job.find<todo::run_step>());
    CHECK(job.find<todo::run_step>()->step == step);
    CHECK((job.policy.plan().job.train.lr == 0.5) == (step == 7));  // REQ-4
    job.step();
    if (step == 5) CHECK(job.saving.contains(5));
  }
}
