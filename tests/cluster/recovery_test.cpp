// A run that recovers: whatever its nodes die of, it ends with all steps, and each loss, whether a
// step was made once or again, is bit by bit that of a run that nobody disturbed.
#include <signal.h>

#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

/// Whoever does something to it may come late, on a busy machine: it ends when it is told to.
const std::vector<std::string> recovers =
    with(endless, {"recovery.enabled=true", "checkpoint.every=3", "train.batch=32",
                   "cluster.heartbeat_interval_ms=100", "cluster.suspect_after_ms=60000",
                   "cluster.dead_after_ms=120000"});

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
    REQUIRE(number <= std::ssize(truth.losses));
    CHECK(step["loss"].get<double>() == truth.losses[static_cast<size_t>(number) - 1]);
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
  const watched victim(node_named(up.port(), node));
  REQUIRE(victim.pid() > 0);
  victim.signal(signal);
}

/// A checkpoint, and steps behind it that are lost with a node; its step.
int save_and_go_on(program& up) {
  REQUIRE(ordered(up, "checkpoint now").code == 0);
  REQUIRE(until_saved(up, 1));
  int saved = 0;
  for (const auto& step : up.objects("step")) saved = std::max(saved, step.value("saved_step", 0));
  REQUIRE(up.until_step(saved + 3));
  return saved;
}

/// A job that a fault befell goes on and comes to its end; that of a run that nobody disturbed.
undisturbed end_of_recovered(program& up, const job_files& job,
                             const std::vector<std::string>& sets) {
  REQUIRE(up.until_error_has("recovered in"));
  const int last = end_soon(up, job / "run/log.jsonl");
  const int code = up.wait();
  INFO(up.err());
  REQUIRE(code == 0);
  return train_undisturbed(job,
                           with(sets, {"checkpoint.every=1", fmt::format("train.steps={}", last)}));
}

/// What is left of it on the disk is the undisturbed run's, to its last step.
void is_saved_whole(const program& up, const job_files& job, const undisturbed& truth) {
  const auto folder = job / "run/checkpoints";
  judge j(truth);
  CHECK(j.look(folder, acknowledged_in(up.out())) == std::ssize(truth.losses));
  CHECK(leftovers_in(folder).empty());
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
  const auto sets = with_beats(with(with(recovers, ranks), {"checkpoint.every=1000000"}), signal);
  program up(job.up(sets));
  REQUIRE(up.until_step(2));
  const int saved = save_and_go_on(up);
  signal_node(up, node, signal);
  const auto truth = end_of_recovered(up, job, sets);
  INFO(up.err());
  CHECK(up.err().find("recovery 1 begins (epoch 1 -> 2)") != std::string::npos);
  const int again = repeated_of(up, truth);
  CHECK(again >= 3);
  const auto summary = up.objects("summary").at(0);
  CHECK(summary["recoveries"] == 1);
  CHECK(summary["steps_repeated"] == again);
  CHECK(summary["effective_percent"] > 0);
  CHECK(summary["effective_percent"] < 100);
  is_kept(job / "run/incidents.jsonl", node, signal, again);
  CHECK(only_object_in(job / "run/incidents.jsonl")["resumed_after_step"] == saved);
  is_saved_whole(up, job, truth);
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
  program up(job.up(with(with(recovers, layout(2, 1)), {rule})));
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
  program up(job.up(with(with(recovers, layout(2, 1)), {rules})));
  REQUIRE(until_saved(up, 3));
  const watched first(node_named(up.port(), "node1"));
  REQUIRE(first.pid() > 0);
  first.signal(SIGKILL);
  REQUIRE(up.until_error_has("recovered in"));
  const auto made = logged_steps(job / "run/log.jsonl").size();
  REQUIRE(up.until([&] { return logged_steps(job / "run/log.jsonl").size() > made; }));
  const watched second(node_named(up.port(), "node1"));
  REQUIRE(second.pid() > 0);
  REQUIRE(first.gone());
  second.signal(SIGKILL);
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
  program up(job.up(sets));
  REQUIRE(until_saved(up, 6));
  std::vector<watched> nodes;
  for (const char* node : {"node0", "node1"}) nodes.emplace_back(node_named(up.port(), node));
  for (const auto& node : nodes) {
    REQUIRE(node.pid() > 0);
    node.signal(SIGKILL);
  }
  const auto truth = end_of_recovered(up, job, sets);
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
  program up(job.up(sets));
  const auto folder = job / "run/checkpoints";
  REQUIRE(until_saved(up, 3));
  REQUIRE(up.until([&] { return complete_in(folder).size() >= 2; }));
  REQUIRE(ordered(up, "pause").code == 0);
  REQUIRE(up.until_error_has("paused after step"));
  REQUIRE(eventually([&] { return leftovers_in(folder).empty(); }));
  const auto saved = complete_in(folder);
  REQUIRE(saved.size() >= 2);
  const auto damaged = job.checkpoint(saved.back());
  flip_a_bit(damaged / "rank-00000.shard");
  signal_node(up, "node1", SIGKILL);
  REQUIRE(eventually([&] { return !fs::exists(damaged); }));
  REQUIRE(up.until_error_has("recovered in"));
  REQUIRE(ordered(up, "resume").code == 0);
  const auto truth = end_of_recovered(up, job, sets);
  INFO(up.err());
  CHECK(repeated_of(up, truth) >= 3);
  const auto done = only_object_in(job / "run/incidents.jsonl")["done"].get<std::string>();
  CHECK(done.find(fmt::format("step-{:08}", saved[saved.size() - 2])) != std::string::npos);
  is_saved_whole(up, job, truth);
}

