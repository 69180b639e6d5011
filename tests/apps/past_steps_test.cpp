// What a run is remembered by, and what the next one is told.
#include "apps/past_steps.hpp"

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/job/plan.hpp"
#include "actors/train/machine.hpp"
#include "io/file.hpp"
#include "tests/apps/plan_of_text.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using apps::step_times;

namespace {

train::job_plan past_plan(const std::vector<std::string>& sets = {}) {
  return plan_of_text(
      "[model]\nlayers = 2\nheads = 4\nhidden = 64\nvocab = 256\n[data]\npath = "
      "\"x.txt\"\n[train]\nsteps = 100\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n",
      sets);
}

report::step_report step_of(double ms) {
  report::step_report r;
  r.step_ms = ms;
  return r;
}

/// 20 steps of `ms`, and some before and between that are not to be learned from.
step_times times_of(double ms) {
  step_times out;
  for (int i = 0; i < 3; ++i) out.hear(step_of(50 * ms), 1e9);
  for (int i = 0; i < 20; ++i) {
    out.hear(step_of(ms), 1e9);
    auto r = step_of(30 * ms);
    if (i % 4 == 0) r.validation_loss = 1;
    if (i % 4 == 1) r.pace_percent = 50;
    if (i % 4 == 2) r.checkpoint_wait_ms = 20 * ms;
    if (i % 4 == 3) r.replicas = 1;
    out.hear(r, 1e9);
    auto tries = step_of(2 * ms);
    tries.slack = "profiling";
    out.hear(tries, 1e9);
  }
  return out;
}

}  // namespace

TEST_CASE("past steps: a run is remembered by steps that nothing held up, if there are enough") {
  const auto job = past_plan().job;
  const auto run = times_of(200).run_of(job, report::expected_ms{250, 200, 300});
  REQUIRE(run);
  const auto by_probes = times_of(200).run_of(job, report::expected_ms{250, 200, 300, true});
  REQUIRE(by_probes);
  CHECK(by_probes->expected_s == 0);  // it says nothing of how good expectations are
  CHECK(run->median_s == doctest::Approx(0.2));
  CHECK(run->high_s == doctest::Approx(0.2));
  CHECK(run->steps == 20);
  CHECK(run->expected_s == doctest::Approx(0.25));
  CHECK(run->flops == 1e9);
  step_times few;
  for (int i = 0; i < 10; ++i) few.hear(step_of(100), 1e9);
  CHECK_FALSE(few.run_of(job, std::nullopt));
  auto elsewhere = job;
  elsewhere.cluster.launch = config::launch_mode::ssh;
  CHECK_FALSE(times_of(200).run_of(elsewhere, std::nullopt));
}

TEST_CASE("past steps: a split that nodes measure is remembered apart from the planned one") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const std::vector<std::string> stages{"cluster.nodes=2", "parallel.pipeline=2", "model.layers=4"};
  const auto with = [&](const char* set) {
    auto sets = stages;
    sets.emplace_back(set);
    return past_plan(sets);
  };
  const auto planned = past_plan(stages), measured = with("parallel.placement=measured"),
             by_hand = with("parallel.layers=3,1");
  CHECK(apps::work_of(measured.job) != apps::work_of(planned.job));
  CHECK(apps::work_of(measured.job) != apps::work_of(by_hand.job));
  auto settled = measured;
  REQUIRE(train::settle_layers(settled, "3,1"));
  CHECK(apps::work_of(settled.job) == apps::work_of(by_hand.job));
  const auto run = times_of(200).run_of(measured.job, std::nullopt);
  REQUIRE(run);
  REQUIRE(apps::remember_run(*run, store));
  const auto of = [&](const train::job_plan& plan) {
    const auto said = apps::expect_by_past(plan.job, train::flops_of_step(plan), store);
    return said && said->step.basis == io::perf::past_basis::same_work;
  };
  CHECK(of(measured));
  CHECK_FALSE(of(planned));
  CHECK_FALSE(of(by_hand));
}

