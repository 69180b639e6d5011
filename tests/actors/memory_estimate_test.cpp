// What a job will need, against what stages really allocate and against sums by hand.
#include "actors/train/memory_estimate.hpp"

#include <doctest/doctest.h>

#include "actors/train/engine.hpp"
#include "gpu/model/stage_model.hpp"
#include "tests/gpu/store_bytes.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

config::job small_job() {
  config::job job;
  job.model.family = model_family::gpt2;
  job.model.layers = 4;
  job.model.heads = 2;
  job.model.kv_heads = 2;
  job.model.hidden = 32;
  job.model.ffn = 128;
  job.model.vocab = 300;
  job.model.max_seq_len = 16;
  job.model.norm_eps = 1e-5;
  job.model.rope_theta = 10000;
  job.model.tied = true;
  job.model.parallel_block = block_form::sequential;
  job.model.sliding_window = 0;
  job.train.batch = 8;
  job.train.micro_batch = 4;
  job.train.seq_len = 16;
  job.parallel.data = 1;
  job.parallel.pipeline = 2;
  job.cluster.nodes = 2;
  job.cluster.node = {{"node0", "localhost", 1}, {"node1", "localhost", 1}};
  return job;
}

job_plan planned(const config::job& job) {
  auto plan = make_plan(job);
  REQUIRE(plan);
  return *plan;
}

}  // namespace

TEST_CASE("a plan's bytes are those a stage allocates") {
  const auto plan = planned(small_job());
  const auto stages = plan_stages(plan);
  REQUIRE(stages.size() == 2);
  auto device = gpu::make_host_device(1);
  for (const auto& s : stages) {
    const auto& r = plan.ranks[static_cast<size_t>(s.ranks.front())];
    const auto o = options_of(plan.job, plan.model, r.at, r.layers, 1);
    auto made = gpu::stage_model::make(*device, plan.model, o.shape);
    REQUIRE(made);
    CHECK((*made)->plan().total() == s.bytes.total());
    const uint64_t state =
        s.bytes.weights + s.bytes.masters + s.bytes.gradients + s.bytes.optimizer;
    CHECK(gpu::bytes_of((*made)->store()) == state);
  }
}

TEST_CASE("a plan's work over all stages is the model's, and its parameters are the model's") {
  auto job = small_job();
  for (const int64_t pipeline : {1, 2}) {
    job.parallel.pipeline = pipeline;
    job.cluster.node = {{"node0", "localhost", pipeline}};
    const auto plan = planned(job);
    double flops = 0;
    int64_t parameters = 0;
    for (const auto& s : plan_stages(plan)) {
      flops += s.step_flops;
      parameters += s.parameters;
    }
    CHECK(flops == doctest::Approx(plan.model.flops_per_token(16) * 8 * 16));
    const int64_t tied_copy = pipeline == 2 ? 300 * 32 : 0;
    CHECK(parameters == plan.model.parameters() + tied_copy);
  }
}

TEST_CASE("replicas are counted once, and say what they exchange") {
  auto job = small_job();
  job.parallel.data = 2;
  job.parallel.pipeline = 2;
  job.cluster.node = {{"node0", "localhost", 4}};
  const auto stages = plan_stages(planned(job));
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].ranks == std::vector<int64_t>{0, 1});
  CHECK(stages[1].ranks == std::vector<int64_t>{2, 3});
  CHECK(stages[0].reduced_bytes == stages[0].bytes.gradients);
  CHECK(stages[0].gathered_bytes == stages[0].bytes.weights);
  CHECK(stages[0].boundary_bytes == 4 * 16 * 32 * sizeof(float));  // its 4 rows of the batch
  CHECK(stages[1].boundary_bytes == 0);
}

TEST_CASE("replicas divide the optimizer, and nothing else") {
  auto job = small_job();
  job.model.dtype = config::compute_dtype::bf16;
  job.parallel.pipeline = 1;
  job.cluster.node = {{"node0", "localhost", 1}};
  const auto alone = plan_stages(planned(job)).front().bytes;
  CHECK(plan_stages(planned(job)).front().gathered_bytes == 0);
  job.parallel.data = 4;
  job.train.micro_batch = 2;
  job.cluster.node = {{"node0", "localhost", 4}};
  const auto shared = plan_stages(planned(job)).front().bytes;
  const auto share = [](uint64_t whole, uint64_t part) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  CHECK(share(alone.optimizer, shared.optimizer) == doctest::Approx(0.25).epsilon(0.01));
  CHECK(share(alone.masters, shared.masters) == doctest::Approx(0.25).epsilon(0.01));
  CHECK(share(alone.weights, shared.weights) == doctest::Approx(1).epsilon(0.01));
  CHECK(share(alone.gradients, shared.gradients) == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("the bubble of 1F1B") {
  CHECK(pipeline_bubble(planned(small_job())) == doctest::Approx(1.0 / 3));  // p = 2, m = 2
}

TEST_CASE("what would make a job fit is said, and does") {
  auto job = small_job();
  const auto plan = planned(job);
  const uint64_t now = largest_stage_bytes(plan_stages(plan));
  CHECK(ways_to_fit(plan, now).empty());
  const auto ways = ways_to_fit(plan, now - 1);
  REQUIRE(ways.size() >= 2);
  CHECK(ways[0].setting == "train.micro_batch=2");
  CHECK(ways[1].setting == "model.recompute=true");
  for (const auto& w : ways) CHECK(w.bytes < now);
  job.train.micro_batch = 2;
  CHECK(largest_stage_bytes(plan_stages(planned(job))) == ways[0].bytes);
  CHECK(ways_to_fit(plan, 1000).empty());
}

TEST_CASE("where one change is too little, two are said together") {
  const auto plan = planned(small_job());
  uint64_t best = largest_stage_bytes(plan_stages(plan));
  auto ways = ways_to_fit(plan, best - 1);
  while (!ways.empty() && ways[0].setting.find(' ') == std::string::npos) {
    for (const auto& w : ways) best = std::min(best, w.bytes);  // as far as one change goes
    ways = ways_to_fit(plan, best - 1);
  }
  REQUIRE(ways.size() == 1);
  CHECK(ways[0].setting.find(' ') != std::string::npos);
  CHECK(ways[0].bytes < best);
}

TEST_CASE("copies in memory are two generations of a node's shares and of those that it keeps") {
  auto job = small_job();
  job.parallel.data = 2;
  job.parallel.pipeline = 1;
  job.cluster.node = {{"node0", "localhost", 1}, {"node1", "localhost", 1}};
  const auto without = planned(job);
  const auto stages = plan_stages(without);
  CHECK(copies_of_nodes(without, stages) == std::vector<uint64_t>{0, 0});
  job.checkpoint.memory.every = 1;
  const auto plan = planned(job);
  const uint64_t share = stages.front().bytes.optimizer / 2 * 3;
  CHECK(copies_of_nodes(plan, stages) == std::vector<uint64_t>{4 * share, 4 * share});
  CHECK(share_of_machine(plan, stages, true).total() ==
        share_of_machine(without, stages, true).total() + 8 * share);
  job.cluster.node = {{"node0", "localhost", 2}};  // with one node there are none
  CHECK(copies_of_nodes(planned(job), stages) == std::vector<uint64_t>{0});
}
