// How quick nodes were, by what runs of the same work have kept (PPC-1 to PPC-4).
#include "actors/predict/past_paces_policy.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/job/plan.hpp"
#include "tests/actors/predict/kept_paces.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;
using namespace troupe::predict;
using namespace troupe::predict::test;
using io::perf::part_time;
using io::perf::past_pace;

namespace {

const io::perf::machine_print xeon_of_paces = io::perf::print_of({"Xeon", 8, uint64_t{1} << 30});

/// Two stages of four layers.
train::job_plan paced_plan() {
  auto plan = train::make_plan(
      job_of_text("[cluster]\nnodes = 2\nthreads = 1\n[model]\nlayers = 8\nheads = 4\nhidden = 64\n"
                  "vocab = 2000\n[data]\npath = \"x.txt\"\n[parallel]\npipeline = 2\n"
                  "[train]\nsteps = 4\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n",
                  {}));
  REQUIRE(plan);
  return *plan;
}

struct paced_job {
  train::job_plan plan = paced_plan();

  std::vector<part_time> kept(const std::vector<kept_rank>& ranks) const {
    return kept_of(ranks, plan.job, plan.model);
  }
  std::vector<past_pace> paces(const std::vector<part_time>& times) const {
    return past_paces(times, plan.job, plan.model);
  }
  std::vector<past_pace> paces(const std::vector<kept_rank>& ranks) const {
    return paces(kept(ranks));
  }
};

kept_rank rank_of_run(uint64_t run, double flops_s = 1e9) {
  return {"a", xeon_of_paces, flops_s, 4, false, 1, run, 8};
}

}  // namespace

TEST_CASE("PPC-2: a node is as quick as its layers and the head say, whichever ranks it had") {
  const paced_job job;
  const auto paces = job.paces({{"a", xeon_of_paces, 2e9, 6, false},
                                {"b", xeon_of_paces, 1e9, 2, true},
                                {"c", xeon_of_paces, 1e9, 2, false}});
  REQUIRE(paces.size() == 3);
  for (const auto& p : paces) {
    CAPTURE(p.node);
    CHECK(p.flops_s == doctest::Approx(p.node == "a" ? 2e9 : 1e9));
    CHECK(p.machine == xeon_of_paces);
    CHECK(p.threads == 1);
    CHECK_FALSE(p.on_gpus);
    CHECK(p.steps == 64);
    CHECK(p.runs == 1);
  }
}

TEST_CASE("PPC-2: nodes whose ranks had other layers in another run are as quick by both") {
  const paced_job job;
  auto ranks = std::vector<kept_rank>{rank_of_run(1), rank_of_run(2)};
  ranks[1].layers = 7;
  ranks[1].has_head = true;
  const auto paces = job.paces(ranks);
  REQUIRE(paces.size() == 1);
  CHECK(paces[0].flops_s == doctest::Approx(1e9));
  CHECK(paces[0].runs == 2);
  CHECK(paces[0].steps == 128);
}

TEST_CASE("PPC-1: times of other work, of unknown runs and of unknown machines do not count") {
  const paced_job job;
  const auto change_feature = [](config::work_feature f) {
    return [f](part_time& t) { t.features[static_cast<size_t>(f)] *= 2; };
  };
  using config::work_feature;
  const std::pair<const char*, std::function<void(part_time&)>> others[] = {
      {"width", change_feature(work_feature::hidden)},
      {"micro-batch", change_feature(work_feature::micro_batch)},
      {"length", change_feature(work_feature::seq_len)},
      {"format", change_feature(work_feature::number_bytes)},
      {"recomputing", change_feature(work_feature::recompute)},
      {"swaps", [](part_time& t) { t.features[12] = 2; }},
      {"model", [](part_time& t) { t.work_sum += 4; }},
      {"no work", [](part_time& t) { t.work_sum = 0; }},
      {"no run", [](part_time& t) { t.run = 0; }},
      {"no machine", [](part_time& t) { t.machine = {}; }},
      {"no node", [](part_time& t) { t.node.clear(); }},
      {"other numbers", [](part_time& t) { t.features.push_back(1); }},
      {"other part", [](part_time& t) { t.part = "update"; }}};
  const auto all = job.kept({rank_of_run(1)});
  CHECK(job.paces(all).size() == 1);
  for (const auto& [what, change] : others) {
    CAPTURE(what);
    auto times = all;
    for (auto& t : times) change(t);
    CHECK(job.paces(times).empty());
  }
  auto shaped = all;
  for (auto& t : shaped)
    for (const auto f : {work_feature::batch, work_feature::replicas, work_feature::stages})
      t.features[static_cast<size_t>(f)] *= 2;
  CHECK(job.paces(shaped) == job.paces(all));
}