TEST_CASE("past steps: the next run of the same work is told what it took, and how sure that is") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const auto plan = past_plan();
  const double flops = train::flops_of_step(plan);
  CHECK_FALSE(apps::expect_by_past(plan.job, flops, store));
  for (const double ms : {200.0, 210.0, 190.0}) {
    const auto run = times_of(ms).run_of(plan.job, report::expected_ms{220, 200, 300});
    REQUIRE(run);
    REQUIRE(apps::remember_run(*run, store));
  }
  const auto e = apps::expect_by_past(plan.job, flops, store);
  REQUIRE(e);
  CHECK(e->step.step_s == doctest::Approx(0.2));
  CHECK(e->step.runs == 3);
  CHECK(e->ledger.runs == 3);
  CHECK(e->ledger.median_off == doctest::Approx(0.1));
  const auto text = apps::past_text(*e);
  CAPTURE(text);
  CHECK(text.find("200 ms a step (") == 0);
  CHECK(text.find("by 60 steps of 3 runs of this work here") != std::string::npos);
  CHECK(text.find("off by 10 % (median of 3), 16 % at most") != std::string::npos);
  const auto j = apps::past_json(*e);
  CHECK(j.at("same_work") == true);
  CHECK(j.at("runs") == 3);
  CHECK(apps::as_expected_ms(*e).step == doctest::Approx(200));
  // The same but for what decides nothing; and other work.
  CHECK(apps::expect_by_past(past_plan({"train.steps=7", "train.lr=0.1"}).job, flops, store)
            ->step.basis == io::perf::past_basis::same_work);
  const auto larger = past_plan({"train.batch=16"});
  const auto other = apps::expect_by_past(larger.job, train::flops_of_step(larger), store);
  REQUIRE(other);
  CHECK(other->step.basis == io::perf::past_basis::other_work);
  CHECK(apps::past_text(*other).find("of 3 runs of other work here") != std::string::npos);
  CHECK(other->step.most_s / other->step.least_s > e->step.most_s / e->step.least_s);
}

TEST_CASE("past steps: what other work took lets expect new work's time, where some was like it") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  // A machine that is the quicker at a FLOP, the more of them there are at once.
  const auto took_s = [](const train::job_plan& p) {
    return 0.01 * static_cast<double>(p.job.model.layers) + train::flops_of_step(p) / 1e9;
  };
  const auto plan_of = [](int layers, int batch) {
    return past_plan(
        {"model.layers=" + std::to_string(layers), "train.batch=" + std::to_string(batch)});
  };
  for (const int layers : {2, 4, 8})
    for (const int batch : {8, 16, 32, 64}) {
      const auto plan = plan_of(layers, batch);
      auto run = times_of(100).run_of(plan.job, std::nullopt);
      REQUIRE(run);
      CHECK_FALSE(run->shape.empty());
      run->flops = train::flops_of_step(plan);
      run->low_s = run->median_s = run->high_s = took_s(plan);
      REQUIRE(apps::remember_run(*run, store));
    }
  for (const auto& plan : {plan_of(2, 24), plan_of(4, 48), plan_of(6, 12)}) {
    const auto e = apps::expect_by_past(plan.job, train::flops_of_step(plan), store);
    REQUIRE(e);
    CHECK(e->step.basis == io::perf::past_basis::other_work);
    CHECK(e->step.runs == 12);
    CHECK(e->step.steps == 240);
    CHECK(e->step.step_s == doctest::Approx(took_s(plan)).epsilon(0.1));
    CHECK(e->step.least_s < e->step.step_s / 1.3);
    CHECK(e->step.most_s > e->step.step_s * 1.3);
  }
  // Nothing remembered is a tenth of that; nor is anything told of no work at all.
  const auto large = plan_of(8, 8);
  CHECK_FALSE(apps::expect_by_past(plan_of(2, 6).job, 1e13, store));
  CHECK_FALSE(apps::expect_by_past(plan_of(2, 6).job, 0, store));
  CHECK(apps::expect_by_past(large.job, 1e13, store)->step.basis ==
        io::perf::past_basis::same_work);
}

TEST_CASE("past steps: runs of a program that kept no shape tell nothing of other work") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const auto plan = past_plan();
  auto run = times_of(200).run_of(plan.job, std::nullopt);
  REQUIRE(run);
  run->shape.clear();
  REQUIRE(apps::remember_run(*run, store));
  const double flops = train::flops_of_step(plan);
  CHECK(apps::expect_by_past(plan.job, flops, store));
  CHECK_FALSE(apps::expect_by_past(past_plan({"train.batch=16"}).job, flops, store));
}

TEST_CASE("past steps: a run's shape is of what the job means here, whatever word says it") {
  const auto shape_of = [](const std::vector<std::string>& sets) {
    return times_of(200).run_of(past_plan(sets).job, std::nullopt)->shape;
  };
  const auto plain = shape_of({});
  const int threads = train::threads_here(past_plan().job.cluster);
  CHECK(shape_of({"cluster.threads=" + std::to_string(threads)}) == plain);
  CHECK(shape_of({"cluster.threads=" + std::to_string(threads + 1)}) != plain);
  CHECK(shape_of({"train.optimizer=lamb"}) != plain);
  CHECK(shape_of({"model.recompute=true"}) != plain);
  const bool is_host = shape_of({"cluster.device=host"}) == plain;
  const bool is_cuda = shape_of({"cluster.device=cuda"}) == plain;
  CHECK(is_host != is_cuda);
  // A drive's and a budget's times tell nothing of other work.
  auto swaps = past_plan().job, budgeted = swaps;
  swaps.swap.dir = {"here"};
  budgeted.power.budget_w = 100;
  CHECK(times_of(200).run_of(swaps, std::nullopt)->shape.empty());
  CHECK(times_of(200).run_of(budgeted, std::nullopt)->shape.empty());
}

