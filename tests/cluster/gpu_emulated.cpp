// Whole runs on GPUs: the program linked against the emulated GPU (docs/gpu.md) trains through the
// same actors, streams, groups and checkpoints as on a real one; the host is what it is compared
// with.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/cluster/swapped_jobs.hpp"

using namespace troupe::cluster_test;

namespace {

const std::vector<std::string> few{"train.steps=6", "checkpoint.resume=never"};
const std::vector<std::string> gpu{"cluster.device=cuda"};
const std::vector<std::string> host{"cluster.device=host"};

std::vector<double> tail(const std::vector<double>& all, size_t from) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.end()};
}

}  // namespace

TEST_CASE("a run on GPUs has the host's losses, in every layout") {
  job_files job;
  const auto alone = job.losses(with(few, host));
  REQUIRE(alone.size() == 6);
  for (auto [data, pipeline] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    const auto losses = job.losses(with(with(few, gpu), layout(data, pipeline)));
    CHECK(difference(losses, alone) < 1e-5);
  }
}

TEST_CASE("a bfloat16 llama on GPUs has the host's losses within its rounding") {
  job_files job;
  const std::vector<std::string> model{"model.family=llama", "model.dtype=bf16", "model.kv_heads=2",
                                       "model.recompute=true"};
  const auto want = job.losses(with(with(few, host), model));
  CHECK(difference(job.losses(with(with(few, gpu), model)), want) < 4e-3);
}

TEST_CASE("rechecks: GPUs compute alike each time, and have the losses that they have without") {
  const std::vector<std::string> llama{"model.family=llama", "model.dtype=bf16",
                                       "model.recompute=true", "train.batch=12"};
  for (const auto& ranks : {layout(1, 2), layout(3, 1)})
    for (const auto& model : {std::vector<std::string>{"train.batch=12"}, llama}) {
      const auto sets = with(with(with(few, gpu), ranks), model);
      const auto without = job_files().losses(with(sets, {"health.recheck_every=0"}));
      const job_files job;
      program up(job.up(with(sets, {"health.recheck_every=1"})));
      CHECK(up.wait() == 0);
      CHECK(up.err().find("recovery") == std::string::npos);
      std::vector<double> losses;
      for (const auto& step : up.objects("step")) losses.push_back(step["loss"]);
      CHECK(losses == without);
    }
}

TEST_CASE("what was saved on GPUs goes on on the host, and the other way round") {
  for (const auto& [first, second] : {std::pair{gpu, host}, std::pair{host, gpu}}) {
    CAPTURE(first.front());
    job_files job;
    const std::vector<std::string> sets{"train.steps=6", "checkpoint.every=3"};
    const auto all = job.losses(with(sets, first));
    REQUIRE(all.size() == 6);
    REQUIRE(fs::remove_all(job.checkpoint(6)) > 0);
    const auto rest = job.losses(with(sets, second));
    CHECK(difference(rest, tail(all, 3)) < 1e-5);
  }
}

TEST_CASE("weights rounded by chance: a resumed run has the bits of one that never stopped") {
  for (const auto& device : {gpu, host}) {
    CAPTURE(device.front());
    job_files job;
    const auto sets = with({"train.steps=6", "checkpoint.every=3", "model.dtype=bf16",
                            "train.stochastic_rounding=true"},
                           device);
    const auto all = job.losses(sets);
    REQUIRE(all.size() == 6);
    REQUIRE(fs::remove_all(job.checkpoint(6)) > 0);
    CHECK(job.losses(sets) == tail(all, 3));
    job_files plain;
    CHECK(plain.losses(with(with(few, device), {"model.dtype=bf16"})) != all);
  }
}

/// Two replicas train twelve steps; after some of them one GPU does what the sign stands for.
void recovers_from(const char* sign_variable, const std::vector<std::string>& more,
                   const char* finding) {
  job_files job;
  const auto sets =
      with(with({"train.steps=12", "checkpoint.every=3"}, more), with(gpu, layout(2, 1)));
  const auto truth = job.losses(with(sets, {"job.output=" + (job / "undisturbed").string()}));
  REQUIRE(truth.size() == 12);
  const auto sign = (job / "sign").string();
  REQUIRE(setenv(sign_variable, sign.c_str(), 1) == 0);
  program up(job.up(with(sets, {"checkpoint.resume=never"})));
  REQUIRE(unsetenv(sign_variable) == 0);
  REQUIRE(up.until_step(5));
  std::ofstream(sign) << "";
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK_FALSE(fs::exists(sign));
  CHECK(up.err().find("recovery 1 begins (epoch 1 -> 2)") != std::string::npos);
  CHECK(up.err().find("recovery 2 begins") == std::string::npos);
  size_t last = 0;
  for (const auto& step : up.objects("step")) {
    last = step["step"];
    CHECK(step["loss"].get<double>() == truth.at(last - 1));
  }
  CHECK(last == 12);
  const auto incidents = objects_in(job / "run/incidents.jsonl");
  REQUIRE_FALSE(incidents.empty());
  if (finding != nullptr) CHECK(incidents.front()["finding"] == finding);
}

TEST_CASE("recovery: a node that loses its GPU gets another process, and no loss another bit") {
  recovers_from("TROUPE_EMULATED_GPU_LOSES", {}, nullptr);
}

// Its process beats and answers all the while; nothing else ends before two minutes.
TEST_CASE("recovery: a GPU that never ends a kernel is found, named and replaced") {
  recovers_from("TROUPE_EMULATED_GPU_HANGS", {"health.stuck_after_s=1", "recovery.stuck_after_s=2"},
                "stuck_device");
}

