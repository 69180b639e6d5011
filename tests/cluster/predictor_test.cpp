// What a run of real processes learns of its steps: with a checkpoint after each of them, as in the
// quickstart, these are what is usual. Without the predictor, whatever became of it, a run has the
// same losses; and of a process that gets slow the part is named, not who waits for it.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/perf/hw_reader.hpp"
#include "io/perf/kept_probes.hpp"
#include "io/perf/part_times.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/cluster/mounts.hpp"
#include "tests/cluster/slowed_process.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// Of two replicas; nothing is saved but at the end.
const std::vector<std::string> two_predicted =
    with(layout(2, 1), {"train.schedule=constant", "checkpoint.every=0", "predict.quiet_steps=8"});

finished ask_of_predicted(const program& up, std::vector<std::string> words) {
  return run(with(std::move(words), {"--connect", "127.0.0.1:" + std::to_string(up.port())}));
}

/// Each step that a run told of has the loss of an undisturbed one.
void check_undisturbed(const program& up, const std::vector<double>& truth) {
  for (const auto& step : up.objects("step")) {
    const size_t number = step["step"];
    CAPTURE(number);
    REQUIRE(number <= truth.size());
    CHECK(step["loss"].get<double>() == truth[number - 1]);
  }
}

int64_t last_step_told(const program& up) {
  int64_t last = 0;
  for (const auto& step : up.objects("step")) last = std::max<int64_t>(last, step["step"]);
  return last;
}

/// How many times longer what a node itself computes takes now than it did; 0: not known.
double slower_by(const json& findings, const std::string& node) {
  const std::set<std::string> computed{"forward", "backward", "norm", "update"};
  double expected_ms = 0, seen_ms = 0;
  for (const auto& p : findings["parts"])
    if (p["node"] == node && computed.contains(p["part"])) {
      expected_ms += p["expected_ms"].get<double>();
      seen_ms += p["seen_ms"].get<double>();
    }
  return expected_ms > 0 ? seen_ms / expected_ms : 0;
}

json expected_of_run(const program& up) {
  const auto said = ask_of_predicted(up, {"console", "-c", "expect", "--json"});
  return said.code == 0 ? json::parse(said.out) : json{{"parts", json::array()}};
}

/// Of this machine, as if they had been measured here: how long that takes is no matter of these
/// tests. What a process is to have in its surroundings, so that it finds them.
std::string kept_rates(const job_files& job) {
  cpu_set_t cores;
  REQUIRE(::sched_getaffinity(0, sizeof cores, &cores) == 0);
  troupe::io::perf::hw_profile rates;
  rates.gemm_gflop_s = rates.gemm_bf16_gflop_s = 50;
  rates.adamw_mparam_s = 500;
  rates.triad_gb_s = 10;
  rates.probe_threads = CPU_COUNT(&cores);
  const troupe::io::fact_store store{job / "cache/troupe"};
  troupe::io::perf::probe_key key;
  key.boot_id = troupe::io::perf::boot_id();
  key.threads = CPU_COUNT(&cores);
  key.full = key.host_only = true;
  troupe::io::perf::keep_probes(store, key, rates);
  return "export XDG_CACHE_HOME='" + (job / "cache").string() + "'";
}

}  // namespace

TEST_CASE("predictor: a job that saves each step says what it expects, and keeps what it learned") {
  job_files job;
  program up(job.up(with(endless, with(layout(2, 1), {"checkpoint.every=1"}))));
  REQUIRE(up.until_step(45));  // so many of one kind are needed, beside a save or held up by one
  json findings;
  const bool has_learned = eventually([&] {
    up.listen();
    findings = expected_of_run(up);
    return findings.contains("quiet_steps") &&
           findings["quiet_steps"] >= findings["quiet_steps_needed"] && !findings["parts"].empty();
  });
  CHECK_MESSAGE(has_learned, findings.dump());
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  const auto kept = troupe::io::perf::read_part_times(job / "run/part-times.jsonl");
  REQUIRE(kept);
  CHECK(kept->left_out == 0);
  const auto has = [&](const char* part, const char* node) {
    return std::any_of(kept->times.begin(), kept->times.end(),
                       [&](const auto& t) { return t.part == part && t.node == node; });
  };
  CHECK(has("backward", "node0"));
  CHECK(has("backward", "node1"));
  CHECK(has("step", ""));
}

