// What a run of real processes learns of its steps: with a checkpoint after each of them, as in the
// quickstart, these are what is usual.
#include <csignal>

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