TEST_CASE("auto takes the GPU where every worker gets one, else the host, and cuda shares it") {
  job_files job;
  const auto said = [&](const std::vector<std::string>& sets) {
    program p(job.up(with({"train.steps=1", "checkpoint.resume=never"}, sets)));
    CHECK(p.wait() == 0);
    return p.err();
  };
  CHECK(said({}).find("devices: cuda:0") != std::string::npos);
  CHECK(said(layout(2, 1)).find("devices:") == std::string::npos);
  CHECK(said(with(gpu, layout(2, 1))).find("devices: cuda:0, cuda:0 (shared") != std::string::npos);
}

namespace {

/// Budgets of a process and of a GPU.
struct both_budgets {
  int64_t host_bytes = 0, device_bytes = 0;

  std::vector<std::string> settings() const {
    return {"swap.host_bytes=" + std::to_string(host_bytes),
            "swap.device_bytes=" + std::to_string(device_bytes)};
  }
};

/// `troupe plan --json` of a job.
finished planned(const job_files& job, const std::vector<std::string>& sets) {
  auto words = job.up(sets);
  words.front() = "plan";
  words.insert(words.end(), {"--json", "--no-measure"});
  return run(words);
}

/// The least budgets, as the plan says them, which is refused with less.
both_budgets floors_of(const job_files& job, const std::vector<std::string>& sets) {
  const auto refused = [&](const both_budgets& with_less) {
    const auto told = planned(job, with(sets, with_less.settings()));
    CHECK(told.code == 78);
    return nlohmann::json::parse(told.out)["swap"];
  };
  both_budgets out{1, 1};
  out.device_bytes = refused(out)["gpu"]["floor_bytes"];
  out.host_bytes = refused(out)["floor_bytes"];
  return out;
}

}  // namespace

TEST_CASE("swap: on a GPU a job at the floors of both memories has the losses of the GPU's") {
  job_files job;
  const auto sets = with(with(deep, gpu), {"train.steps=4", "checkpoint.resume=never"});
  const auto drive = with(sets, {"swap.dir=" + (job / "swap").string()});
  const auto floor = floors_of(job, drive);
  const auto code_of = [&](const both_budgets& b) {
    return planned(job, with(drive, b.settings())).code;
  };
  CHECK(code_of({floor.host_bytes, floor.device_bytes - 1}) == 78);
  CHECK(code_of({floor.host_bytes - 1, floor.device_bytes}) == 78);
  const auto truth = numbers_in_memory(job, sets);
  REQUIRE(truth.size() == 4);
  CHECK(numbers(job, with(drive, floor.settings())) == truth);
  const auto whole = planned(job, drive);  // as much as the GPU has: all of it fits
  CHECK(whole.code == 0);
  CHECK_FALSE(nlohmann::json::parse(whole.out).contains("swap"));
}

TEST_CASE("swap: replicas on a GPU all drop what a clipped step updated, and make it again") {
  job_files job;
  const auto replicas = with(layout(2, 1), {"train.micro_batch=2", "train.steps=6"});
  const auto sets = with(with(with(deep, gpu), replicas), {"checkpoint.resume=never"});
  const auto free_steps = numbers_in_memory(job, with(sets, {"train.clip_norm=0"}));
  REQUIRE(free_steps.size() == 6);
  std::vector<double> norms;
  for (const auto& [loss, norm] : free_steps) norms.push_back(norm);
  std::sort(norms.begin(), norms.end());
  const auto limit = (norms[2] + norms[3]) / 2;
  const auto clipped = with(sets, {fmt::format("train.clip_norm={}", limit)});
  const auto truth = numbers_in_memory(job, clipped);
  const auto drive = with(clipped, {"swap.dir=" + (job / "swap").string(), "swap.clip=speculate"});
  program up(job.up(with(drive, floors_of(job, drive).settings())));
  const int code = up.wait();
  INFO(up.err());
  REQUIRE(code == 0);
  CHECK(numbers_of(up) == truth);
  std::vector<int> made, expected;
  for (const auto& step : up.objects("step")) made.push_back(step.value("passes", 0));
  for (const auto& [loss, norm] : truth) expected.push_back(norm > limit ? 2 : 1);
  CHECK(made == expected);
  CHECK(std::count(expected.begin(), expected.end(), 2) > 0);
  CHECK(std::count(expected.begin(), expected.end(), 1) > 0);
}

TEST_CASE("bench gpu on a GPU: ceilings, operations and training of a tiny shape, as one table") {
  program p({"bench", "gpu", "--models", "micro", "--train", "micro", "--side", "16", "--copy-mib",
             "1", "--seconds", "0.001", "--no-tests", "--json"});
  REQUIRE(p.wait() == 0);
  const auto j = nlohmann::json::parse(p.out());
  CHECK(j["epilogues"]["fused"] > 0);
  REQUIRE(j["training"].size() == 1);
  const auto& t = j["training"][0];
  CHECK(t["dtype"] == "bf16");
  CHECK(t["median"]["tokens_per_s"] > 0);
  CHECK(t["median"]["of_peak"] > 0);
  CHECK(t["memory_bytes"] > 0);
  for (const char* op : {"linear_forward", "attention_backward", "head_loss", "optimizer_step"})
    CHECK_MESSAGE(t["ops"].contains(op), op);
}

TEST_CASE("bench gpu on a GPU: what does not fit its memory is left out, with the reason") {
  program p({"bench", "gpu", "--train", "llama-8b", "--side", "16", "--copy-mib", "1", "--no-ops",
             "--no-tests"});
  CHECK(p.wait() == 0);
  CHECK(p.out().find("left out: training of llama-8b: llama-8b needs") != std::string::npos);
}
