// What was saved goes on as if it had never stopped.
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

std::vector<double> tail(const std::vector<double>& all, size_t from) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.end()};
}

/// 20 steps with a checkpoint at 10, whose later checkpoint is then taken away: "stopped at 10".
std::vector<double> train_and_forget(const job_files& job, const std::vector<std::string>& sets) {
  auto losses = job.losses(with(sets, {"checkpoint.every=10"}));
  REQUIRE(losses.size() == 20);
  REQUIRE(fs::exists(job.checkpoint(10)));
  REQUIRE(fs::remove_all(job.checkpoint(20)) > 0);
  return losses;
}

}  // namespace

TEST_CASE("resume: the same layout gives the same loss bits") {
  for (auto [data, pipeline] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    job_files job;
    const auto all = train_and_forget(job, layout(data, pipeline));
    const auto rest = job.losses(layout(data, pipeline));
    CHECK(rest == tail(all, 10));
  }
}

TEST_CASE("resume: LAMB, llama and accumulation keep their bits") {
  job_files job;
  const std::vector<std::string> sets{"model.family=llama", "train.optimizer=lamb",
                                      "train.micro_batch=2"};
  const auto all = train_and_forget(job, sets);
  CHECK(job.losses(sets) == tail(all, 10));
}

TEST_CASE("resume: a checkpoint of one layout goes on in another") {
  job_files job;
  const auto all = train_and_forget(job, layout(1, 1));
  const auto from = "checkpoint.resume=" + job.checkpoint(10).string();
  for (auto [data, pipeline] : {std::pair{1, 2}, {2, 1}, {2, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    const auto rest =
        job.losses(with(layout(data, pipeline),
                        {from, fmt::format("checkpoint.dir={}", (job / "other").string())}));
    CHECK(difference(rest, tail(all, 10)) < 1e-5);
  }
}

TEST_CASE("resume: a finished run has nothing to do, and says so") {
  job_files job;
  job.losses({"train.steps=3"});
  program p(job.up({"train.steps=3"}));
  CHECK(p.wait() == 0);
  CHECK(p.losses().empty());
  CHECK(p.err().find("nothing to do") != std::string::npos);
}

TEST_CASE("resume: a partial folder is not a checkpoint, and is replaced") {
  job_files job;
  const auto partial = job / "run/checkpoints/step-00000005.partial";
  fs::create_directories(partial);
  std::ofstream(partial / "train_state.json") << "{}";
  CHECK(job.losses({"train.steps=5"}).size() == 5);
  CHECK(fs::exists(job.checkpoint(5)));
  CHECK_FALSE(fs::exists(partial));
}

TEST_CASE("resume: keep leaves the newest checkpoints") {
  job_files job;
  job.losses({"checkpoint.every=2", "checkpoint.keep=2", "train.steps=7"});
  for (int step : {2, 4}) CHECK_FALSE(fs::exists(job.checkpoint(step)));
  for (int step : {6, 7}) CHECK(fs::exists(job.checkpoint(step)));
}

TEST_CASE("resume: a checkpoint is a Hugging Face folder to train from and to sample from") {
  job_files job;
  job.losses(layout(1, 2));  // sharded by stage
  const auto folder = job.checkpoint(20).string();
  CHECK(fs::exists(job.checkpoint(20) / "model.safetensors.index.json"));
  const auto again =
      job.losses({"model.path=" + folder, "model.layers=0", "model.hidden=0", "model.heads=0",
                  "checkpoint.resume=never", "job.output=" + (job / "again").string()});
  CHECK(again.front() < 5.0);  // it starts where the other run ended, not at ln 256
  auto sample = [&](const char* seed) {
    return run({"generate", "--checkpoint", folder, "--prompt", "aaa ", "--tokens", "40",
                "--temperature", "1", "--seed", seed});
  };
  const auto first = sample("7");
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(first.out.size() > 40);
  CHECK(sample("7").out == first.out);
  CHECK(sample("8").out != first.out);
}
