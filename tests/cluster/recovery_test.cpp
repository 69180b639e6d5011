// A run that recovers: whatever its nodes die of, it ends with all steps, and each loss, whether a
// step was made once or again, is bit by bit that of a run that nobody disturbed.
#include <signal.h>

#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

/// So many that who is told of the seventh has half a second, on a busy machine, before the last.
constexpr int steps_of_recovery = 40;
const std::vector<std::string> recovers{"recovery.enabled=true",
                                        fmt::format("train.steps={}", steps_of_recovery),
                                        "checkpoint.every=3",
                                        "train.batch=32",
                                        "cluster.heartbeat_interval_ms=100",
                                        "cluster.suspect_after_ms=60000",
                                        "cluster.dead_after_ms=120000"};

/// Where silence is what is found; a process that gets no processor for less is not taken for dead.
const std::vector<std::string> hears_silence{"cluster.suspect_after_ms=1000",
                                             "cluster.dead_after_ms=10000"};

std::vector<std::string> with_beats(std::vector<std::string> sets, int signal) {
  return signal == SIGSTOP ? with(std::move(sets), hears_silence) : sets;
}

/// Every step that was told, first and again, against the undisturbed run; how many stand twice.
int repeated_of(const program& up, const undisturbed& truth) {
  std::map<int, int> times;
  int64_t epoch = 0;
  for (const auto& step : up.objects("step")) {
    const int number = step["step"];
    CHECK(step["loss"].get<double>() == truth.losses.at(static_cast<size_t>(number) - 1));
    CHECK(step["epoch"] >= epoch);
    epoch = step["epoch"];
    ++times[number];
  }
  CHECK(times.size() == truth.losses.size());
  int twice = 0;
  for (const auto& [number, n] : times) twice += n > 1 ? 1 : 0;
  return twice;
}

/// One line, of this fault.
void is_kept(const fs::path& file, const std::string& node, int signal, int again) {
  const auto i = only_object_in(file);
  CHECK(i["number"] == 1);
  CHECK(i["node"] == node);
  CHECK(i["finding"] == (signal == SIGKILL ? "dead_process" : "frozen_process"));
  CHECK(i["epoch_to"] == 2);
  CHECK(i["fell_after_step"].get<int>() - i["resumed_after_step"].get<int>() == again);
  CHECK(i["noticed_s"] <= i["named_s"]);
  CHECK(i["named_s"] <= i["back_s"]);
  if (signal == SIGSTOP) CHECK(i["noticed_s"] >= 10.0);  // dead_after_ms
}

void signal_node(const program& up, const char* node, int signal) {
  const pid_t victim = node_named(up.port(), node);
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, signal) == 0);
}

/// What the cluster decided about its faults, as the audit log has it.
std::vector<nlohmann::json> decisions_in(const fs::path& audit) {
  std::vector<nlohmann::json> out;
  for (const auto& j : objects_in(audit))
    if (j["command"] == "Recover")
      out.push_back(nlohmann::json::parse(j["message"].get<std::string>())["incident"]);
  return out;
}

void is_disturbed_and_whole(const std::vector<std::string>& ranks, const char* node, int signal) {
  job_files job;
  const auto sets = with_beats(with(recovers, ranks), signal);
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(job.up(sets));
  REQUIRE(up.until_step(7));
  signal_node(up, node, signal);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("recovery 1 begins (epoch 1 -> 2)") != std::string::npos);
  const int again = repeated_of(up, truth);
  CHECK(again >= 1);
  const auto summary = up.objects("summary").at(0);
  CHECK(summary["recoveries"] == 1);
  CHECK(summary["steps_repeated"] == again);
  CHECK(summary["effective_percent"] > 0);
  CHECK(summary["effective_percent"] < 100);
  is_kept(job / "run/incidents.jsonl", node, signal, again);
  judge j(truth);
  CHECK(j.look(job / "run/checkpoints", acknowledged_in(up.out())) == steps_of_recovery);
  CHECK(leftovers_in(job / "run/checkpoints").empty());
}

}  // namespace

TEST_CASE("recovery: a node of replicas that is killed costs no bit of a loss") {
  is_disturbed_and_whole(layout(2, 1), "node1", SIGKILL);
}

TEST_CASE("recovery: a node of a pipeline that is killed costs no bit of a loss") {
  is_disturbed_and_whole(layout(1, 2), "node0", SIGKILL);
}

