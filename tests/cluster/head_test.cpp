// A head that is killed: its launcher starts another one, which goes on from the newest checkpoint
// of this launch with the losses of a run that nobody disturbed.
#include <signal.h>

#include <chrono>
#include <random>

#include "tests/cluster/survivors.hpp"
#include "tests/cluster/swapped_jobs.hpp"

using namespace troupe::cluster_test;

namespace {

/// Whoever kills may come late, on a busy machine: it ends when it is told to.
const std::vector<std::string> quick =
    with(endless, {"checkpoint.every=3", "train.batch=16", "cluster.heartbeat_interval_ms=100",
                   "cluster.suspect_after_ms=1000", "cluster.dead_after_ms=10000"});

std::vector<std::string> sets() {
  return with(quick, layout(2, 1));
}

/// With copies in memory after each step, and a checkpoint now and then.
std::vector<std::string> sets_of_copies() {
  return with(sets(), {"checkpoint.memory.every=1", "checkpoint.every=40"});
}

void kill_head(const program& up) {
  const watched head(head_of(up.pid()));
  REQUIRE(head.pid() > 0);
  head.signal(SIGKILL);
  REQUIRE(head.gone());
}

void signal_node(const program& up, const char* node, int signal) {
  const watched victim(node_named(up.port(), node));
  REQUIRE(victim.pid() > 0);
  victim.signal(signal);
}

std::string to_step(int step) {
  return fmt::format("train.steps={}", step);
}

/// Of the last step that a job's log has; 0 before.
int64_t logged_epoch(const job_files& job) {
  const auto steps = logged_steps(job / "run/log.jsonl");
  return steps.empty() ? 0 : steps.back()["epoch"].get<int64_t>();
}

/// Until a step of another epoch than that is made: whoever was lost is back.
bool until_epoch_behind(program& up, const job_files& job, int64_t epoch) {
  return up.until([&] { return logged_epoch(job) > epoch; });
}

/// Once it has gone on, it comes to its end, which must be good; the number of steps.
int end_of_recovered(program& up, const job_files& job) {
  REQUIRE(up.until_error_has("recovered in"));
  const int steps = end_soon(up, job / "run/log.jsonl");
  const int code = up.wait();
  INFO(up.err());
  REQUIRE(code == 0);
  return steps;
}

/// In an output of their own.
std::vector<double> undisturbed_losses(const job_files& job, const std::vector<std::string>& sets,
                                       int steps) {
  return job.losses(with(sets, {to_step(steps), "job.output=" + (job / "undisturbed").string()}));
}

/// The moment of a kill, not when something is there: nobody is waited for.
void spin(std::chrono::microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) continue;
}

/// How many lines of the log are of this step.
size_t times_made(const program& up, int step) {
  size_t n = 0;
  for (const auto& s : up.objects("step")) n += s["step"] == step ? 1 : 0;
  return n;
}

/// The step behind which the last head began; 0: it began anew.
int resumed_step(const program& up) {
  constexpr std::string_view words = "resuming after step ";
  const auto at = up.err().rfind(words);
  return at == std::string::npos ? 0 : std::stoi(up.err().substr(at + words.size()));
}

/// Every step is there, each time it was made with the loss of the undisturbed run; but for those
/// that a killed head had saved and not told of yet.
void is_whole(const program& up, const std::vector<double>& truth) {
  std::set<int> made;
  for (const auto& step : up.objects("step")) {
    const int number = step["step"];
    CHECK(step["loss"].get<double>() == truth.at(static_cast<size_t>(number) - 1));
    made.insert(number);
  }
  for (int step = 1; step <= std::ssize(truth); ++step)
    CHECK((made.contains(step) || step <= resumed_step(up)));
  CHECK(std::ssize(made) >= std::ssize(truth) - resumed_step(up));
}

size_t heads_lost(const program& up) {
  constexpr std::string_view words =
      "warning: the head was killed by signal 9 (Killed): it is started again";
  size_t n = 0;
  for (auto at = up.err().find(words); at != std::string::npos; at = up.err().find(words, at + 1))
    ++n;
  return n;
}

}  // namespace

