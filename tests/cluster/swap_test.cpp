// Jobs whose state lives on a drive: with the losses of training in memory, within their budget,
// and with nothing left behind.
#include <signal.h>

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/mounts.hpp"
#include "tests/cluster/swapped_jobs.hpp"

using namespace troupe::cluster_test;

namespace {

/// What of the job lives in its swap folder.
int64_t bytes_on_drive(const job_files& job, const std::vector<std::string>& sets) {
  auto words = job.up(sets);
  words.front() = "plan";
  words.insert(words.end(), {"--json", "--no-measure"});
  const auto plan = run(words);
  CHECK(plan.code == 0);
  return nlohmann::json::parse(plan.out)["swap"]["disk_bytes"];
}

/// Two stages, each with layers enough; two replicas of such a model; two of each.
const std::vector<std::string> two_stages{"cluster.nodes=2", "parallel.pipeline=2",
                                          "model.layers=16", "train.micro_batch=2"},
    two_replicas{"cluster.nodes=2", "parallel.data=2", "model.layers=16", "train.micro_batch=2"},
    two_by_two{"cluster.nodes=4", "parallel.data=2", "parallel.pipeline=2", "model.layers=24",
               "train.micro_batch=2"};

/// In as little memory as it can be trained with, against the same in memory. `swapping`: of the
/// first alone.
void train_at_floor(const std::vector<std::string>& how,
                    const std::vector<std::string>& swapping = {}) {
  std::string all;
  for (const auto& set : how) all += set + ' ';
  CAPTURE(all);
  job_files job;
  const auto sets = with(deep, how);
  const auto truth = numbers_in_memory(job, sets);
  REQUIRE(truth.size() == 12);
  const auto floor = floor_of(job, with(sets, swapping));
  program up(job.up(with(with(sets, swapped(job, floor)), swapping)));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(numbers_of(up) == truth);
  for (const auto& step : up.objects("step")) {
    CHECK(step["read_bytes"] > 0);
    if (step["step"] > 1) CHECK(step["written_bytes"] > 0);  // of the update before
    CHECK(step["limit_ms"] > 0);
    CHECK(step["process_peak_bytes"] > 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(step["process_peak_bytes"] <= floor);
#endif
  }
  CHECK(run({"ckpt", "diff", job.checkpoint(12, "memory").string(), job.checkpoint(12).string()})
            .code == 0);
  CHECK_FALSE(has_entry(job / "swap"));
  // It has the swap files, and they are sound without the folder.
  CHECK(fs::exists(job.checkpoint(12) / "rank-00000.chunk-00003.shard"));
  CHECK(run({"ckpt", "verify", job.checkpoint(12).string()}).code == 0);
}

}  // namespace

TEST_CASE("swap: at its floor a job has the losses of one in memory, within its budget") {
  for (const auto& how : {std::vector<std::string>{"model.dtype=bf16", "train.clip_norm=1"},
                          {"model.dtype=f32", "train.clip_norm=0", "checkpoint.every=4"},
                          with(two_stages, {"model.dtype=bf16"}),
                          with(two_stages, {"train.clip_norm=0", "checkpoint.every=4"})})
    train_at_floor(how);
}

TEST_CASE("swap: at its floor a job of replicas has the losses of one in memory, too") {
  for (const auto& how : {with(two_replicas, {"model.dtype=bf16", "checkpoint.every=4"}),
                          with(two_replicas, {"train.clip_norm=0"}),
                          with(two_replicas, {"train.optimizer=lamb", "train.clip_norm=0"}),
                          with(two_by_two, {"model.dtype=bf16"}),
                          with(two_by_two, {"model.dtype=bf16", "train.optimizer=lamb"})})
    train_at_floor(how);
}

TEST_CASE("swap: without files for weights a job has the losses of one in memory, and the state") {
  train_at_floor({"model.dtype=bf16", "train.clip_norm=1"}, {"swap.weights=derived"});
  train_at_floor(with(two_replicas, {"model.dtype=bf16", "train.stochastic_rounding=true"}),
                 {"swap.weights=derived"});
}

TEST_CASE("swap: a step that is clipped is made twice, and no other where updates come first") {
  job_files job;
  const auto sets = with(deep, {"model.dtype=bf16", "checkpoint.every=4"});
  auto norms = [&] {
    program up(job.up(with(sets, {"job.output=" + (job / "free").string()})));
    CHECK(up.wait() == 0);
    std::vector<double> out;
    for (const auto& step : up.objects("step")) out.push_back(step["grad_norm"]);
    return out;
  }();
  REQUIRE(norms.size() == 12);
  std::sort(norms.begin(), norms.end());
  const auto limit = norms[6];
  const auto clipped = with(sets, {fmt::format("train.clip_norm={}", limit)});
  const auto truth = job.losses(with(clipped, {"job.output=" + (job / "memory").string()}));
  program up(
      job.up(with(with(clipped, swapped(job, floor_of(job, clipped))), {"swap.clip=speculate"})));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.losses() == truth);
  std::set<int> passes;
  for (const auto& step : up.objects("step")) {
    CHECK(step["passes"] == (step["grad_norm"] > limit ? 2 : 1));
    passes.insert(step["passes"].get<int>());
  }
  CHECK(passes == std::set{1, 2});
  for (const int64_t step : {4, 8, 12})
    CHECK(run({"ckpt", "diff", job.checkpoint(step, "memory").string(),
               job.checkpoint(step).string()})
              .code == 0);
}

