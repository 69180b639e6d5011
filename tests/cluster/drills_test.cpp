// Drills ([[inject]]): a job in which each kind of fault is made on purpose goes on, and ends with
// the losses of one that nobody disturbed, bit by bit.
#include <csignal>
#include <set>

#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

const std::vector<std::string> drilled{
    "checkpoint.every=3", "train.batch=32", "cluster.heartbeat_interval_ms=100",
    "cluster.suspect_after_ms=60000", "cluster.dead_after_ms=120000"};

std::vector<std::string> allowed(std::vector<std::string> words) {
  words.emplace_back("--allow-injection");
  return words;
}

std::string drill(const std::string& text) {
  return "inject=[{" + text + "}]";
}

/// A drill of step 7.
std::string in_step_7(const char* who, const char* what) {
  return fmt::format(R"({{who="{}",from_step=7,{}}})", who, what);
}

/// What a run with drills comes to.
struct drilled_end {
  int64_t recoveries = 0;
  std::string finding;  ///< of its first incident
  std::string node = {};
  int resumed_after = 0;  ///< the step that it went back to
  double noticed_s = 0;
  std::string said = {};
};

/// Trains with drills to the end, in which no step has another loss than undisturbed. The last one
/// is told of at the start, and once more when it acts. `own`: settings that the truth has not.
drilled_end end_of(const std::string& drills, int last, const std::vector<std::string>& ranks,
                   const std::vector<std::string>& more = {},
                   const std::vector<std::string>& own = {}) {
  job_files job;
  const auto sets = with(with(drilled, ranks), more);
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(allowed(job.up(with(with(sets, own), {"inject=[" + drills + "]"}))));
  const int code = up.wait();
  INFO(up.err());
  REQUIRE(code == 0);
  std::set<int> made;
  for (const auto& step : up.objects("step")) {
    const int number = step["step"];
    CHECK(step["loss"].get<double>() == truth.losses.at(static_cast<size_t>(number) - 1));
    made.insert(number);
  }
  CHECK(made.size() == truth.losses.size());
  const auto acts = fmt::format("warning: drill {} acts in ", last);
  CHECK(up.err().find(fmt::format("warning: drill {}, ", last)) < up.err().find(acts));
  CHECK(up.err().find(acts) == up.err().rfind(acts));
  judge j(truth);
  CHECK(j.look(job / "run/checkpoints", acknowledged_in(up.out())) == 20);
  drilled_end out{up.objects("summary").at(0)["recoveries"].get<int64_t>(), ""};
  out.said = up.err();
  const auto incidents = objects_in(job / "run/incidents.jsonl");
  if (incidents.empty()) return out;
  out.finding = incidents.front()["finding"];
  out.node = incidents.front()["node"];
  out.resumed_after = incidents.front()["resumed_after_step"];
  out.noticed_s = incidents.front()["noticed_s"];
  return out;
}

}  // namespace

TEST_CASE("drills: a job that has any is refused without the flag, and nothing is written") {
  job_files job;
  const auto sets = with(layout(2, 1), {drill(R"(who="rank 1",what="fail")")});
  const auto refused = run(job.up(sets));
  CHECK(refused.code == 78);
  CHECK(refused.err.find("--set: inject: the job has 1 drill: faults that it makes itself\n"
                         "hint: start it with --allow-injection, or leave [[inject]] out") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(job / "run"));
  auto check = job.up(sets);
  check.front() = "config";
  check.insert(check.begin() + 1, "check");
  const auto checked = run(check);
  CHECK(checked.code == 0);
  CHECK(checked.err.find("drill 1, step 1: the process of rank 1 is killed (`troupe up` wants "
                         "--allow-injection)") != std::string::npos);
  check.emplace_back("--set");
  check.push_back(drill(R"(who="nod1",what="fail")"));
  const auto wrong = run(check);
  CHECK(wrong.code == 78);
  CHECK(wrong.err.find("did you mean \"node1\"?") != std::string::npos);
}