TEST_CASE("recovery: a rule ends a job that would go on by default") {
  job_files job;
  const auto rule = R"(recovery.rule=[{finding="dead_process", do="end"}])";
  program up(job.up(with(with(recovers, layout(2, 1)), {rule, "train.steps=100000"})));
  REQUIRE(up.until_step(4));
  signal_node(up, "node1", SIGKILL);
  CHECK(up.wait() == 69);
  const auto decided = decisions_in(job / "run/audit.jsonl");
  REQUIRE(decided.size() == 1);
  CHECK(decided[0]["action"] == "end");
  CHECK(decided[0]["rule"] == 1);
}

TEST_CASE("recovery: once a rule's budget is used up the next rule of the finding is applied") {
  job_files job;
  const auto rules = R"(recovery.rule=[{finding="dead_process", do="restart", times=1},)"
                     R"({finding="dead_process", do="end"}])";
  program up(job.up(with(with(recovers, layout(2, 1)), {rules, "train.steps=100000"})));
  REQUIRE(up.until_step(4));
  const pid_t first = node_named(up.port(), "node1");
  REQUIRE(first > 0);
  REQUIRE(kill(first, SIGKILL) == 0);
  REQUIRE(up.until_step(40));
  const pid_t second = node_named(up.port(), "node1");
  REQUIRE(second > 0);
  REQUIRE(second != first);
  REQUIRE(kill(second, SIGKILL) == 0);
  CHECK(up.wait() == 69);
  const auto decided = decisions_in(job / "run/audit.jsonl");
  REQUIRE(decided.size() == 2);
  CHECK(decided[0]["action"] == "restart");
  CHECK(decided[0]["rule"] == 1);
  CHECK(decided[1]["action"] == "end");
  CHECK(decided[1]["rule"] == 2);
}

TEST_CASE("recovery: a node that stands still for longer than the dead time is replaced") {
  is_disturbed_and_whole(layout(2, 2), "node3", SIGSTOP);
}

TEST_CASE("recovery: all nodes that are killed at once come again") {
  job_files job;
  const auto sets = with(recovers, layout(2, 1));
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(job.up(sets));
  REQUIRE(up.until_step(7));
  for (const char* node : {"node0", "node1"}) signal_node(up, node, SIGKILL);
  CHECK(up.wait() == 0);
  INFO(up.err());
  repeated_of(up, truth);
  CHECK(up.objects("summary").at(0)["recoveries"] >= 1);
}

namespace {

/// In the middle of a file.
void flip_a_bit(const fs::path& file) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(file) / 2);
  f.seekg(middle);
  const auto byte = static_cast<char>(f.get());
  f.seekp(middle);
  f.put(static_cast<char>(byte ^ 1));
  REQUIRE(f);
}

}  // namespace

TEST_CASE("recovery: a damaged checkpoint is left for the one before it, and costs no bit") {
  job_files job;
  const auto sets = with(with(recovers, layout(2, 1)), {"checkpoint.keep=99"});
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(job.up(sets));
  REQUIRE(up.until_step(7));
  const auto said = [&](const std::vector<std::string>& words) {
    return run(with(words, {"--connect", "127.0.0.1:" + std::to_string(up.port())})).out;
  };
  said({"console", "-c", "pause"});
  const auto folder = job / "run/checkpoints";
  REQUIRE(eventually([&] {
    return said({"status", "run"}).find("paused") != std::string::npos &&
           leftovers_in(folder).empty();
  }));
  const auto saved = complete_in(folder);
  REQUIRE(saved.size() >= 2);
  const auto damaged = job.checkpoint(saved.back());
  flip_a_bit(damaged / "rank-00000.shard");
  signal_node(up, "node1", SIGKILL);
  REQUIRE(eventually([&] { return !fs::exists(damaged); }));
  said({"console", "-c", "resume"});
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(repeated_of(up, truth) >= 3);
  const auto done = only_object_in(job / "run/incidents.jsonl")["done"].get<std::string>();
  CHECK(done.find(fmt::format("step-{:08}", saved[saved.size() - 2])) != std::string::npos);
  judge j(truth);
  CHECK(j.look(folder, acknowledged_in(up.out())) == steps_of_recovery);
  CHECK(leftovers_in(folder).empty());
}

