// What a job does when a rank computes a layer otherwise than its equals.
#include <doctest/doctest.h>

#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace troupe::train::test;
using enum job_state;

namespace {

/// Three replicas on nodes of their own; every third step is preceded by a comparison. There is a
/// checkpoint of each second step.
job_plan rechecking_job(bool recovers = true) {
  auto plan = recovering_job("", 30);
  plan.job.recovery.enabled = recovers;
  plan.job.parallel.data = 3;
  plan.job.health.digest_every = 0;
  plan.job.health.recheck_every = 3;
  plan.job.cluster.node.resize(3);
  for (size_t n = 0; n < 3; ++n) plan.job.cluster.node[n].name = std::string(1, "abc"[n]);
  for (int r = 0; r < 3; ++r) plan.ranks.push_back({{{3, 1, 1}, r}, r, {0, 1}});
  return plan;
}

using holds = std::vector<std::pair<uint64_t, bool>>;

holds holds_in(const job_harness& job) {
  holds out;
  for (const auto& c : job.last)
    if (const auto* h = std::get_if<todo::hold>(&c)) out.emplace_back(h->step, h->hold);
  return out;
}

/// Makes a step as it was ordered; what is held by then.
holds make_step(job_harness& job, std::vector<int> alone = {}) {
  heard::step_done done{10, 2, 1, 40, 0};
  done.products.compared = (job.policy.step() + 1) % 3 == 0 && alone.empty();
  done.products.alone = std::move(alone);
  job.hear(done);
  auto out = holds_in(job);
  if (!job.find<todo::run_step>()) job.hear(heard::validated{8, 2});
  return out;
}

job_harness after_steps(uint64_t steps, bool recovers = true) {
  job_harness job(rechecking_job(recovers));
  job.start();
  for (uint64_t step = 1; step <= steps; ++step) {
    make_step(job);
    if (job.saving.contains(step)) job.commit(step);
  }
  return job;
}

heard::step_done odd_products(std::vector<int> wrong, bool by_itself = false) {
  heard::step_done done{10, 2, 1, 40, 0};
  done.products.odd = health::odd_products{std::move(wrong), {0, 1, 2}, 5, by_itself};
  return done;
}

}  // namespace

TEST_CASE("JOB-20: job: layers are computed to be compared every few steps, weights with them") {
  auto plan = rechecking_job();
  plan.job.health.digest_every = 100;
  plan.job.checkpoint.every = 0;
  job_harness job(plan);
  job.start();
  for (uint64_t step = 1; step <= 7; ++step) {
    CAPTURE(step);
    REQUIRE(job.find<todo::run_step>());
    CHECK(job.find<todo::run_step>()->recheck == (step % 3 == 0));
    if (step > 1) CHECK(job.find<todo::run_step>()->digest == (step % 3 == 0));
    make_step(job);
  }
  plan.job.health.recheck_every = 0;
  job_harness never(plan);
  never.start();
  CHECK_FALSE(never.find<todo::run_step>()->recheck);
}

TEST_CASE("JOB-20: job: who computes otherwise is lost, and no younger state is gone back to") {
  auto job = after_steps(5);  // step 3 computed right from the state of step 2; 4 is saved as well
  job.hear(odd_products({1}));
  CHECK(job.policy.step() == 5);
  REQUIRE(job.find<todo::give_up_node>());
  CHECK(job.find<todo::give_up_node>()->name == "b");
  CHECK(job.find<todo::give_up_node>()->finding == "wrong_bits");
  const auto how = job.find<todo::give_up_node>()->how;
  CHECK(how == "is wrong: rank 1 computes layer 5 otherwise than its replicas in step 6");
  job.hear(heard::node_lost{"b", "is wrong", "wrong_bits"});
  CHECK(job.policy.state() == recovering);
  job.hear(heard::admitted{});
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  CHECK(job.find<todo::ask>()->at_most == 2);
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);
}

TEST_CASE("JOB-20: job: where none is so old it goes on from the newest one, which is said") {
  auto job = after_steps(2);  // nobody has computed to be compared yet
  job.hear(odd_products({0}, true));
  CHECK(job.find<todo::give_up_node>()->how ==
        "is wrong: rank 0 computes layer 5 otherwise than it should in step 3");
  job.hear(heard::node_lost{"a", "is wrong", "wrong_bits"});
  job.hear(heard::admitted{});
  CHECK(job.find<todo::ask>()->phase == start_phase::choose_checkpoint);
  CHECK(job.find<todo::ask>()->at_most == 0);
  auto broken = job;
  job.hear(heard::ask_failed{{errc::bad_data, "there is none"}});
  CHECK_FALSE(job.end);
  CHECK(mentions(job.warned, "goes on from its newest one"));
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);
  // What the committer cannot do at all is another matter.
  broken.hear(heard::ask_failed{{errc::io, "no such disk"}});
  REQUIRE(broken.end);
  CHECK(broken.end->is(wrong_bits_saved));
}

TEST_CASE("JOB-20: job: where nobody can say who is wrong, all ranks begin anew") {
  for (const auto& wrong : {std::vector<int>(), std::vector{0, 2}}) {
    auto job = after_steps(3);
    job.hear(odd_products(wrong));
    CHECK_FALSE(job.find<todo::give_up_node>());
    CHECK(job.policy.state() == recovering);
    CHECK(job.policy.incidents().back().finding == "wrong_bits");
    CHECK(job.policy.incidents().back().node.empty());
    job.hear(heard::admitted{});
    CHECK(job.find<todo::ask>()->phase == start_phase::open_folder);  // step 2's is old enough
  }
}

TEST_CASE("JOB-20: job: without recovery it ends, and says what is known to be right") {
  auto job = after_steps(5, false);
  job.hear(odd_products({1}));
  REQUIRE(job.end);
  CHECK(job.end->is(wrong_bits_saved));
  auto early = after_steps(3, false);
  early.hear(odd_products({}));
  REQUIRE(early.end);
  CHECK(early.end->is(products_differ));
}

TEST_CASE("JOB-20: job: the newest checkpoint before a comparison is held until a newer one is") {
  auto job = after_steps(2);
  CHECK(make_step(job) == holds{{2, true}});
  make_step(job);
  job.commit(4);
  CHECK(holds_in(job).empty());
  CHECK(make_step(job).empty());
  CHECK(make_step(job) == holds{{4, true}, {2, false}});
  job.commit(6);  // its state has not been computed from yet
  CHECK(holds_in(job).empty());
  make_step(job);
  make_step(job);
  job.commit(8);
  CHECK(make_step(job) == holds{{8, true}, {4, false}});
  // What it began from is known to be right, and is held from then on.
  job_harness resumed(rechecking_job(),
                      checkpoint::resume_point{folder_of(4), 4, {}, {4, 64, 2.5, ""}});
  resumed.hear(resumed.admitted());
  holds held;
  while (resumed.find<todo::ask>()) {
    resumed.pass();
    for (const auto& h : holds_in(resumed)) held.push_back(h);
  }
  CHECK(held == holds{{4, true}});
}

TEST_CASE("JOB-20: job: ranks without equals are told of once, and nothing counts as compared") {
  auto job = after_steps(2);
  CHECK(make_step(job, {2}).empty());
  CHECK(mentions(job.warned, "what rank 2 computes is compared with nobody's"));
  job.warned.clear();
  make_step(job, {2});
  CHECK(job.warned.empty());
}