TEST_CASE("swap: the console says what lives on drives") {
  job_files job;
  const auto sets = with(deep, {"train.steps=100000", "checkpoint.every=1", "checkpoint.keep=2"});
  program up(job.up(with(sets, swapped(job, floor_of(job, sets)))));
  const bool saved = until_saved(up, 1);
  INFO(up.err());
  REQUIRE(saved);
  REQUIRE(up.until_step(up.objects("step").back()["step"].get<int>() + 1));
  const auto at = "127.0.0.1:" + std::to_string(up.port());
  const auto shown = run({"swap", "show", "--json", "--connect", at});
  CHECK(shown.code == 0);
  const auto told = run({"console", "--connect", at, "-c", "swap", "-c", "stop enough"});
  CHECK(told.code == 0);
  CHECK(told.out.find("state on drive") != std::string::npos);
  CHECK(told.out.find("node0: ") != std::string::npos);
  CHECK(told.out.find("of the limit (") != std::string::npos);
  up.wait();
  // As the log has that step, too.
  const auto j = nlohmann::json::parse(shown.out);
  const auto& last = j["last_step"];
  REQUIRE(last["step"] >= 2);
  uint64_t written = 0;
  bool found = false;
  for (const auto& step : up.objects("step")) {
    if (step["step"] > last["step"]) continue;
    written += step["written_bytes"].get<uint64_t>();
    if (step["step"] != last["step"]) continue;
    found = true;
    for (const char* key : {"read_bytes", "written_bytes", "limit_ms", "bound_by"}) {
      CAPTURE(key);
      CHECK(last[key] == step[key]);
    }
    CHECK(last["of_limit"].get<double>() == doctest::Approx(step["of_limit"].get<double>()));
  }
  CHECK(found);
  CHECK(j["job_written_bytes"] == written);
  CHECK(last["read_bytes_s"] > 0);
  CHECK(j["ranks"][0]["read_bytes_s"] > 0);
  CHECK(j["ranks"][0]["process_peak_bytes"] > 0);
  CHECK(j["ranks"][0]["linked_chunks"] > 0);
}

TEST_CASE("swap: below its floor a job is refused, and nothing is written") {
  job_files job;
  const auto floor = floor_of(job, deep);
  program up(job.up(with(deep, swapped(job, floor - 1))));
  CHECK(up.wait() == 78);
  CHECK(up.err().find("swap.host_bytes") != std::string::npos);
  CHECK_FALSE(fs::exists(job / "swap"));
}

namespace {

/// A job of 6 steps on a drive that has room for one copy of its state and half of one more, and
/// the same job resumed for 6 more. Why not, if it cannot be.
std::optional<std::string> resume_in_its_files(const std::vector<std::string>& layout) {
  job_files job;
  const auto sets = with(with(deep, layout), {"model.dtype=bf16", "model.hidden=192"});
  const auto until = [](int steps) { return "train.steps=" + std::to_string(steps); };
  const auto in_memory = "job.output=" + (job / "memory").string();
  job.losses(with(sets, {in_memory, until(6)}));
  const auto truth = job.losses(with(sets, {in_memory, until(12)}));
  auto swaps = with(sets, {"job.output=" + (job / "disk/run").string(),
                           "swap.dir=" + (job / "disk/swap").string(),
                           "swap.host_bytes=" + std::to_string(floor_of(job, sets)),
                           "checkpoint.export_model=false",  // its room is another matter
                           layout == two_stages ? "swap.clip=hold" : "swap.clip=twice"});
  mounts all;
  const auto image = job / "image";
  const auto bytes = bytes_on_drive(job, swaps);
  REQUIRE(shell(fmt::format("truncate -s {1} '{0}' && mkfs.ext4 -q -F -b 4096 -m 0 '{0}'",
                            image.string(), bytes + bytes / 2 + (12 << 20)))
              .code == 0);
  if (const auto failed = all.mount_image(image, job / "disk")) return *failed;
  job.losses(with(swaps, {until(6)}));
  program refused(job.up(with(swaps, {until(12)})));
  CHECK(refused.wait() == 78);
  CHECK(refused.err().find("swap.consume=true") != std::string::npos);
  CHECK(fs::exists(job.checkpoint(6, "disk/run")));
  program up(job.up(with(swaps, {until(12), "swap.consume=true"})));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.losses() == truth);
  CHECK(up.err().find("is given up") != std::string::npos);
  CHECK_FALSE(fs::exists(job.checkpoint(6, "disk/run")));
  CHECK(run({"ckpt", "diff", job.checkpoint(12, "memory").string(),
             job.checkpoint(12, "disk/run").string()})
            .code == 0);
  return std::nullopt;
}

}  // namespace

