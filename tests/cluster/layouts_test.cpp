// The layout of a cluster does not change what is learned: data x pipeline, accumulation, families.
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

const std::vector<std::string> fresh{"checkpoint.resume=never"};

/// All layouts against one worker; and one layout twice, bit for bit.
void compare_layouts(const std::vector<std::string>& model) {
  job_files job;
  const auto sets = with(model, fresh);
  const auto alone = job.losses(with(sets, layout(1, 1)));
  REQUIRE(alone.size() == 20);
  CHECK(alone.front() > 4.9);  // a little below ln 256 = 5.545: step 1 sees what it has not learned
  CHECK(alone.back() < alone.front() - 0.5);
  for (auto [data, pipeline] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    const auto losses = job.losses(with(sets, layout(data, pipeline)));
    CHECK(difference(losses, alone) < 1e-5);
    if (data * pipeline == 4) CHECK(job.losses(with(sets, layout(data, pipeline))) == losses);
  }
  const auto accumulated = with(sets, {"train.micro_batch=1"});
  CHECK(difference(job.losses(with(accumulated, layout(1, 1))), alone) < 1e-5);
  CHECK(difference(job.losses(with(accumulated, layout(2, 2))), alone) < 1e-5);
}

}  // namespace

TEST_CASE("layouts: gpt2, tied head") {
  compare_layouts({"model.family=gpt2", "model.tied=yes"});
}
TEST_CASE("layouts: gpt2, free head") {
  compare_layouts({"model.family=gpt2", "model.tied=no"});
}
TEST_CASE("layouts: llama, tied head, grouped queries") {
  compare_layouts({"model.family=llama", "model.tied=yes", "model.kv_heads=2"});
}
TEST_CASE("layouts: llama, free head") {
  compare_layouts({"model.family=llama", "model.tied=no"});
}

TEST_CASE("layouts: where attention begins anew with each document, every stage has the borders") {
  job_files job;
  const auto three = with(fresh, {"model.family=gpt2", "model.layers=3"});
  const auto words = with(three, {"data.reset_attention=true", "data.document_end=32"});
  const auto alone = job.losses(with(words, layout(1, 1)));
  CHECK(difference(alone, job.losses(with(three, layout(1, 1)))) > 1e-3);
  CHECK(difference(job.losses(with(words, layout(1, 3))), alone) < 1e-5);
  CHECK(difference(job.losses(with(with(words, {"train.micro_batch=1"}), layout(2, 2))), alone) <
        1e-5);
}

TEST_CASE("layouts: where the stages are cut changes nothing but last bits") {
  job_files job;
  const auto four = with(fresh, {"model.family=gpt2", "model.tied=no", "model.layers=4"});
  const auto alone = job.losses(with(four, layout(1, 1)));
  const auto cut = [&](const char* layers, std::vector<std::string> more = {}) {
    more.push_back(std::string("parallel.layers=") + layers);
    return job.losses(with(with(four, layout(1, 2)), more));
  };
  const auto early = cut("1,3");
  CHECK(difference(early, alone) < 1e-5);
  CHECK(difference(cut("3,1"), alone) < 1e-5);
  CHECK(cut("1,3") == early);
  // Without the norm of all gradients, which each stage sums for itself, nothing is left that
  // depends on the cut.
  CHECK(cut("1,3", {"train.clip_norm=0"}) == cut("3,1", {"train.clip_norm=0"}));
}

TEST_CASE("layouts: LAMB's norms are of whole tensors, whoever holds their slices") {
  job_files job;
  const auto sets = with(fresh, {"train.optimizer=lamb", "train.batch=6", "train.micro_batch=1"});
  const auto alone = job.losses(with(sets, layout(1, 1)));
  for (auto [data, pipeline] : {std::pair{2, 1}, {3, 1}, {2, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    const auto losses = job.losses(with(sets, layout(data, pipeline)));
    CHECK(difference(losses, alone) < 1e-5);
    if (data == 3) CHECK(job.losses(with(sets, layout(data, pipeline))) == losses);
  }
}

TEST_CASE("layouts: the same layout twice gives the same bits") {
  job_files job;
  for (auto [data, pipeline] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
    const auto sets = with(fresh, layout(data, pipeline));
    CHECK(job.losses(sets) == job.losses(sets));
  }
}

TEST_CASE("layouts: two workers in one node are as two nodes of one") {
  job_files job;
  const auto two_nodes = job.losses(with(fresh, layout(2, 1)));
  CHECK(job.losses(with(fresh, {"cluster.nodes=1", "cluster.workers_per_node=2",
                                "parallel.data=2"})) == two_nodes);
}

TEST_CASE("layouts: another seed gives other losses") {
  job_files job;
  CHECK(job.losses(fresh) != job.losses(with(fresh, {"job.seed=99"})));
}