TEST_CASE("predictor: the first run of new work says what its machines' probes let expect") {
  job_files job;
  const auto cache = kept_rates(job);
  const auto end_of = [&](const std::string& probe, const std::string& output) {
    auto up = std::make_unique<program>(
        job.up(with(layout(2, 1), {"predict.probe=" + probe, "train.steps=8", "train.batch=64",
                                   "job.output=" + (job / output).string()})),
        0, streams{}, 0, cache);
    INFO(up->err());
    CHECK(up->wait() == 0);
    REQUIRE(up->objects("summary").size() == 1);
    return up;
  };
  const std::string by_probes = "by the machines' probes";
  const auto off = end_of("off", "off");
  CHECK(off->err().find(by_probes) == std::string::npos);
  CHECK_FALSE(off->objects("summary")[0].contains("expected_step_ms"));
  const auto first = end_of("full", "first");
  CHECK(first->err().find(by_probes) != std::string::npos);
  CHECK(first->objects("summary")[0]["expected_step_ms"] > 0);
  CHECK(first->objects("summary")[0]["seen_step_ms"] > 0);
}

TEST_CASE("predictor: a run whose nodes others start says what steps took on the same machines") {
  job_files job;
  const auto cache = kept_rates(job);
  std::ofstream(job / "job.toml", std::ios::app)
      << "[[cluster.node]]\nname = \"a\"\n[[cluster.node]]\nname = \"b\"\n";
  const auto end_of = [&](const std::string& output, int steps) {
    auto up = std::make_unique<program>(
        job.up({"cluster.launch=external", free_port(), "parallel.data=2", "predict.probe=full",
                "checkpoint.every=0", "train.schedule=constant", "train.batch=64",
                fmt::format("train.steps={}", steps), "train.seq_len=128",
                "job.output=" + (job / output).string()}),
        0, streams{}, 0, cache);
    REQUIRE(up->until([&] { return up->port() != 0; }));
    std::vector<std::unique_ptr<program>> nodes;
    for (const auto* name : {"a", "b"})
      nodes.push_back(std::make_unique<program>(
          std::vector<std::string>{"node", "--join", fmt::format("127.0.0.1:{}", up->port()),
                                   "--name", name},
          0, streams{}, 0, cache));
    INFO(up->err());
    CHECK(up->wait() == 0);
    for (auto& node : nodes) CHECK(node->wait() == 0);
    return up;
  };
  const std::string by_past = "of 1 run of this work on these machines";
  const auto first = end_of("first", 24);
  CHECK(first->err().find(by_past) == std::string::npos);
  // Of a run of fewer than ten steps it is always said in time (probed_nodes.hpp).
  const auto next = end_of("next", 9);
  INFO(next->err());
  CHECK(next->err().find(by_past) != std::string::npos);
  REQUIRE(next->objects("summary").size() == 1);
  CHECK(next->objects("summary")[0]["expected_step_ms"] > 0);
}

TEST_CASE("predictor: killed at the console it costs the run its answers, and no bit of a loss") {
  job_files job;
  program up(job.up(with(two_predicted, {"train.steps=1000000"})));
  REQUIRE(up.until_step(4));
  CHECK(ask_of_predicted(up, {"status", "predictor"}).code == 0);
  ask_of_predicted(up, {"console", "-c", "kill predictor"});
  REQUIRE(eventually([&] { return ask_of_predicted(up, {"status", "predictor"}).code == 66; }));
  up.listen();
  REQUIRE(up.until_step(last_step_told(up) + 5));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  CHECK(up.err().find("recovery") == std::string::npos);
  check_undisturbed(
      up,
      job.losses(with(two_predicted,
                      {fmt::format("train.steps={}", last_step_told(up)), "predict.enabled=false",
                       fmt::format("job.output={}", (job / "without").string())})));
}

