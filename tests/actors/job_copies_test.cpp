// A job with copies in memory: what is ordered, and where a recovery goes on from (JOB-14).
#include <doctest/doctest.h>

#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::folder_of;
using troupe::train::test::job_harness;
using troupe::train::test::job_second_ns;
using troupe::train::test::recovering_job;

namespace {

/// Two replicas on two nodes, nine steps, a checkpoint after each fourth.
job_plan copying_job(int64_t every = 1) {
  auto plan = recovering_job("", 9);
  auto& job = plan.job;
  job.checkpoint.every = 4;
  job.checkpoint.memory.every = every;
  job.parallel.data = 2;
  job.cluster.node = {{"n0", "h0", 1}, {"n1", "h1", 1}};
  for (int r = 0; r < 2; ++r) plan.ranks.push_back({{job.grid(), r}, r, {0, 1}});
  return plan;
}

job_harness with_copies(uint64_t steps, int64_t every = 1) {
  job_harness job(copying_job(every));
  job.start();
  for (uint64_t step = 1; step <= steps; ++step) {
    job.step();
    if (job.saving.contains(step)) job.commit(step);
  }
  return job;
}

const heard::node_lost n1_lost{"n1", "was killed"};

/// Of an epoch, of both ranks.
std::vector<held_copy> both(copy_tag tag) {
  return {{0, tag, 1 << 20}, {1, tag, 1 << 20}};
}

/// The recovery up to the load, where the processes hold this.
void go_back(job_harness& job, const std::vector<std::vector<held_copy>>& held) {
  job.hear(n1_lost);
  job.hear(job.admitted());
  REQUIRE(job.find<todo::ask>());
  REQUIRE(job.find<todo::ask>()->phase == start_phase::find_copies);
  heard::phase_done found{start_phase::find_copies};
  found.copies = held;
  job.hear(found);
  while (job.find<todo::ask>() && job.find<todo::ask>()->phase != start_phase::load_weights)
    job.pass();
}

std::string incident_of(const job_harness& job) {
  return job.policy.incidents().back().done;
}

}  // namespace

TEST_CASE("JOB-14: a copy is ordered before the next step, and a save that is due takes it along") {
  job_harness job(copying_job(2));
  job.start();
  job.step();
  CHECK_FALSE(job.find<todo::copy_state>());
  job.step();
  REQUIRE(job.find<todo::copy_state>());
  CHECK(job.find<todo::copy_state>()->step == 2);
  CHECK(std::holds_alternative<todo::run_step>(job.last.back()));
  job.step();
  job.step();
  REQUIRE(job.find<todo::save>());
  CHECK(job.find<todo::save>()->copy);
  CHECK_FALSE(job.find<todo::copy_state>());
}

TEST_CASE("JOB-14: a recovery goes on from memory, with step, tokens and who it came from") {
  auto job = with_copies(7);
  go_back(job, {both({7, 7}), {}});
  const auto* load = job.find<todo::ask>();
  REQUIRE(load);
  CHECK(load->folder.empty());
  CHECK(load->copy == copy_tag{7, 7});
  CHECK(load->from_keeper == std::vector<bool>{false, true});
  CHECK(job.policy.step() == 7);
  CHECK(job.policy.tokens() == 7 * 16);
  job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 8);
  CHECK(incident_of(job) == "n1 was started again, from the memory of n0 (1.0 MiB) (rule 1)");
  CHECK(job.policy.saved_step() == 4);
  job.step();  // of the new epoch is the next copy
  CHECK(job.saving.contains(8));
}

TEST_CASE("JOB-14: what is not whole, or older than the disk, is left for the checkpoint") {
  SUBCASE("a share is missing") {
    auto job = with_copies(7);
    go_back(job, {{{0, {7, 7}, 1}}, {}});
    CHECK(job.find<todo::ask>()->folder == folder_of(4));
    CHECK(job.find<todo::ask>()->copy == copy_tag{});
  }
  SUBCASE("the tag is of another epoch") {
    auto job = with_copies(7);
    go_back(job, {both({6, 7}), {}});
    CHECK(job.find<todo::ask>()->folder == folder_of(4));
  }
  SUBCASE("the checkpoint is as new") {
    auto job = with_copies(4);
    go_back(job, {both({7, 4}), {}});
    CHECK(job.find<todo::ask>()->folder == folder_of(4));
  }
}