TEST_CASE("head: killed, it is started again, and no loss has another bit") {
  job_files job;
  program up(job.up(sets()));
  REQUIRE(until_saved(up, 3));
  kill_head(up);
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  const auto truth = train_undisturbed(job, with(sets(), {"checkpoint.every=1", to_step(steps)}));
  CHECK(heads_lost(up) == 1);
  const auto log = text_of(job / "run/log.jsonl");  // STW-1: the launcher has no log of its own
  constexpr std::string_view in_log =
      R"("text":"the head was killed by signal 9 (Killed): it is started again (1 of )";
  const auto told = log.find(in_log);
  CHECK(told != std::string::npos);
  CHECK(log.find(in_log, told + 1) == std::string::npos);
  is_whole(up, truth.losses);
  CHECK(times_made(up, 3) == 1);  // it is in the checkpoint
  REQUIRE(up.objects("summary").size() == 1);
  const auto summary = up.objects("summary").front();
  CHECK(summary["recoveries"] == 1);
  const auto incident = nlohmann::json::parse(text_of(job / "run/incidents.jsonl"));
  CHECK(incident["finding"] == "head_lost");
  CHECK(incident["node"] == "head");
  CHECK(incident["number"] == 1);
  CHECK(incident["epoch_to"] > incident["epoch_from"]);
  const auto again = incident["fell_after_step"].get<int>() -
                     incident["resumed_after_step"].get<int>();
  CHECK(again >= 0);
  CHECK(summary["steps_repeated"] == again);
  int64_t epoch = 0;
  for (const auto& step : up.objects("step")) {
    CHECK(step["epoch"] >= epoch);
    epoch = step["epoch"];
  }
  CHECK(epoch == incident["epoch_to"]);
  judge j(truth);
  CHECK(j.look(job / "run/checkpoints", acknowledged_in(up.out())) == steps);
  CHECK(leftovers_in(job / "run/checkpoints").empty());
}

/// Its node keeps the rank, and with it the swap folder, until it joins the next head.
TEST_CASE("head: killed, that of a job whose state is on a drive is started again, too") {
  job_files job;
  // So that the drive has room for all of its checkpoints, whenever it ends.
  const auto all = with(with(deep, quick), {"checkpoint.keep=2"});
  program up(job.up(with(all, swapped(job, floor_of(job, all)))));
  REQUIRE(until_saved(up, 3));
  kill_head(up);
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  CHECK(heads_lost(up) == 1);
  CHECK(follows(up, numbers_in_memory(job, with(all, {to_step(steps)}))));
  REQUIRE(up.objects("summary").size() == 1);
  CHECK(up.objects("summary").front()["recoveries"] == 1);
}

/// README's: configs/healing.toml itself, on the job's own data and for other steps; a process that
/// gets no processor for less than ten seconds is not taken for dead.
TEST_CASE("head: a node, the head and a frozen node of configs/healing.toml cost no bit") {
  job_files job;
  const auto healing = [&](const char* output, const std::string& steps) {
    auto words = job.up({"job.output=" + (job / output).string(), steps, "train.schedule=constant",
                         "data.path=" + (job / "data.txt").string(), "data.strip_gutenberg=false",
                         "cluster.dead_after_ms=10000", "log.format=json"});
    words[1] = TROUPE_SOURCE_DIR "/configs/healing.toml";
    return words;
  };
  program up(healing("run", to_step(1'000'000)));
  REQUIRE(up.until_error_has("spare node4 joined"));
  REQUIRE(up.until_step(7));
  const auto first = logged_epoch(job);
  signal_node(up, "node2", SIGKILL);
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(until_epoch_behind(up, job, first));
  const auto second = logged_epoch(job);
  kill_head(up);
  REQUIRE(up.until([&] { return heads_lost(up) == 1; }));
  REQUIRE(until_epoch_behind(up, job, second));
  const auto third = logged_epoch(job);
  signal_node(up, "node0", SIGSTOP);
  REQUIRE(until_epoch_behind(up, job, third));
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  program undisturbed(healing("undisturbed", to_step(steps)));
  REQUIRE_MESSAGE(undisturbed.wait() == 0, undisturbed.err());
  const auto truth = undisturbed.losses();
  REQUIRE(std::ssize(truth) == steps);
  is_whole(up, truth);
  REQUIRE(up.objects("summary").size() == 1);
  CHECK(up.objects("summary").front()["recoveries"] >= 2);  // of the last head's: it knows of all
}

