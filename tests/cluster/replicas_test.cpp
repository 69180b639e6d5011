// Fewer replicas: a job whose node does not come back goes on with those that are there, and with
// all of them once there are nodes again. Each loss is, bit by bit, that of a job that was stopped
// at the same checkpoint and goes on with as many replicas.
#include <signal.h>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

const std::vector<std::string> shrinks = with(
    layout(2, 1), {"checkpoint.every=3", "checkpoint.keep=0", "train.schedule=constant",
                   "train.micro_batch=2", "recovery.return_s=1",
                   "cluster.heartbeat_interval_ms=100", "cluster.suspect_after_ms=60000",
                   "cluster.dead_after_ms=120000"});

/// A process that nobody starts again.
program node_process(uint16_t port, const char* name) {
  return program({"node", "--join", fmt::format("127.0.0.1:{}", port), "--name", name});
}

/// Every step that was told, of one epoch.
std::map<int, double> losses_in(const program& up, int epoch) {
  std::map<int, double> out;
  for (const auto& step : up.objects("step"))
    if (step["epoch"] == epoch) out[step["step"]] = step["loss"];
  return out;
}

/// With so many replicas of two, as each line of log.jsonl says.
void have_replicas(const program& up, int epoch, int replicas) {
  for (const auto& step : up.objects("step"))
    if (step["epoch"] == epoch) CHECK(step.value("replicas", 2) == replicas);
}

/// The steps of an epoch against a run that begins from its checkpoint with so many replicas.
void are_as_resumed(const job_files& job, const std::map<int, double>& steps, int replicas) {
  REQUIRE_FALSE(steps.empty());
  const int from = steps.begin()->first - 1, until = steps.rbegin()->first;
  const auto sets = with(
      shrinks, {fmt::format("cluster.nodes={}", replicas),
                fmt::format("parallel.data={}", replicas), "checkpoint.every=0",
                fmt::format("train.steps={}", until),
                fmt::format("checkpoint.resume={}", job.checkpoint(from).string()),
                fmt::format("job.output={}/resumed-{}", job.folder.path.string(), from)});
  const auto truth = job.losses(sets);
  REQUIRE(truth.size() == steps.size());
  for (const auto& [step, loss] : steps) {
    CAPTURE(step);
    CHECK(loss == truth[static_cast<size_t>(step - from - 1)]);
  }
}

int incidents_with(const job_files& job, const std::string& done) {
  int n = 0;
  for (const auto& i : objects_in(job / "run/incidents.jsonl"))
    n += i["done"].get<std::string>().starts_with(done) ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("CRD-17: replicas: a node that is killed and stays away leaves all steps to the other") {
  job_files job;
  program up(job.up(with(with(shrinks, endless), {"cluster.launch=external", free_port()})));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  auto first = node_process(up.port(), "node0"), second = node_process(up.port(), "node1");
  REQUIRE(up.until_step(7));
  REQUIRE(until_saved(up, 3));  // which may take longer than the steps behind it
  second.signal(SIGKILL);
  REQUIRE(up.until_error_has("recovered in"));
  const int steps = end_soon(up, job / "run/log.jsonl");
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(first.wait() == 0);
  CHECK(up.err().find("node1 did not come back within 1 s: going on with 1 of 2 replicas") !=
        std::string::npos);
  have_replicas(up, 1, 2);
  have_replicas(up, 2, 1);
  const auto alone = losses_in(up, 2);
  REQUIRE_FALSE(alone.empty());
  CHECK(alone.rbegin()->first == steps);
  are_as_resumed(job, alone, 1);
  CHECK(only_object_in(job / "run/incidents.jsonl")["finding"] == "lost_host");
  CHECK(incidents_with(job, "going on with 1 of 2 replicas, from step-") == 1);
}

TEST_CASE("CRD-17: replicas: who comes back has its replica again, and no step is made again") {
  job_files job;
  program up(job.up(with(with(shrinks, endless), {"cluster.launch=external", free_port()})));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  auto first = node_process(up.port(), "node0"), second = node_process(up.port(), "node1");
  REQUIRE(up.until_step(7));
  REQUIRE(until_saved(up, 3));
  first.signal(SIGKILL);  // the other one has its ranks from then on
  REQUIRE(up.until([&] { return losses_in(up, 2).size() > 5; }));
  auto again = node_process(up.port(), "node0");
  REQUIRE(up.until([&] { return losses_in(up, 3).size() > 5; }));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  have_replicas(up, 2, 1);
  have_replicas(up, 3, 2);
  const auto alone = losses_in(up, 2), both = losses_in(up, 3);
  CHECK(alone.rbegin()->first + 1 == both.begin()->first);
  are_as_resumed(job, alone, 1);
  are_as_resumed(job, both, 2);
  CHECK(incidents_with(job, "going on with 1 of 2 replicas") == 1);
  CHECK(incidents_with(job, "going on with 2 of 2 replicas") == 1);
}

TEST_CASE("CRD-17: replicas: a drained node is done without and comes back, with the next head") {
  job_files job;
  program up(job.up(with(shrinks, endless)));
  REQUIRE(up.until_step(4));
  const auto say = [&](const std::string& words) {
    return run({"console", "-c", words, "--connect", fmt::format("127.0.0.1:{}", up.port())});
  };
  const auto drained = say("drain node1");
  CHECK(drained.code == 0);
  CHECK(drained.out.find("1 of 2 replicas go on without node1") != std::string::npos);
  REQUIRE(up.until([&] { return losses_in(up, 2).size() > 3; }));
  const watched head(head_of(up.pid()));
  REQUIRE(head.pid() > 0);
  head.signal(SIGKILL);
  REQUIRE(up.until([&] { return losses_in(up, 3).size() > 3; }));
  have_replicas(up, 3, 1);
  CHECK(node_named(up.port(), "node1") == -1);
  CHECK(say("admit node1").code == 0);
  REQUIRE(up.until([&] { return losses_in(up, 4).size() > 3; }));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  have_replicas(up, 2, 1);
  have_replicas(up, 4, 2);
  CHECK(up.err().find("parallel.data") == std::string::npos);  // nobody has changed it
  CHECK(losses_in(up, 1).rbegin()->first + 1 == losses_in(up, 2).begin()->first);
  CHECK(losses_in(up, 3).rbegin()->first + 1 == losses_in(up, 4).begin()->first);
  are_as_resumed(job, losses_in(up, 2), 1);
  are_as_resumed(job, losses_in(up, 3), 1);
  are_as_resumed(job, losses_in(up, 4), 2);
}