TEST_CASE("predictor: left out, it leaves nothing behind, and the losses are the same bits") {
  job_files job;
  const auto ten = with(two_predicted, {"train.steps=10"});
  const auto with_it = job.losses(ten);
  REQUIRE(with_it.size() == 10);
  const auto output = job / "without";
  CHECK(job.losses(with(ten, {"predict.enabled=false",
                              fmt::format("job.output={}", output.string())})) == with_it);
  CHECK(names_with(output, "part-times").empty());
}

TEST_CASE("predictor: what it kept was damaged: that is said, put aside and done without") {
  job_files job;
  REQUIRE(job.losses(with(two_predicted, {"train.steps=10"})).size() == 10);
  const auto store = job / "run/part-times.jsonl";
  std::ofstream(store) << "no line of this\nhas a sum\n";
  program up(job.up(with(two_predicted, {"train.steps=1000000"})));
  REQUIRE(up.until_step(14));
  const auto said = ask_of_predicted(up, {"status", "predictor"});
  CHECK(said.code == 0);
  CHECK_MESSAGE(said.out.find("part-times.jsonl.damaged") != std::string::npos, said.out);
  CHECK(fs::file_size(job / "run/part-times.jsonl.damaged") == 26);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  check_undisturbed(up, job.losses(with(two_predicted,
                                        {fmt::format("train.steps={}", last_step_told(up)),
                                         fmt::format("job.output={}", (job / "whole").string())})));
}