TEST_CASE("PPC-3: a run counts that has enough windows of both parts") {
  const paced_job job;
  auto few = rank_of_run(1);
  few.windows = 3;
  CHECK(job.paces({few}).empty());
  few.windows = 4;
  CHECK(job.paces({few}).size() == 1);
  auto one_part = job.kept({rank_of_run(1)});
  one_part.pop_back();
  CHECK(job.paces(one_part).empty());
  // In two lines it is as many.
  few.windows = 2;
  CHECK(job.paces({few, few}).size() == 1);
}

TEST_CASE("PPC-3: the newest runs of a node count, by number of threads and by machine") {
  const paced_job job;
  std::vector<kept_rank> ranks;
  for (uint64_t run = 1; run <= 20; ++run) ranks.push_back(rank_of_run(run, run <= 4 ? 1e6 : 1e9));
  auto more_threads = rank_of_run(21, 2e9);
  more_threads.threads = 2;
  auto elsewhere = rank_of_run(22, 3e9);
  elsewhere.machine = io::perf::print_of({"EPYC", 8, uint64_t{1} << 30});
  ranks.push_back(more_threads);
  ranks.push_back(elsewhere);
  const auto paces = job.paces(ranks);
  REQUIRE(paces.size() == 3);
  CHECK(paces[0].runs == 16);
  CHECK(paces[0].flops_s == doctest::Approx(1e9));
  CHECK(paces[1].threads == 2);
  CHECK(paces[1].flops_s == doctest::Approx(2e9));
  CHECK(paces[2].machine == elsewhere.machine);
  CHECK(paces[2].flops_s == doctest::Approx(3e9));
}

TEST_CASE("PPC-3: of more nodes than are handed on those count that were measured last") {
  const paced_job job;
  std::vector<kept_rank> ranks;
  for (size_t n = 0; n <= io::perf::past_paces_kept; ++n) {
    ranks.push_back(rank_of_run(1));
    ranks.back().node = "n" + std::to_string(n);
  }
  const auto paces = job.paces(ranks);
  REQUIRE(paces.size() == io::perf::past_paces_kept);
  CHECK(paces.front().node == "n1");
  CHECK(paces.back().node == ranks.back().node);
}

TEST_CASE("PPC-4: more runs say more exactly how quick a node is, and runs that differ less so") {
  const paced_job job;
  const auto half_of = [&](size_t runs, double deviation) {
    std::vector<kept_rank> ranks;
    for (size_t i = 1; i <= runs; ++i)
      ranks.push_back(rank_of_run(i, 1e9 * std::exp(i % 2 == 0 ? deviation : -deviation)));
    const auto paces = job.paces(ranks);
    REQUIRE(paces.size() == 1);
    return paces[0].half;
  };
  CHECK(half_of(1, 0) == doctest::Approx(0.16));
  CHECK(half_of(4, 0) == doctest::Approx(2 * std::sqrt(4 * 0.0064 / 7) / 2));
  CHECK(half_of(16, 0) == 0.03);
  CHECK(half_of(4, 0.3) > 0.2);
  CHECK(half_of(4, 0.3) < half_of(2, 0.3));
}