TEST_CASE("JOB-14: a damaged copy is not tried again: the next epoch goes on from the disk") {
  auto job = with_copies(7);
  go_back(job, {both({7, 7}), {}});
  job.hear(
      heard::ask_failed{io::checkpoint::copy_damaged(1, 7, 0).within("load copies in memory")});
  job.wait();
  REQUIRE(job.find<todo::recover>());
  CHECK(job.find<todo::recover>()->epoch == 9);
  job.hear(job.admitted());
  CHECK(job.find<todo::ask>()->phase == start_phase::open_folder);
  while (job.find<todo::ask>()->phase != start_phase::load_weights) job.pass();
  CHECK(job.find<todo::ask>()->folder == folder_of(4));
  CHECK(job.policy.step() == 4);
}

TEST_CASE("JOB-14: a node lost while copies are loaded is no reason to leave them") {
  auto job = with_copies(7);
  go_back(job, {both({7, 7}), {}});
  go_back(job, {both({7, 7}), {}});
  CHECK(job.find<todo::ask>()->copy == copy_tag{7, 7});
}

TEST_CASE("a job with one node alone says at its start that there are no copies") {
  auto plan = copying_job();
  plan.job.cluster.node = {{"n0", "h0", 2}};
  for (auto& r : plan.ranks) r.node = 0;
  job_harness job(plan);
  job.start();
  REQUIRE(job.warned.size() == 1);
  CHECK(job.warned.front().find("no copies are taken") != std::string::npos);
  job.step();
  CHECK_FALSE(job.find<todo::copy_state>());
}

namespace {

/// What the head of a job with copies leaves behind, eight seconds after its seventh step.
job_memory left_at_seven(job_harness& job) {
  auto out = job.policy.memory();
  out.lost = lost_head{"was killed", 6, 7, job.now_ns + 8 * job_second_ns};
  return out;
}

job_harness head_after(const job_memory& memory) {
  job_harness next(copying_job(), checkpoint::resume_point{folder_of(4), 4, {}, {4, 64, 2.5, ""}});
  next.now_ns = memory.lost->at_ns;
  next.policy.remember(memory);
  next.policy.begin(next.now_ns);
  next.hear(next.admitted());
  return next;
}

std::vector<held_copy> told_of(copy_tag tag) {
  auto out = both(tag);
  for (auto& c : out) c.state = {tag.step * 16, 1.25};
  return out;
}

}  // namespace

TEST_CASE("JOB-14: a job that goes on for a lost head asks for its copies, and goes on from them") {
  job_harness job(copying_job());
  job.policy.begin(job.now_ns);
  job.start();
  for (uint64_t step = 1; step <= 7; ++step) {
    job.step();
    if (job.saving.contains(step)) job.commit(step);
  }
  const auto memory = left_at_seven(job);
  CHECK(memory.copies == believed_copies{7, {}});
  const auto useful_before = memory.account.time[health::time_use::useful];
  auto next = head_after(memory);
  REQUIRE(next.find<todo::ask>());
  CHECK(next.find<todo::ask>()->phase == start_phase::find_copies);
  heard::phase_done found{start_phase::find_copies};
  found.copies = {told_of({7, 7}), {}};
  next.hear(found);
  while (next.find<todo::ask>() && next.find<todo::ask>()->phase != start_phase::load_weights)
    next.pass();
  REQUIRE(next.find<todo::ask>());
  CHECK(next.find<todo::ask>()->copy == copy_tag{7, 7});
  CHECK(next.policy.step() == 7);
  CHECK(next.policy.tokens() == 7 * 16);
  next.pass();
  REQUIRE(next.find<todo::run_step>());
  CHECK(next.find<todo::run_step>()->step == 8);
  const auto& fault = next.policy.incidents().back();
  CHECK(fault.fell_after_step == 7);  // one more than that head had told
  CHECK(fault.resumed_after_step == 7);
  CHECK(next.policy.ledger().steps_repeated() == 0);
  CHECK(next.policy.ledger().whole()[health::time_use::useful] > useful_before);
  CHECK(next.policy.memory().copies == believed_copies{7, copy_tag{7, 7}});
}

TEST_CASE("JOB-14: where no copy is whole, it goes on from the disk") {
  auto job = with_copies(7);
  auto next = head_after(left_at_seven(job));
  heard::phase_done found{start_phase::find_copies};
  found.copies = {{}, {}};
  next.hear(found);
  while (next.find<todo::ask>() && next.find<todo::ask>()->phase != start_phase::load_weights)
    next.pass();
  REQUIRE(next.find<todo::ask>());
  CHECK(next.find<todo::ask>()->folder == folder_of(4));
  CHECK(next.policy.step() == 4);
}
