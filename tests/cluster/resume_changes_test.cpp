// What has changed since a checkpoint is said, or refused; what was set stays set.
#include <fstream>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

bool tells(const finished& f, const std::string& text) {
  return f.err.find(text) != std::string::npos;
}

json state_of(const fs::path& checkpoint) {
  return json::parse(std::ifstream(checkpoint / "train_state.json"));
}

}  // namespace

TEST_CASE("resume: each difference is said, and tokens are counted on") {
  job_files job;
  job.losses({"train.steps=4"});
  const auto f = run(job.up({"train.steps=6", "train.batch=8", "train.lr=1e-3"}));
  INFO(f.err);
  CHECK(f.code == 0);
  CHECK(tells(f, "since step 4: train.batch 4 -> 8"));
  CHECK(tells(f, "since step 4: train.lr 0.003 -> 0.001"));
  CHECK_FALSE(tells(f, "log.format"));
  CHECK(state_of(job.checkpoint(6))["tokens"] == 4 * 4 * 32 + 2 * 8 * 32);
}

TEST_CASE("resume: a warmup that was shortened for a few steps has its length again behind them") {
  job_files job;
  std::ifstream in(job / "job.toml");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::string before = "warmup_steps = 1\n";
  text.replace(text.find(before), before.size(), "warmup_steps = 6\n");
  in.close();
  std::ofstream(job / "job.toml") << text;
  const auto few = run(job.up({"train.steps=3", "train.schedule=constant"}));
  INFO(few.err);
  CHECK(few.code == 0);
  const std::string warning = "warning: train.warmup_steps = 6 of ";
  const auto said = few.err.find(warning);
  CHECK(said != std::string::npos);
  CHECK(few.err.find(warning, said + 1) == std::string::npos);
  CHECK(logged_steps(job / "run/log.jsonl").back()["lr"] == doctest::Approx(3e-3));
  CHECK(logged(job / "run/log.jsonl", "warning")
            .at(0)["text"]
            .get<std::string>()
            .find("is shortened to 3") != std::string::npos);
  const auto more = run(job.up({"train.schedule=constant", "train.steps=20"}));
  CHECK(more.code == 0);
  CHECK(tells(more, "since step 3: train.steps 3 -> 20"));
  CHECK_FALSE(tells(more, warning));
  const auto steps = logged_steps(job / "run/log.jsonl");
  REQUIRE(steps.size() == 20);
  CHECK(steps[3]["lr"] == doctest::Approx(3e-3 * 4 / 6));
  CHECK(steps[19]["lr"] == doctest::Approx(3e-3));
}

TEST_CASE("resume: with another batch it goes on behind the tokens that were seen") {
  // What is learned in a step of two rows is, with no learning rate, the mean of two of one.
  const std::vector<std::string> still{"train.lr=1e-30", "train.warmup_steps=0",
                                       "train.schedule=constant"};
  job_files job;
  const auto single =
      job.losses(with(still, {"train.batch=1", "train.steps=10", "checkpoint.every=4"}));
  const auto from = "checkpoint.resume=" + job.checkpoint(4).string();
  const auto pairs = job.losses(with(
      still, {"train.batch=2", "train.steps=7", from, "job.output=" + (job / "pairs").string()}));
  REQUIRE(single.size() == 10);
  REQUIRE(pairs.size() == 3);
  for (size_t i = 0; i < pairs.size(); ++i)
    CHECK(pairs[i] == doctest::Approx((single[4 + 2 * i] + single[5 + 2 * i]) / 2).epsilon(1e-5));
}

TEST_CASE("resume: stages keep the layers of the checkpoint until they are told others (RSM-6)") {
  const auto stages = with({"model.layers=4", "train.schedule=constant"}, layout(1, 2));
  job_files whole, job;
  const auto all = whole.losses(with(stages, {"parallel.layers=3,1", "train.steps=6"}));
  REQUIRE(all.size() == 6);
  job.losses(with(stages, {"parallel.layers=3,1", "train.steps=4"}));
  program up(job.up(with(stages, {"train.steps=6"})));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("stages keep the layers that they had in step 4") != std::string::npos);
  CHECK(up.losses() == std::vector<double>(all.begin() + 4, all.end()));
  const auto f = run(job.up(with(stages, {"train.steps=8", "parallel.layers=1,3"})));
  INFO(f.err);
  CHECK(f.code == 0);
  CHECK(tells(f, "since step 6: parallel.layers \"3,1\" -> \"1,3\""));
}

TEST_CASE("resume: what cannot mean anything is refused by both verbs, with a way out") {
  job_files job;
  job.losses({"train.steps=3"});
  for (const auto* set : {"train.optimizer=lamb", "model.heads=2", "model.family=llama"}) {
    CAPTURE(set);
    auto check = job.up({"train.steps=6", set});
    check.erase(check.begin());
    check.insert(check.begin(), {"config", "check"});
    for (const auto& f : {run(job.up({"train.steps=6", set})), run(check)}) {
      INFO(f.err);
      CHECK(f.code == 78);
      CHECK(tells(f, "checkpoint.resume=never"));
      CHECK(f.out.empty());
    }
  }
  CHECK(job.losses({"train.steps=6"}).size() == 3);
}

TEST_CASE("resume: what was set stays set until the file says something else") {
  job_files job;
  program up(job.up(endless));
  REQUIRE(up.until_step(2));
  const auto address = fmt::format("127.0.0.1:{}", up.port());
  for (const auto* line : {"set train.lr 0.5e-3", "stop"})
    CHECK(run({"console", "-c", line, "--connect", address}).code == 0);
  up.wait();
  const int last = up.objects("step").back()["step"];
  const int steps = last + 2;
  const auto end = fmt::format("train.steps={}", steps);
  program again(job.up({"train.schedule=constant", end, "train.warmup_steps=0"}));
  CHECK(again.wait() == 0);
  INFO(again.err());
  CHECK(again.err().find("train.lr stays 0.0005, set from step ") != std::string::npos);
  CHECK(again.objects("step").back()["lr"] == doctest::Approx(0.5e-3));
  CHECK(state_of(job.checkpoint(steps))["set"].size() == 1);
  const auto more = fmt::format("train.steps={}", steps + 1);
  program changed(
      job.up({"train.schedule=constant", more, "train.warmup_steps=0", "train.lr=2e-3"}));
  CHECK(changed.wait() == 0);
  CHECK(changed.objects("step").back()["lr"] == doctest::Approx(2e-3));
}