TEST_CASE("past steps: another device, format or number of threads is told nothing by these runs") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const std::vector<std::string> kind{"cluster.device=host", "cluster.threads=8"};
  const auto run = times_of(200).run_of(past_plan(kind).job, std::nullopt);
  REQUIRE(run);
  REQUIRE(apps::remember_run(*run, store));
  const auto told = [&](std::vector<std::string> sets) {
    sets.push_back("train.batch=16");
    auto all = kind;
    all.insert(all.end(), sets.begin(), sets.end());  // the last one of a key wins
    return apps::expect_by_past(past_plan(all).job, run->flops, store).has_value();
  };
  CHECK(told({}));
  CHECK(told({"cluster.threads=4"}));
  CHECK_FALSE(told({"cluster.threads=1"}));
  CHECK_FALSE(told({"cluster.device=cuda"}));
  CHECK_FALSE(told({"model.dtype=bf16"}));
  auto swaps = past_plan(kind).job;
  swaps.swap.dir = {"here"};
  CHECK_FALSE(apps::expect_by_past(swaps, run->flops, store));
}

TEST_CASE("past steps: however often a job is run, it takes no room from other work") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const auto plan_of = [](int layers, int batch) {
    return past_plan(
        {"model.layers=" + std::to_string(layers), "train.batch=" + std::to_string(batch)});
  };
  const auto took_s = [](const train::job_plan& p) {
    return 0.01 * static_cast<double>(p.job.model.layers) + train::flops_of_step(p) / 1e9;
  };
  const auto run_of = [&](const train::job_plan& plan) {
    auto run = *times_of(100).run_of(plan.job, std::nullopt);
    run.flops = train::flops_of_step(plan);
    run.low_s = run.median_s = run.high_s = took_s(plan);
    return run;
  };
  for (const int layers : {2, 4, 8})
    for (const int batch : {8, 16, 32, 64})
      REQUIRE(apps::remember_run(run_of(plan_of(layers, batch)), store));
  auto nightly = run_of(plan_of(2, 2));
  const double flops = nightly.flops;
  for (int i = 0; i < 520; ++i) {
    nightly.flops = flops * (1 + i * 1e-15);  // as it comes of each run's times
    REQUIRE(apps::remember_run(nightly, store));
  }
  const auto asked = plan_of(4, 48);
  const auto e = apps::expect_by_past(asked.job, train::flops_of_step(asked), store);
  REQUIRE(e);
  CHECK(e->step.runs == 532);
  CHECK(e->step.step_s == doctest::Approx(took_s(asked)).epsilon(0.1));
}

TEST_CASE("past steps: runs that a model keeps no more do not count as near") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const auto plan = past_plan();
  auto run = *times_of(200).run_of(plan.job, std::nullopt);
  REQUIRE(apps::remember_run(run, store));
  const auto other = past_plan({"train.batch=16"}).job;
  CHECK(apps::expect_by_past(other, 1e9, store));
  for (int i = 0; i < 512; ++i) {
    run.flops = 1e15 * (1 + i);
    REQUIRE(apps::remember_run(run, store));
  }
  CHECK_FALSE(apps::expect_by_past(other, 1e9, store));
}

TEST_CASE("past steps: what releases with a sum of 32 bits kept counts for the same work") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const auto plan = past_plan(), other = past_plan({"train.lr=0.5", "train.batch=16"});
  auto run = times_of(200).run_of(plan.job, std::nullopt);
  REQUIRE(run);
  const auto text = apps::work_of(plan.job);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const auto words = run->work.substr(0, run->work.rfind(' ') + 1);
  const auto before = words + fmt::format("{:08x}{:08x}", io::crc32c(bytes), io::crc32c(bytes, 1));
  REQUIRE(run->work != before);
  run->work = before;
  REQUIRE(apps::remember_run(*run, store));
  const auto now = times_of(220).run_of(plan.job, std::nullopt);
  REQUIRE(now);
  REQUIRE(apps::remember_run(*now, store));
  const auto said = apps::expect_by_past(plan.job, train::flops_of_step(plan), store);
  REQUIRE(said);
  CHECK(said->step.basis == io::perf::past_basis::same_work);
  CHECK(said->step.runs == 2);
  const auto of_other = apps::expect_by_past(other.job, train::flops_of_step(other), store);
  CHECK_FALSE((of_other && of_other->step.basis == io::perf::past_basis::same_work));
}
