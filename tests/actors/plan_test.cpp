// What a job becomes: family defaults, stages, micro-batches, and what cannot be planned.
#include "actors/job/plan.hpp"

#include "actors/train/engine.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

/// A job of a small model with lines added to its sections.
config::job job_of(const std::string& model, const std::string& rest = "") {
  auto job = config::parse("[model]\nlayers = 4\nheads = 4\nhidden = 64\n" + model +
                               "\n[data]\npath = \"x.txt\"\n" + rest,
                           "test");
  INFO((job ? "" : job.error().message));
  REQUIRE(job);
  return *job;
}

}  // namespace

TEST_CASE("plan: gpt2 is what its family says") {
  auto plan = make_plan(job_of("family = \"gpt2\""));
  REQUIRE(plan);
  const auto& m = plan->model;
  CHECK(m.family == model_family::gpt2);
  CHECK(m.tied);
  CHECK(m.ffn == 256);
  CHECK(m.kv_heads == 4);
  CHECK(m.head_width == 16);
  CHECK(m.vocab >= 256);
  CHECK(plan->job.model.vocab == m.vocab);
  CHECK(m.max_positions == plan->job.train.seq_len);
  CHECK(plan->ranks.size() == 1);
  CHECK(plan->ranks[0].layers.first == 0);
  CHECK(plan->ranks[0].layers.last == 4);
}

TEST_CASE("plan: llama is what its family says, and keys change it") {
  auto plan = make_plan(job_of("family = \"llama\""));
  REQUIRE(plan);
  CHECK_FALSE(plan->model.tied);
  CHECK(plan->model.activation == activation_kind::swiglu);
  CHECK_FALSE(plan->model.attention_bias);
  CHECK(plan->model.ffn == 192);  // 8/3 x 64 = 170, up to a multiple of 64
  auto changed = make_plan(
      job_of("family = \"llama\"\nkv_heads = 2\nffn = 100\ntied = \"yes\"\nsliding_window = 7\n"
             "parallel_block = \"shared_norm\"\nrope_theta = 5e5\nvocab = 300"));
  REQUIRE(changed);
  CHECK(changed->model.kv_heads == 2);
  CHECK(changed->model.ffn == 100);
  CHECK(changed->model.tied);
  CHECK(changed->model.sliding_window == 7);
  CHECK(changed->model.block == block_form::shared_norm);
  CHECK(changed->model.rope_theta == 5e5);
  CHECK(changed->model.vocab == 300);
}

TEST_CASE("plan: stages cover the layers, ranks the cluster, micro-batches the batch") {
  auto plan = make_plan(job_of("",
                               "[cluster]\nnodes = 4\n[parallel]\ndata = 2\npipeline = 2\n"
                               "[train]\nbatch = 24\nmicro_batch = 3\n"));
  REQUIRE(plan);
  CHECK(plan->micro_batches == 4);
  REQUIRE(plan->ranks.size() == 4);
  for (size_t r = 0; r < 4; ++r) {
    const auto& rank = plan->ranks[r];
    CHECK(rank.at.rank == static_cast<int>(r));
    const bool first = rank.at.first();
    CHECK((rank.layers.first == 0) == first);
    CHECK((rank.layers.last == 4) == !first);
  }
  auto engine = options_of(plan->job, plan->model, {}, {0, 4}, 3);
  CHECK(engine.threads == 3);
  CHECK(engine.shape.micro_batch == 3);
  CHECK(engine.batch == 24);
}

TEST_CASE("plan: what does not fit together is a bad configuration") {
  // As the model's folder would make it, after the configuration alone was fine.
  const auto refused = [](const char* what, auto change) {
    CAPTURE(what);
    auto job = job_of("");
    REQUIRE(make_plan(job));
    change(job);
    const auto plan = make_plan(job);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::bad_config);
    CHECK(plan.error().message.find(what) != std::string::npos);
  };
  refused("4 layers", [](auto& j) { j.cluster.nodes = j.parallel.pipeline = 5; });
  refused("train.seq_len 32 is longer", [](auto& j) {
    j.train.seq_len = 32;
    j.model.max_seq_len = 16;
  });
}

TEST_CASE("plan: ready tokens need a vocabulary") {
  auto job = job_of("");
  job.data.path = {"tokens.bin"};
  auto plan = make_plan(job);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == errc::bad_config);
  CHECK(plan.error().hint.find("model.vocab") != std::string::npos);
  job.model.vocab = 1000;
  CHECK(make_plan(job));
}

TEST_CASE("plan: a missing model folder is not found, nor a tokenizer, each by its key") {
  const auto not_found = [](const char* key, auto change) {
    CAPTURE(key);
    auto job = job_of("");
    change(job);
    const auto plan = make_plan(job);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::not_found);
    CHECK(plan.error().message.starts_with(key));
    CHECK_FALSE(plan.error().hint.empty());
  };
  not_found("model.path: ", [](auto& j) { j.model.path = "/nonexistent/model"; });
  not_found("data.tokenizer: ", [](auto& j) {
    j.data.tokenizer = "/nonexistent/words";
    j.model.vocab = 0;
  });
}

TEST_CASE("plan: schedules travel whole") {
  auto job = job_of("", "[train]\nlr = 2e-3\nschedule = \"wsd\"\nsteps = 100\nwarmup_steps = 10\n");
  const auto lr = lr_of(job.train);
  CHECK(lr.shape == gpu::lr_shape::wsd);
  CHECK(lr.at(50) == doctest::Approx(2e-3));
  CHECK(lr.at(1) < lr.at(10));
}