TEST_CASE("recovery: a spare stands in for a killed node, and its process is the next spare") {
  job_files job;
  const auto sets = with(recovers, layout(2, 1));
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(job.up(with(sets, {"cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(up.until_step(7));
  signal_node(up, "node1", SIGKILL);
  REQUIRE(up.until_error_has("spare node1 joined"));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("recovery 1 (epoch 1 -> 2): spare node2 for node1") != std::string::npos);
  const int again = repeated_of(up, truth);
  const auto i = only_object_in(job / "run/incidents.jsonl");
  CHECK(i["node"] == "node1");
  CHECK(i["done"].get<std::string>().find("spare node2 for node1") == 0);
  CHECK(i["fell_after_step"].get<int>() - i["resumed_after_step"].get<int>() == again);
  judge j(truth);
  CHECK(j.look(job / "run/checkpoints", acknowledged_in(up.out())) == steps_of_recovery);
}

TEST_CASE("recovery: a node that is drained leaves between two steps, a spare has its ranks") {
  job_files job;
  const auto sets = with(recovers, layout(1, 2));
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(job.up(with(sets, {"cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(up.until_step(7));
  const auto address = fmt::format("127.0.0.1:{}", up.port());
  CHECK(run({"console", "-c", "drain node0", "--connect", address}).code == 0);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(repeated_of(up, truth) == 0);
  CHECK(up.objects("summary").at(0)["recoveries"] == 1);
  const auto i = only_object_in(job / "run/incidents.jsonl");
  CHECK(i["finding"] == "drained");
  CHECK(i["done"].get<std::string>().find("spare node2 for node0") == 0);
  CHECK(up.err().find("node node0 joined") == up.err().rfind("node node0 joined"));
}

namespace {

/// No checkpoint is on the disk before the end: what there is to go back to is in memory.
void goes_on_from_memory(const std::vector<std::string>& ranks, const char* node, int signal,
                         const char* keeper, const std::vector<std::string>& more = {}) {
  job_files job;
  const auto sets =
      with(with(with_beats(with(recovers, ranks), signal), {"checkpoint.every=1000"}), more);
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(job.up(with(sets, {"checkpoint.memory.every=1"})));
  REQUIRE(up.until_step(7));
  signal_node(up, node, signal);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("copies in memory after each step: ") != std::string::npos);
  const int again = repeated_of(up, truth);
  CHECK(again <= 1);
  is_kept(job / "run/incidents.jsonl", node, signal, again);
  const auto incident = nlohmann::json::parse(text_of(job / "run/incidents.jsonl"));
  CHECK(incident["done"].get<std::string>().find(fmt::format("from the memory of {} (", keeper)) !=
        std::string::npos);
  judge j(truth);
  CHECK(j.look(job / "run/checkpoints", acknowledged_in(up.out())) == steps_of_recovery);
  CHECK(leftovers_in(job / "run/checkpoints").empty());
}

}  // namespace

TEST_CASE("copies: replicas go on from a keeper's memory, with at most one step made again") {
  goes_on_from_memory(layout(2, 1), "node1", SIGKILL, "node0");
}

TEST_CASE("copies: a spare that stands in fetches the lost share from its keeper") {
  job_files job;
  const auto sets = with(with(recovers, layout(2, 1)), {"checkpoint.every=1000"});
  const auto truth = train_undisturbed(job, with(sets, {"checkpoint.every=1"}));
  program up(job.up(with(sets, {"checkpoint.memory.every=1", "cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(up.until_step(7));
  signal_node(up, "node1", SIGKILL);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(repeated_of(up, truth) <= 1);
  const auto done = only_object_in(job / "run/incidents.jsonl")["done"].get<std::string>();
  CHECK(done.starts_with("spare node2 for node1, from the memory of node0 ("));
}

TEST_CASE("copies: so does a pipeline, with the tied table of its last stage") {
  goes_on_from_memory(layout(1, 2), "node1", SIGKILL, "node0", {"model.family=\"gpt2\""});
}

TEST_CASE("copies: so do four ranks when one stands still, in bf16 rounded by chance") {
  goes_on_from_memory(layout(2, 2), "node2", SIGSTOP, "node1",
                      {"model.dtype=\"bf16\"", "train.stochastic_rounding=true"});
}