TEST_CASE("predictor: of a process that gets slow the part is named, and no replica that waits") {
  job_files job;
  // Steps that are long beside the turns in which a process is stopped.
  program up(
      job.up(with(two_predicted, {"train.steps=1000000", "train.batch=128", "model.hidden=128",
                                  "cluster.suspect_after_ms=60000", "cluster.dead_after_ms=120000",
                                  "recovery.stuck_after_s=0"})));
  REQUIRE(up.until_step(4));
  REQUIRE(eventually([&] { return slower_by(expected_of_run(up), "node1") > 0; }));
  // It gets a fiftieth of its time, and less where that is not beyond the noise of its first steps:
  // a machine that was busy while these were made has later ones that take a tenth of them.
  const auto node1 = node_named(up.port(), "node1");
  std::optional<slowed_process> victim;
  bool is_said = false;
  for (const int stopped_ms : {100, 400, 1600}) {
    if (is_said) break;
    victim.emplace(node1, std::chrono::milliseconds(stopped_ms));
    const auto begun = last_step_told(up);
    REQUIRE(up.until([&] {
      is_said = up.err().find("slow_part rank 1 (node1): slow: ") != std::string::npos;
      return is_said || last_step_told(up) >= begun + 24;  // three times what is looked at
    }));
  }
  REQUIRE(is_said);
  json seen;
  const auto is_named = [](const json& p) {
    return p["node"] == "node1" && p["part"] == "backward" && p["suspected"] == "slow";
  };
  const bool is_apart = eventually([&] {
    seen = expected_of_run(up);
    const auto& parts = seen["parts"];
    const double of_replica = slower_by(seen, "node0");
    // Waits that counted as work would make the replica as slow; a machine with other work makes
    // both slower, alike.
    return of_replica > 0 && slower_by(seen, "node1") > 6 * of_replica &&
           std::any_of(parts.begin(), parts.end(), is_named);
  });
  CHECK_MESSAGE(is_apart, seen.dump());
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE(
    "predictor: a machine that tells nothing of itself, neither DMI nor devices, is no less") {
  if (const auto why = why_no_mounts()) {
    MESSAGE("not tried: ", *why);
    return;
  }
  job_files job;
  const auto ten = with(two_predicted, {"train.steps=10"});
  const auto truth = job.losses(ten);
  mounts hiding;
  for (const char* told : {"/sys/class", "/sys/firmware", "/sys/devices/virtual"})
    if (const auto failed = hiding.mount("-t tmpfs -o ro none", told)) {
      MESSAGE("not tried: ", *failed);
      return;
    }
  CHECK(job.losses(with(ten, {fmt::format("job.output={}", (job / "bare").string())})) == truth);
  CHECK(run({"plan", (job / "job.toml").string()}).code == 0);
  program probe({"predict", "probe", "--json", "--folder", job.folder.path.string()}, 0, {}, 0,
                fmt::format("export XDG_CACHE_HOME='{}'", (job / "cache").string()));
  CHECK(probe.wait() == 0);
  INFO(probe.err());
  const auto profile = json::parse(probe.out());
  CHECK(profile.dump().find("\"cpus\"") != std::string::npos);
  CHECK(profile.dump().find("machine_vendor") == std::string::npos);
}

namespace {

/// A model of machines that a person made of their own table, of which a thread is the slower the
/// more their machine has.
std::string prior_of_fleet(const job_files& job) {
  std::ofstream(job / "fleet.toml") << "id = \"host\"\nlabels = [\"tokens_per_s\"]\n[[feature]]\n"
                                       "column = \"cpus\"\ngroup = \"cpu\"\nunit = \"1\"\n"
                                       "kind = \"log\"\n";
  std::ofstream rows(job / "fleet.csv");
  rows << "host,cpus,tokens_per_s\n";
  for (int i = 0; i < 60; ++i)
    rows << fmt::format("h{},{},{}\n", i, 1 + i, 1000 * std::sqrt(1 + i));
  rows.close();
  const auto folder = job.folder.path.string(), split = (job / "split.csv").string();
  for (const auto& words :
       {std::vector<std::string>{"split", "--seed", "1", "-o", split},
        std::vector<std::string>{"train", "--split", split, "--kind", "trunk", "--seed", "0", "-o",
                                 (job / "models").string()}}) {
    std::vector<std::string> all{"predict", words[0], "--data", folder, "--dataset", "fleet"};
    all.insert(all.end(), words.begin() + 1, words.end());
    const auto done = run(all);
    INFO(done.err);
    REQUIRE(done.code == 0);
  }
  return (job / "models/fleet.tpm").string();
}

}  // namespace

TEST_CASE("predictor: with a prior a run says what it expects, trains alike, and is replayed") {
  job_files job;
  const auto cache = kept_rates(job);
  const auto asks = with(
      two_predicted, {"predict.probe=full", fmt::format("predict.prior={}", prior_of_fleet(job))});
  // Of a run of fewer than ten steps it is always said in time (probed_nodes.hpp).
  program first(job.up(with(asks, {"train.steps=8", "train.batch=64",
                                   fmt::format("job.output={}", (job / "first").string())})),
                0, streams{}, 0, cache);
  const int ended = first.wait();
  INFO(first.err());
  REQUIRE(ended == 0);
  CHECK(first.err().find("by the machines' probes") != std::string::npos);
  REQUIRE(first.objects("summary").size() == 1);
  CHECK(first.objects("summary")[0]["expected_step_ms"] > 0);

  auto words = job.up(with(asks, {"train.steps=1000000", "train.batch=64"}));
  words.insert(words.end(), {"--record-actor", "predictor"});
  program up(words, 0, streams{}, 0, cache);
  REQUIRE(up.until_step(4));
  std::string said;
  const auto is_by_prior = [](const json& p) {
    return p["part"] == "forward" && p["by_prior"] == true;
  };
  const bool by_prior = eventually([&] {  // once it has heard of the machines
    const auto asked = ask_of_predicted(
        up, {"send", "predictor", "Predict",
             R"({"rank": 0, "profile": {"fields": [{"name": "cpus", "number": 48}]}})", "--json"});
    said = asked.out;
    if (asked.code != 0) return false;
    const auto parts = json::parse(said)["answer"]["parts"];
    return std::any_of(parts.begin(), parts.end(), is_by_prior);
  });
  CHECK_MESSAGE(by_prior, said);
  up.listen();
  up.signal(SIGINT);
  REQUIRE(up.wait() == 130);
  check_undisturbed(
      up,
      job.losses(with(two_predicted, {fmt::format("train.steps={}", last_step_told(up)),
                                      "predict.enabled=false", "train.batch=64",
                                      fmt::format("job.output={}", (job / "without").string())})));
  const auto again =
      run({"replay", (job / "run/actors-head.trace").string(), "--actor", "predictor", "--json"});
  INFO(again.err, again.out);
  REQUIRE(again.code == 0);
  CHECK(json::parse(again.out)["same"] == true);
}