TEST_CASE("swap: where the drive has room for one copy, a resume takes its checkpoint's files") {
  if (auto why = why_no_mounts()) {
    MESSAGE("SKIPPED: ", *why);
    return;
  }
  for (const auto& layout : {std::vector<std::string>{}, two_stages, two_replicas}) {
    CAPTURE((layout.empty() ? std::string() : layout.at(1)));
    if (const auto why = resume_in_its_files(layout)) {
      MESSAGE("SKIPPED: ", *why);
      return;
    }
  }
}

TEST_CASE(
    "swap: on two drives a job has the losses of one in memory, and checkpoints of all of it") {
  if (auto why = why_no_mounts()) {
    MESSAGE("SKIPPED: ", *why);
    return;
  }
  job_files job;
  mounts all;
  const auto image = job / "image";
  REQUIRE(shell(fmt::format("truncate -s 64M '{0}' && mkfs.ext4 -q -F -b 4096 -m 0 '{0}'",
                            image.string()))
              .code == 0);
  if (const auto failed = all.mount_image(image, job / "other")) {
    MESSAGE("SKIPPED: ", *failed);
    return;
  }
  const auto sets = with(deep, {"model.dtype=bf16", "checkpoint.every=4"});
  const auto swaps = with(sets, {fmt::format("swap.dir=[\"{}\", \"{}\"]", (job / "swap").string(),
                                             (job / "other/rank-{rank}").string()),
                                 fmt::format("swap.host_bytes={}", floor_of(job, sets))});
  const auto truth = job.losses(with(sets, {"job.output=" + (job / "memory").string()}));
  auto words = job.up(swaps);
  words.front() = "plan";
  words.insert(words.end(), {"--json", "--no-measure"});
  const auto planned = run(words);
  REQUIRE(planned.code == 0);
  const auto drives = nlohmann::json::parse(planned.out)["swap"]["drives"];
  REQUIRE(drives.size() == 2);
  for (const auto& drive : drives) CHECK(drive["disk_bytes"] > 0);
  program up(job.up(swaps));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.losses() == truth);
  for (const int64_t step : {4, 8, 12}) {
    const auto saved = job.checkpoint(step);
    CHECK(run({"ckpt", "verify", saved.string()}).code == 0);
    const auto same =
        run({"ckpt", "diff", job.checkpoint(step, "memory").string(), saved.string()});
    CHECK_MESSAGE(same.code == 0, same.out);
    CHECK(fs::exists(saved / "rank-00000.chunk-00002.shard"));  // of the first folder
    CHECK_FALSE(fs::exists(saved / "rank-00000.chunk-00003.shard"));
  }
  CHECK_FALSE(has_entry(job / "swap"));
  CHECK_FALSE(has_entry(job / "other/rank-0"));
}

TEST_CASE("swap: a killed node goes on from its checkpoint with the same losses") {
  for (const auto& layout : {std::vector<std::string>{}, two_stages, two_replicas}) {
    job_files job;
    const auto sets = with(with(deep_endless, layout), {"checkpoint.every=4"});
    program up(job.up(with(sets, swapped(job, floor_of(job, sets)))));
    REQUIRE(until_saved(up, 4));
    const watched node(node_named(up.port(), "node0"));
    REQUIRE(node.pid() > 0);
    node.signal(SIGKILL);
    REQUIRE(up.until_error_has("recovered in"));
    const int last = end_soon(up, job / "run/log.jsonl");
    CHECK(up.wait() == 0);
    INFO(up.err());
    CHECK(follows(up, numbers_in_memory(job, with(sets, {fmt::format("train.steps={}", last)}))));
    CHECK(up.objects("summary").at(0)["recoveries"] == 1);
    CHECK_FALSE(has_entry(job / "swap"));
  }
}
