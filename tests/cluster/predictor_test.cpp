// What a run of real processes learns of its steps: with a checkpoint after each of them, as in the
// quickstart, these are what is usual.
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "io/perf/part_times.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

TEST_CASE("predictor: a job that saves each step says what it expects, and keeps what it learned") {
  job_files job;
  program up(job.up(with(endless, with(layout(2, 1), {"checkpoint.every=1"}))));
  REQUIRE(up.until_step(160));  // 45 of one kind, beside a save or held up by one
  const auto said = run(
      {"console", "-c", "expect", "--json", "--connect", "127.0.0.1:" + std::to_string(up.port())});
  INFO(said.out);
  CHECK(said.code == 0);
  const auto findings = json::parse(said.out);
  CHECK(findings["quiet_steps"] >= findings["quiet_steps_needed"]);
  CHECK_FALSE(findings["parts"].empty());
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
  const auto cache = "export XDG_CACHE_HOME='" + (job / "cache").string() + "'";
  const auto end_of = [&](const std::vector<std::string>& sets) {
    auto up = std::make_unique<program>(job.up(with(layout(2, 1), sets)), 0, streams{}, 0, cache);
    INFO(up->err());
    CHECK(up->wait() == 0);
    REQUIRE(up->objects("summary").size() == 1);
    return up;
  };
  const std::string by_probes = "by the machines' probes";
  const auto off = end_of({"predict.probe=off", "train.steps=5", "model.layers=4"});
  CHECK(off->err().find(by_probes) == std::string::npos);
  CHECK_FALSE(off->objects("summary")[0].contains("expected_step_ms"));
  const auto first = end_of({"predict.probe=full", "train.steps=5"});
  CHECK(first->err().find(by_probes) != std::string::npos);
  CHECK(first->objects("summary")[0]["expected_step_ms"] > 0);
  CHECK(first->objects("summary")[0]["seen_step_ms"] > 0);
  // The next start pays nothing, on this machine: what was measured is kept.
  const auto kept = [&] {
    for (const auto& e : fs::recursive_directory_iterator(job / "cache"))
      if (e.path().filename() == "host-probes.json") return fs::last_write_time(e.path());
    return fs::file_time_type::min();
  };
  const auto written = kept();
  CHECK(written != fs::file_time_type::min());
  const auto again =
      end_of({"predict.probe=full", "train.steps=6", "job.output=" + (job / "again").string()});
  CHECK(again->err().find(by_probes) != std::string::npos);
  CHECK(kept() == written);
}