TEST_CASE("drills: a node that others started takes no part without the flag, either") {
  job_files job;
  const auto port = free_port();
  program up(allowed(job.up(with(
      layout(2, 1), {"cluster.launch=external", port, drill(R"(who="rank 1",what="fail")")}))));
  REQUIRE(up.until_error_has("waiting for 2 nodes"));
  CHECK(up.err().find("--name NAME --allow-injection") != std::string::npos);
  const auto node =
      run({"node", "--join", "127.0.0.1:" + std::to_string(up.port()), "--name", "node0"});
  CHECK(node.code == 78);
  CHECK(node.err.find("start it with --allow-injection") != std::string::npos);
  up.signal(SIGINT);
  up.wait();
}

TEST_CASE("drills: a process that is killed is replaced, and is not killed again") {
  const auto end = end_of(in_step_7("rank 1", R"(what="fail")"), 1, layout(2, 1));
  CHECK(end.recoveries == 1);
  CHECK(end.finding == "dead_process");
}

TEST_CASE("drills: one that comes every few steps goes on coming after a recovery") {
  job_files job;
  program up(allowed(job.up(
      with(with(drilled, layout(1, 2)),
           {"checkpoint.every=1", drill(R"(who="node1",what="fail",from_step=5,every=6)")}))));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.objects("summary").at(0)["recoveries"] == 3);
  for (const auto* step : {"5", "11", "17"})
    CHECK(up.err().find(fmt::format("acts in step {}: the process of node1 is killed\n", step)) !=
          std::string::npos);
}

TEST_CASE("drills: a device that hangs is named, and its node replaced") {
  // Slow steps, so that the monitor sees one end: before that it would wait for a minute.
  const auto slow = std::string(R"({who="rank 0",what="slow",every=1,factor=30},)");
  const auto end = end_of(slow + in_step_7("rank 1", R"(what="hang")"), 2, layout(2, 1),
                          {"health.stuck_after_s=2", "recovery.stuck_after_s=4"});
  CHECK(end.recoveries >= 1);
  CHECK(end.finding == "stuck_device");
  CHECK(end.noticed_s >= 3);  // four in which it stands, less what the monitor itself stood still
}

TEST_CASE("drills: a bit that turns is found by the replicas before a step is made with it") {
  const auto end = end_of(in_step_7("rank 2", R"(what="wrong_bit")"), 1, layout(3, 1),
                          {"train.batch=12", "health.digest_every=1"});
  CHECK(end.recoveries == 1);
  CHECK(end.finding == "wrong_bits");
}

/// So that the checkpoint of step 3 is written before step 7 ends, whatever else the machine does.
const std::string each_step_slow = R"({who="rank 0",what="slow",every=1,factor=60},)";

TEST_CASE("drills: who computes wrongly is named, and no younger state is gone back to") {
  // Step 4 computes right from the state of step 3, which is saved and held, though not the newest.
  const auto wrong = in_step_7("rank 2", R"(what="wrong_product")");
  const auto end = end_of(each_step_slow + wrong, 2, layout(3, 1),
                          {"train.batch=12", "health.recheck_every=4"}, {"checkpoint.keep=1"});
  CHECK(end.recoveries == 1);
  CHECK(end.finding == "wrong_bits");
  CHECK(end.node == "node2");
  INFO(end.said);
  CHECK(end.resumed_after == 3);
}

TEST_CASE("drills: fewer than three replicas hold what they compute against themselves") {
  const auto wrong = each_step_slow + in_step_7("rank 1", R"(what="wrong_product")");
  for (const auto& ranks : {layout(2, 1), layout(1, 2)}) {
    const auto end = end_of(wrong, 2, ranks, {"health.recheck_every=4"});
    CHECK(end.recoveries == 1);
    CHECK(end.finding == "wrong_bits");
    CHECK(end.node == "node1");
    CHECK(end.resumed_after == 3);
  }
}

TEST_CASE("drills: a node whose messages vanish is found by its silence") {
  const auto end = end_of(in_step_7("node1", R"(what="drop")"), 1, layout(2, 1),
                          {"cluster.suspect_after_ms=1000", "cluster.dead_after_ms=10000"});
  CHECK(end.recoveries >= 1);
}

TEST_CASE("drills: a rank or a disk that is slow costs time and no bit") {
  const auto slow = in_step_7("rank 1", R"(what="slow",every=1,factor=4)");
  CHECK(end_of(slow, 1, layout(1, 2)).recoveries == 0);
  const auto slow_disk = in_step_7("node1", R"(what="disk_slow",every=1,factor=5)");
  CHECK(end_of(slow_disk, 1, layout(2, 1)).recoveries == 0);
}