TEST_CASE("NOD-7: nodes outlive their head: the same processes, and no step is made again") {
  job_files job;
  const auto copies = with(sets(), {"checkpoint.memory.every=1", "checkpoint.every=1000000"});
  program up(job.up(copies));
  REQUIRE(up.until([&] { return times_made(up, 20) > 0; }));
  std::vector<pid_t> before;
  // On a busy machine one that a node began is still there for a moment.
  REQUIRE(eventually([&] { return (before = nodes_started_by(up.pid())).size() == 2; }));
  kill_head(up);
  REQUIRE(up.until_error_has("recovered in"));
  CHECK(nodes_started_by(up.pid()) == before);
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  const auto truth = undisturbed_losses(job, copies, steps);
  CHECK(up.err().find("from the memory of") == std::string::npos);  // each has its own
  CHECK(up.err().find("going back to step") != std::string::npos);
  std::set<int> made;
  for (const auto& step : up.objects("step")) {
    CHECK(step["loss"].get<double>() == truth.at(step["step"].get<size_t>() - 1));
    made.insert(step["step"].get<int>());
  }
  CHECK(std::ssize(made) >=
        steps - 1);  // the last that a killed head had made it may not have told
  const auto incident = nlohmann::json::parse(text_of(job / "run/incidents.jsonl"));
  CHECK(incident["finding"] == "head_lost");
  CHECK(incident["fell_after_step"].get<int>() - incident["resumed_after_step"].get<int>() <= 1);
}

TEST_CASE("NOD-7: a node that is lost together with the head is started again, one alone") {
  job_files job;
  program up(job.up(sets()));
  REQUIRE(until_saved(up, 3));
  const auto stays = node_named(up.port(), "node0");
  signal_node(up, "node1", SIGKILL);
  kill_head(up);
  REQUIRE(up.until([&] { return heads_lost(up) == 1; }));
  REQUIRE(up.until_error_has("recovered in"));
  CHECK(node_named(up.port(), "node0") == stays);
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  is_whole(up, undisturbed_losses(job, sets(), steps));
}