TEST_CASE("recovery: a spare stands in for a killed node, and its process is the next spare") {
  job_files job;
  const auto sets = with(recovers, layout(2, 1));
  program up(job.up(with(sets, {"cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(until_saved(up, 6));
  signal_node(up, "node1", SIGKILL);
  REQUIRE(up.until_error_has("spare node1 joined"));
  const auto truth = end_of_recovered(up, job, sets);
  INFO(up.err());
  CHECK(up.err().find("recovery 1 (epoch 1 -> 2): spare node2 for node1") != std::string::npos);
  const int again = repeated_of(up, truth);
  const auto i = only_object_in(job / "run/incidents.jsonl");
  CHECK(i["node"] == "node1");
  CHECK(i["done"].get<std::string>().find("spare node2 for node1") == 0);
  CHECK(i["fell_after_step"].get<int>() - i["resumed_after_step"].get<int>() == again);
  is_saved_whole(up, job, truth);
}

TEST_CASE("recovery: a node that is drained leaves between two steps, a spare has its ranks") {
  job_files job;
  const auto sets = with(recovers, layout(1, 2));
  program up(job.up(with(sets, {"cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(up.until_step(7));
  CHECK(ordered(up, "drain node0").code == 0);
  const auto truth = end_of_recovered(up, job, sets);
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
      with(with(with_beats(with(recovers, ranks), signal), {"checkpoint.every=1000000"}), more);
  program up(job.up(with(sets, {"checkpoint.memory.every=1"})));
  REQUIRE(up.until_step(7));
  signal_node(up, node, signal);
  const auto truth = end_of_recovered(up, job, sets);
  INFO(up.err());
  CHECK(up.err().find("copies in memory after each step: ") != std::string::npos);
  const int again = repeated_of(up, truth);
  CHECK(again <= 1);
  is_kept(job / "run/incidents.jsonl", node, signal, again);
  const auto incident = nlohmann::json::parse(text_of(job / "run/incidents.jsonl"));
  CHECK(incident["done"].get<std::string>().find(fmt::format("from the memory of {} (", keeper)) !=
        std::string::npos);
  is_saved_whole(up, job, truth);
}

}  // namespace

TEST_CASE("copies: replicas go on from a keeper's memory, with at most one step made again") {
  goes_on_from_memory(layout(2, 1), "node1", SIGKILL, "node0");
}

TEST_CASE("copies: a spare that stands in fetches the lost share from its keeper") {
  job_files job;
  const auto sets = with(with(recovers, layout(2, 1)), {"checkpoint.every=1000000"});
  program up(job.up(with(sets, {"checkpoint.memory.every=1", "cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(up.until_step(7));
  signal_node(up, "node1", SIGKILL);
  const auto truth = end_of_recovered(up, job, sets);
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
