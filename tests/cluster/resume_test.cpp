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

TEST_CASE("resume: a model whose export was cut off is exported by the next start, once") {
  job_files job;
  job.losses({"train.steps=3"});
  const auto model = job / "run/model", weights = model / "model.safetensors";
  const auto size = fs::file_size(weights);
  fs::remove_all(model);
  CHECK(job.losses({"train.steps=3"}).empty());
  REQUIRE(fs::exists(weights));
  CHECK(fs::file_size(weights) == size);
  const auto made = fs::last_write_time(weights);
  CHECK(job.losses({"train.steps=3"}).empty());
  CHECK(fs::last_write_time(weights) == made);
}

TEST_CASE("resume: a partial folder is not a checkpoint, and is replaced") {
  job_files job;
  const auto partial = job / "run/checkpoints/step-00000005.e1.partial";
  fs::create_directories(partial);
  std::ofstream(partial / "rank-00000.shard") << "half";
  CHECK(job.losses({"train.steps=5"}).size() == 5);
  CHECK(fs::exists(job.checkpoint(5)));
  CHECK_FALSE(fs::exists(partial));
}

TEST_CASE("resume: a checkpoint in every step changes no bit, and each one resumes") {
  for (auto [data, pipeline] : {std::pair{1, 1}, {2, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    job_files job;
    const auto plain =
        job.losses(with(layout(data, pipeline), {"job.output=" + (job / "a").string()}));
    const auto all = job.losses(with(layout(data, pipeline), {"checkpoint.every=1"}));
    CHECK(all == plain);
    for (int step : {20, 13, 1}) {
      REQUIRE(run({"ckpt", "verify", job.checkpoint(step).string()}).code == 0);
      const auto from = "checkpoint.resume=" + job.checkpoint(step).string();
      const auto rest =
          job.losses(with(layout(data, pipeline), {from, "job.output=" + (job / "b").string()}));
      CHECK(rest == tail(all, static_cast<size_t>(step)));
    }
    CHECK_FALSE(fs::exists(job / "run/checkpoints/step-00000020.e1.partial"));
  }
}

TEST_CASE("resume: keep leaves the newest checkpoints") {
  job_files job;
  job.losses({"checkpoint.every=2", "checkpoint.keep=2", "train.steps=7"});
  for (int step : {2, 4}) CHECK_FALSE(fs::exists(job.checkpoint(step)));
  for (int step : {6, 7}) CHECK(fs::exists(job.checkpoint(step)));
}

TEST_CASE(
    "resume: a run ends with a Hugging Face folder, and from it, or from checkpoints, one trains "
    "and samples") {
  job_files job;
  job.losses(layout(1, 2));
  const auto folder = (job / "run/model").string(), saved = job.checkpoint(20).string();
  CHECK(fs::exists(fs::path(folder) / "model.safetensors"));
  std::vector<double> firsts;
  for (const auto& from : {folder, saved}) {
    const auto again =
        job.losses({"model.path=" + from, "model.layers=0", "model.hidden=0", "model.heads=0",
                    "checkpoint.resume=never", "job.output=" + (job / "again").string()});
    firsts.push_back(again.front());
  }
  CHECK(firsts[0] < 5.0);  // it starts where the other run ended, not at ln 256
  CHECK(firsts[0] == firsts[1]);
  auto sample = [&](const std::string& from, const char* seed) {
    return run({"generate", "--checkpoint", from, "--tokenizer", "bytes", "--prompt", "aaa ",
                "--tokens", "40", "--temperature", "1", "--seed", seed});
  };
  const auto first = sample(saved, "7");
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(first.out.size() > 40);
  CHECK(sample(folder, "7").out == first.out);
  CHECK(sample(saved, "8").out != first.out);
}