TEST_CASE("CRD-15: who was evicted stays out, and the spare in its place, behind another head") {
  job_files job;
  program up(job.up(with(sets(), {"cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(until_saved(up, 3));
  REQUIRE(run({"console", "--yes", "-c", "evict node1", "--timeout-ms", "60000", "--connect",
               fmt::format("127.0.0.1:{}", up.port())})
              .code == 0);
  REQUIRE(up.until_error_has("recovered in"));
  const auto before = logged_epoch(job);
  kill_head(up);
  REQUIRE(up.until([&] { return heads_lost(up) == 1; }));
  REQUIRE(until_epoch_behind(up, job, before));
  const auto spares = ordered(up, "spares");
  CHECK(spares.out.find("evicted") != std::string::npos);
  CHECK(node_named(up.port(), "node1") == -1);
  CHECK(node_named(up.port(), "node2") > 0);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("NOD-7: nodes that others started outlive their head, too") {
  job_files job;
  std::ofstream(job / "job.toml", std::ios::app)
      << "[[cluster.node]]\nname = \"a\"\n[[cluster.node]]\nname = \"b\"\n";
  const auto sets = with(quick, {"parallel.data=2", "cluster.launch=external", free_port()});
  const auto node = [](uint16_t port, const char* name) {
    return program({"node", "--join", fmt::format("127.0.0.1:{}", port), "--name", name});
  };
  program up(job.up(sets));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  auto a = node(up.port(), "a"), b = node(up.port(), "b");
  REQUIRE(until_saved(up, 3));
  kill_head(up);
  end_of_recovered(up, job);
  INFO(up.err());
  CHECK(heads_lost(up) == 1);
  CHECK(a.wait() == 0);
  CHECK(b.wait() == 0);
}

TEST_CASE("NOD-7: heads that are killed at moments drawn by a seed, with nodes or without") {
  const auto seed = static_cast<unsigned>(number_from("TROUPE_HEAD_SEED", 1));
  const int kills = number_from("TROUPE_HEAD_KILLS", 5);
  CAPTURE(seed);
  std::mt19937 random(seed);
  job_files job;
  const auto sets = with(sets_of_copies(), {"recovery.most_per_hour=1000", "cluster.spares=1"});
  program up(job.up(sets));
  INFO(up.err());
  REQUIRE(up.until_error_has("spare node2 joined"));
  for (int n = 1; n <= kills; ++n) {
    CAPTURE(n);
    const auto steps = logged_steps(job / "run/log.jsonl").size();
    REQUIRE(up.until([&] { return logged_steps(job / "run/log.jsonl").size() >= steps + 30; }));
    const auto epoch = logged_epoch(job);
    spin(std::chrono::microseconds(random() % 30'000));
    const auto victim = random() % 2 == 0 ? node_named(up.port(), n % 2 == 0 ? "node0" : "node1")
                                          : -1;
    if (victim > 0) watched(victim).signal(SIGKILL);
    kill_head(up);
    REQUIRE(up.until([&] { return heads_lost(up) == static_cast<size_t>(n); }));
    REQUIRE(until_epoch_behind(up, job, epoch));
  }
  const auto truth = undisturbed_losses(job, sets, end_of_recovered(up, job));
  std::set<int> made;
  for (const auto& step : up.objects("step")) {
    CHECK(step["loss"].get<double>() == truth.at(step["step"].get<size_t>() - 1));
    made.insert(step["step"].get<int>());
  }
  // What was made, and not told of: where a head ended, and nowhere else.
  int gaps = 0;
  for (int step = 1; step <= std::ssize(truth); ++step)
    gaps += !made.contains(step) && (step == 1 || made.contains(step - 1));
  CHECK(gaps <= kills);
}

TEST_CASE("SPV-4: a launch that was to begin anew does not begin anew twice") {
  job_files job;
  const auto never = with(sets(), {"checkpoint.resume=never"});
  job.losses(with(sets(), {to_step(20)}));
  program up(job.up(never));
  REQUIRE(until_saved(up, 3));
  kill_head(up);
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  is_whole(up, undisturbed_losses(job, sets(), steps));
  CHECK(times_made(up, 1) == 1);
}

TEST_CASE("SPV-4: before its first checkpoint it begins as it did, whatever lies there") {
  job_files job;
  job.losses(with(sets(), {to_step(20)}));
  program up(job.up(with(sets(), {"checkpoint.resume=never", "checkpoint.every=1000000"})));
  REQUIRE(up.until_step(7));
  kill_head(up);
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  is_whole(up, undisturbed_losses(job, sets(), steps));
  CHECK(times_made(up, 1) == 2);
}

TEST_CASE("RUN-5: a paused run is paused after its head was killed, and a setting keeps its step") {
  job_files job;
  program up(job.up(with(sets(), {"checkpoint.every=1000000"})));
  REQUIRE(up.until_step(3));
  REQUIRE(ordered(up, "pause").code == 0);
  REQUIRE(up.until_error_has("paused after step"));
  const auto set = ordered(up, "set train.lr 0.0005");
  REQUIRE(set.code == 0);
  const int from = std::stoi(set.out.substr(set.out.find("from step ") + 10));
  REQUIRE(up.until_step(from - 1));
  const auto before = up.objects("step");
  REQUIRE(before.back()["step"] == from - 1);
  kill_head(up);
  REQUIRE(up.until([&] { return heads_lost(up) == 1; }));
  REQUIRE(up.until_error_has("paused after step 0"));
  CHECK(up.objects("step").size() == before.size());
  REQUIRE(ordered(up, "resume").code == 0);
  REQUIRE(up.until([&] { return times_made(up, from) > 0; }));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  std::map<int, std::vector<double>> rates;
  for (const auto& s : up.objects("step"))
    rates[s["step"].get<int>()].push_back(s["lr"].get<double>());
  for (int step = 1; step < from; ++step) {
    REQUIRE(rates[step].size() == 2);
    CHECK(rates[step][0] == rates[step][1]);
  }
  CHECK(rates[from].size() == 1);
  CHECK(rates[from][0] < rates[from - 1][0] / 2);
}

TEST_CASE("HRS-2: a head that was killed before the first step is not started again") {
  job_files job;
  program up(job.up(with(endless, {"cluster.launch=external", free_port()})));
  REQUIRE(eventually([&] { return !listening_ports(head_of(up.pid())).empty(); }));
  kill_head(up);
  CHECK(up.wait() == 128 + SIGKILL);
  CHECK(heads_lost(up) == 0);
}

/// A head before which another one was killed, as soon as its process is there.
bool kill_next_head(const program& up, pid_t before) {
  pid_t next = -1;
  if (!eventually([&] {
        next = head_of(up.pid());
        return next > 0 && next != before;
      }))
    return false;
  watched(next).signal(SIGKILL);
  return true;
}

TEST_CASE("HRS-3: behind a head that made steps, one that is killed at once costs no loss a bit") {
  job_files job;
  program up(job.up(with(sets(), {"checkpoint.every=20"})));
  REQUIRE(until_saved(up, 20));
  REQUIRE(up.until_step(30));
  const auto told = up.objects("step").back()["step"].get<int>();
  const pid_t first = head_of(up.pid());
  kill_head(up);
  REQUIRE(kill_next_head(up, first));
  REQUIRE(up.until([&] { return heads_lost(up) == 2; }));
  const int steps = end_of_recovered(up, job);
  INFO(up.err());
  CHECK(heads_lost(up) == 2);
  const auto truth = train_undisturbed(job, with(sets(), {"checkpoint.every=1", to_step(steps)}));
  is_whole(up, truth.losses);
  CHECK(times_made(up, 3) == 1);
  const auto incident = nlohmann::json::parse(text_of(job / "run/incidents.jsonl"));
  CHECK(incident["finding"] == "head_lost");
  CHECK(incident["fell_after_step"] >= told);  // which the head before the last one had told of
  judge j(truth);
  CHECK(j.look(job / "run/checkpoints", acknowledged_in(up.out())) == steps);
}

TEST_CASE("HRS-2: no more heads within an hour than recovery.most_per_hour says") {
  for (const char* budget : {"recovery.most_per_hour=1", "recovery.enabled=false"}) {
    CAPTURE(budget);
    job_files job;
    program up(job.up(with(sets(), {budget})));
    const size_t starts = std::string_view(budget).ends_with("false") ? 1 : 2;
    for (size_t n = 0, seen = 0; n < starts; ++n) {
      REQUIRE(up.until([&] { return up.objects("step").size() > seen; }));
      kill_head(up);
      up.listen();
      seen = up.objects("step").size();
    }
    CHECK(up.wait() == 128 + SIGKILL);
    CHECK(heads_lost(up) == starts - 1);
  }
}

TEST_CASE("SPV-2: a head that hears nothing any more is killed after a second signal") {
  job_files job;
  program up(job.up(sets()));
  REQUIRE(up.until_step(2));
  const watched head(head_of(up.pid()));
  head.signal(SIGSTOP);
  up.signal(SIGINT);
  up.signal(SIGTERM);
  CHECK(up.wait() == 128 + SIGKILL);
  CHECK(head.gone());
  CHECK(heads_lost(up) == 0);
}
