// What was saved goes on as if it had never stopped.
#include <algorithm>

#include "io/checkpoint/folder_claim.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

std::vector<double> tail(const std::vector<double>& all, size_t from) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.end()};
}

std::vector<double> head(const std::vector<double>& all, size_t to) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(to)};
}

std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> out;
  for (const auto& item : fs::directory_iterator(dir)) out.push_back(item.path().filename());
  std::sort(out.begin(), out.end());
  return out;
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

TEST_CASE("resume: state that replicas shared goes on however many share it then") {
  const std::vector<std::string> sets{"train.batch=6", "train.micro_batch=1",
                                      "train.optimizer=lamb"};
  struct {
    std::pair<int, int> from;
    std::vector<std::pair<int, int>> to;
  } const moves[] = {{{2, 1}, {{1, 1}, {3, 1}}}, {{3, 1}, {{2, 2}}}, {{2, 2}, {{1, 2}, {3, 1}}}};
  for (const auto& [from, to] : moves) {
    CAPTURE(from.first);
    CAPTURE(from.second);
    job_files job;
    const auto all = train_and_forget(job, with(sets, layout(from.first, from.second)));
    const auto resumed = "checkpoint.resume=" + job.checkpoint(10).string();
    for (auto [data, pipeline] : to) {
      CAPTURE(data);
      CAPTURE(pipeline);
      const auto rest =
          job.losses(with(with(sets, layout(data, pipeline)),
                          {resumed, fmt::format("checkpoint.dir={}", (job / "other").string())}));
      CHECK(difference(rest, tail(all, 10)) < 1e-5);
    }
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

TEST_CASE("resume: what was set aside at the last step is the job's again, and stays so") {
  job_files job;
  const auto second = job / "shared";
  const std::vector<std::string> sets{"train.steps=4", "checkpoint.every=2",
                                      "checkpoint.second.dir=" + second.string()};
  const auto bytes_of_model = [&] {
    std::ifstream in(job / "run/model/model.safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  job.losses(sets);
  const auto wanted = bytes_of_model();
  job.losses(with(sets, {"checkpoint.resume=never", "job.seed=7"}));
  REQUIRE(bytes_of_model() != wanted);
  const auto aside = job.checkpoint(4).string() + ".aside-1";
  REQUIRE(fs::exists(aside));
  CHECK(job.losses(with(sets, {"checkpoint.resume=" + aside})).empty());
  CHECK(bytes_of_model() == wanted);
  for (const auto& saved : {job.checkpoint(4), second / "step-00000004"})
    CHECK(run({"ckpt", "diff", aside, saved.string()}).code == 0);
  CHECK(fs::exists(aside));
  // Nobody names it any more.
  program next(job.up(sets));
  CHECK(next.wait() == 0);
  CHECK(next.losses().empty());
  CHECK(next.err().find("nothing to do") != std::string::npos);
  CHECK(bytes_of_model() == wanted);
  CHECK_FALSE(fs::exists(job.checkpoint(4).string() + ".aside-3"));
}

TEST_CASE("resume: a partial folder is not a checkpoint, and is replaced") {
  job_files job;
  const auto partial = job / "run/checkpoints/step-00000005.e1.partial";
  fs::create_directories(partial);
  std::ofstream(partial / "rank-00000.shard") << "half";
  std::ofstream(partial / troupe::io::mark_file)
      << troupe::io::checkpoint::partial_mark("t", {});
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
    const auto all = job.losses(
        with(layout(data, pipeline), {"checkpoint.every=1", "checkpoint.slot_bytes=65536"}));
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

TEST_CASE("resume: from the second tier alone it goes on with the same loss bits") {
  job_files job;
  const auto second = job / "shared";
  const auto sets =
      with(layout(1, 2), {"train.schedule=constant", "checkpoint.every=2",
                          "checkpoint.second.dir=" + second.string(), "checkpoint.second.keep=1"});
  const auto all = job.losses(
      with(layout(1, 2), {"train.schedule=constant", "job.output=" + (job / "plain").string()}));
  CHECK(job.losses(with(sets, {"train.steps=9"})) == head(all, 9));
  CHECK(names_in(second) == std::vector<std::string>{"step-00000009"});
  CHECK(run({"ckpt", "verify", (second / "step-00000009").string()}).code == 0);
  fs::remove_all(job / "run/checkpoints");
  fs::create_directories(second / "step-00000008.e1.partial");
  program again(job.up(sets));
  CHECK(again.wait() == 0);
  INFO(again.err());
  CHECK(again.losses() == tail(all, 9));
  CHECK(again.err().find(second.string() + "/step-00000008.e1.partial") != std::string::npos);
  CHECK(names_in(second) == std::vector<std::string>{"step-00000020"});
  CHECK(fs::exists(job.checkpoint(20)));
  // Nothing is left to train, and the copy is there: it is found, not made again.
  fs::remove_all(job / "run/checkpoints");
  program idle(job.up(sets));
  CHECK(idle.wait() == 0);
  CHECK(idle.err().find("nothing to do") != std::string::npos);
}

TEST_CASE(
    "resume: a second tier that cannot keep up holds the end of a run up only as long as told") {
  job_files job;
  const auto second = job / "shared";
  program p(
      job.up({"train.steps=3", "checkpoint.every=1", "checkpoint.second.wait_s=1",
              "checkpoint.second.bytes_per_second=1", "checkpoint.second.dir=" + second.string()}));
  CHECK(p.wait() == 0);
  INFO(p.err());
  CHECK(p.err().find("step 3, is not in the second tier") != std::string::npos);
  CHECK(names_in(second).empty());
  CHECK(fs::exists(job.checkpoint(3)));
}

TEST_CASE(
    "resume: a second tier that fails is a warning, one that cannot be looked into stops a start") {
  job_files job;
  const auto second = job / "shared";
  fs::create_directories(second);
  for (int step : {1, 2, 3})  // in the way of the folder that a copy is written into
    std::ofstream(second / fmt::format("step-{:08}.e1.partial", step)) << "x";
  const std::vector<std::string> sets{"train.steps=3", "checkpoint.every=1"};
  program p(job.up(with(sets, {"checkpoint.second.dir=" + second.string()})));
  CHECK(p.wait() == 0);
  INFO(p.err());
  CHECK(p.losses().size() == 3);
  CHECK(p.err().find("not in the second tier") != std::string::npos);
  CHECK(fs::exists(job.checkpoint(3)));
  const auto file = (second / "step-00000001.e1.partial").string();
  fs::remove_all(job / "run/checkpoints");
  program blind(job.up(with(sets, {"checkpoint.second.dir=" + file + "/shared"})));
  CHECK(blind.wait() == 65);
  CHECK(blind.err().find("checkpoint.resume=never") != std::string::npos);
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
