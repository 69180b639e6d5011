// However a cluster ends, nothing of it is left: no process, no port, no half checkpoint.
#include <poll.h>

#include <csignal>
#include <fstream>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

const std::vector<std::string> no_recovery{"recovery.enabled=false"};

/// A run that does not end by itself within any test's patience.
const std::vector<std::string> quick_beats{"cluster.heartbeat_interval_ms=200",
                                           "cluster.suspect_after_ms=700",
                                           "cluster.dead_after_ms=10000"};

/// A first signal: the step is finished and saved, and the run goes on from there.
void stop_by(int number, int expected) {
  job_files job;
  const auto sets = with(endless, layout(2, 1));
  program up(job.up(sets));
  REQUIRE(up.until_step(3));
  // On a busy machine one that began another is still there for a moment.
  REQUIRE(eventually([&] { return traces(up).processes.size() == 4; }));
  const traces left(up);
  up.signal(number);
  CHECK(up.wait() == expected);
  CHECK(left.gone());
  const auto steps = up.objects("step");
  const int last = steps.back()["step"];
  INFO(up.err());
  REQUIRE(fs::exists(job.checkpoint(last)));
  CHECK(up.objects("summary").size() == 1);
  const auto log = job / "run/log.jsonl";
  CHECK(only_end_in(log, "signal", expected)["step"] == last);
  CHECK(objects_in(log).back()["type"] == "end");
  CHECK(up.objects("end") == logged(log, "end"));
  const auto more = job.losses(with(sets, {fmt::format("train.steps={}", last + 2)}));
  CHECK(more.size() == 2);
  const auto starts = logged(log, "start"), ends = logged(log, "end");
  REQUIRE(starts.size() == 2);
  CHECK_FALSE(starts[0].contains("previous_ended"));
  CHECK(starts[1]["previous_ended"] == true);
  REQUIRE(ends.size() == 2);
  CHECK(ends[1]["reason"] == "done");
  CHECK(ends[1]["code"] == 0);
  CHECK(ends[1]["step"] == last + 2);
}

}  // namespace

TEST_CASE("ending: the first SIGINT finishes the step, saves and stops with 130") {
  stop_by(SIGINT, 130);
}
TEST_CASE("ending: SIGTERM does the same with 143") {
  stop_by(SIGTERM, 143);
}
TEST_CASE("ending: SIGHUP does the same with 129") {
  stop_by(SIGHUP, 129);
}

TEST_CASE("ending: two equal signals at once are one: the run is saved") {
  job_files job;
  program up(job.up(with(endless, {"train.batch=64"})));
  REQUIRE(up.until_step(2));
  for (int i = 0; i < 3; ++i) up.signal(SIGTERM);  // as `timeout` and schedulers send it
  CHECK(up.wait() == 143);
  INFO(up.err());
  CHECK(up.err().find("aborting") == std::string::npos);
  CHECK(fs::exists(job.checkpoint(up.objects("step").back()["step"])));
}

TEST_CASE("ending: a launcher that reads its data hears a signal") {
  job_files job;
  program up(job.up(with(endless, many_tokens(job))));
  REQUIRE(eventually([&] { return hears_signals(head_of(up.pid())); }));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  CHECK(up.err().find("stopped by SIGINT before the training began") != std::string::npos);
}

TEST_CASE("ending: a signal while text is tokenised ends it, and leaves no half token file") {
  job_files job;
  program up(job.up(much_text(job)));
  REQUIRE(up.until_error_has("coordinator of "));
  REQUIRE(eventually([&] { return !names_with(job / "cache", ".bin").empty(); }));
  const traces left(up);
  up.signal(SIGTERM);
  CHECK(up.wait() == 143);
  INFO(up.err());
  CHECK(left.gone());
  CHECK(up.objects("step").empty());
  CHECK(names_with(job / "cache", ".bin").empty());
}

TEST_CASE("ending: a signal after the last step leaves out the sample, and the job is done") {
  job_files job;
  program up(job.up({"train.sample_tokens=1000000"}));
  REQUIRE(up.until_error_has("coordinator of "));
  REQUIRE(up.until_step(20));
  REQUIRE(eventually([&] { return nodes_of(up.port()).empty(); }));
  up.signal(SIGINT);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("no sample: interrupted") != std::string::npos);
  CHECK(up.objects("summary").size() == 1);
  CHECK(fs::exists(job.checkpoint(20)));
}

TEST_CASE("ending: a second signal aborts at once") {
  job_files job;
  // Steps of seconds, so that the first signal is still waiting for the end of one.
  program up(job.up(with(endless, with(layout(2, 1), {"train.batch=512", "train.seq_len=256"}))));
  REQUIRE(up.until_step(1));
  const traces left(up);
  up.signal(SIGINT);
  REQUIRE(up.until_error_has("again to abort"));
  up.signal(SIGTERM);  // a second SIGINT within a second would be the same
  CHECK(up.wait() == 143);
  CHECK(up.err().find("aborting at once; the same command goes on") != std::string::npos);
  CHECK(left.gone());
  CHECK(names_with(job / "run/checkpoints", "step-").empty());  // nothing was saved
  CHECK(only_end_in(job / "run/log.jsonl", "signal", 143)["step"] >= 1);
}

TEST_CASE("ending: SIGINT while nodes are missing ends the gathering") {
  job_files job;
  program up(job.up(with(endless, {"cluster.launch=external", free_port()})));
  REQUIRE(up.until_error_has("waiting for 1 node;"));
  const traces left(up);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  CHECK(left.gone());
}

TEST_CASE("ending: a finished run leaves nothing") {
  job_files job;
  program up(job.up(with(layout(2, 2), {"train.steps=200"})));
  REQUIRE(up.until_step(1));
  const traces left(up);
  CHECK_MESSAGE(left.processes.size() == 6, left.lines);
  CHECK(left.ports.size() >= 5);
  CHECK(up.wait() == 0);
  CHECK(left.gone());
}

TEST_CASE("ending: a launcher killed with -9 takes its nodes with it") {
  job_files job;
  program up(job.up(with(endless, layout(2, 2))));
  REQUIRE(up.until_step(2));
  const traces left(up);
  CHECK_MESSAGE(left.processes.size() == 6, left.lines);
  up.signal(SIGKILL);
  CHECK(up.wait() == 137);
  CHECK(left.gone());
  const auto log = job / "run/log.jsonl";
  CHECK(logged(log, "end").empty());
  job.losses(layout(2, 2));
  CHECK(logged(log, "start").at(1)["previous_ended"] == false);
  CHECK(logged(log, "end").size() == 1);
}

TEST_CASE("ending: a launcher killed with -9 while its nodes start leaves none") {
  job_files job;
  program up(job.up(with(endless, layout(2, 2))));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  const auto port = up.port();
  up.signal(SIGKILL);
  CHECK(up.wait() == 137);
  // A node between its start and its first look at its parent may run a moment longer.
  CHECK(eventually([&] { return nodes_of(port).empty() && !is_listening(port); }));
}

TEST_CASE("ending: a node killed with -9 ends the run with its name and 69") {
  job_files job;
  program up(job.up(with(with(endless, no_recovery), layout(2, 2))));
  REQUIRE(up.until_step(2));
  const traces left(up);
  const pid_t victim = node_named(up.port(), "node2");
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGKILL) == 0);
  CHECK(up.wait() == 69);
  INFO(up.err());
  CHECK(up.err().find("error: node node2 was killed by signal 9") != std::string::npos);
  const auto end = only_end_in(job / "run/log.jsonl", "error", 69);
  CHECK(end["text"].get<std::string>().starts_with("node node2 was killed by signal 9"));
  CHECK(left.gone());
}

TEST_CASE("ending: a coordinator or a run that is told to die ends the launch, which says so") {
  for (const std::string victim : {"coordinator", "reporter", "run"}) {
    CAPTURE(victim);
    job_files job;
    program up(job.up(with(endless, layout(2, 1))));
    REQUIRE(up.until_step(2));
    const traces left(up);
    const auto address = fmt::format("127.0.0.1:{}", up.port());
    run({"console", "--yes", "-c", "kill " + victim, "--connect", address});
    if (victim == "reporter") up.signal(SIGINT);
    CHECK(up.wait() == 70);
    INFO(up.err());
    CHECK(up.err().find(victim == "run" ? "the run's actor ended" : "the coordinator ended") !=
          std::string::npos);
    CHECK(left.gone());
  }
}

TEST_CASE("ending: a worker that a person killed is what the run ends by, and who it was") {
  job_files job;
  program up(job.up(with(with(endless, no_recovery), layout(2, 1))));
  REQUIRE(up.until_step(2));
  const auto address = fmt::format("127.0.0.1:{}", up.port());
  CHECK(run({"console", "-c", "kill worker/1", "--connect", address}).code == 0);
  CHECK(up.wait() == 69);
  INFO(up.err());
  CHECK(up.err().find("error: node node1 ends: worker/1 was killed by ") != std::string::npos);
}

TEST_CASE("ending: who stopped a run before its last step is said") {
  job_files job;
  program up(job.up(with(with(endless, layout(2, 1)), {"recovery.fewer_replicas=false"})));
  REQUIRE(up.until_step(2));
  const auto address = fmt::format("127.0.0.1:{}", up.port());
  CHECK(run({"console", "-c", "drain node1", "--connect", address}).code == 0);
  CHECK(up.wait() == 75);
  INFO(up.err());
  CHECK(up.err().find("ended before the last step: node node1") != std::string::npos);
  const auto end = only_end_in(job / "run/log.jsonl", "stopped", 75);
  CHECK(end["text"].get<std::string>().starts_with("node node1"));
}

TEST_CASE("ending: a process that a signal ended has left its last seconds") {
  job_files job;
  program up(job.up(with(with(endless, no_recovery), layout(2, 1))));
  REQUIRE(up.until_step(3));
  const auto are_watched = [](const traces& all) {  // the launcher has no crash dumper
    return all.dumpers.size() + 1 == all.processes.size();
  };
  REQUIRE(eventually([&] { return are_watched(traces(up)); }));  // each has its name by then
  const traces left(up);
  const pid_t victim = node_named(up.port(), "node1");
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGABRT) == 0);  // sanitizers take SIGSEGV for a finding of theirs
  CHECK(up.wait() == 69);
  CHECK(left.gone());
  const auto box = (job / fmt::format("run/blackbox-node1-{}-end.trace", victim)).string();
  INFO(up.err());
  CHECK(up.err().find(fs::path(box).filename().string()) != std::string::npos);
  const auto stats = run({"trace", "stats", box, "--json"});
  CHECK(stats.code == 0);
  CHECK(stats.out.find("worker/1") != std::string::npos);
  CHECK(stats.out.find("RunStep") != std::string::npos);
  // The launcher ended by itself, and so did the other node: they had nothing to leave.
  for (const auto& file : fs::directory_iterator(job / "run"))
    CHECK((file.path() == box || !file.path().filename().string().ends_with("-end.trace")));
}

TEST_CASE("ending: a node that is stopped is dead after dead_after_ms") {
  job_files job;
  program up(job.up(with(with(endless, no_recovery), with(layout(2, 1), quick_beats))));
  REQUIRE(up.until_step(2));
  const traces left(up);
  const pid_t victim = node_named(up.port(), "node1");
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGSTOP) == 0);
  CHECK(up.wait() == 69);
  INFO(up.err());
  CHECK(up.err().find("node1") != std::string::npos);
  CHECK(up.err().find("silent") != std::string::npos);
  CHECK(left.gone());
}

TEST_CASE("ending: a launcher that is stopped and continued in time goes on with the same bits") {
  job_files job;
  const std::vector<std::string> beats{"cluster.heartbeat_interval_ms=100",
                                       "cluster.suspect_after_ms=400",
                                       "cluster.dead_after_ms=120000"};
  const auto undisturbed = job.losses(with(layout(2, 1), {"job.output=" + (job / "u").string()}));
  program up(job.up(with(layout(2, 1), beats)));
  REQUIRE(up.until_step(2));
  up.signal(SIGSTOP);  // what Ctrl-Z does, which a group without a shell does not hear
  poll(nullptr, 0, 1500);  // the time it is stopped for, longer than suspect_after
  up.signal(SIGCONT);
  CHECK(up.wait() == 0);
  CHECK(up.losses() == undisturbed);
}

TEST_CASE("ending: a launcher that is continued too late says why its nodes are gone") {
  job_files job;
  program up(job.up(with(with(endless, no_recovery), with(layout(2, 1), quick_beats))));
  REQUIRE(up.until_step(2));
  const auto port = up.port();
  up.signal(SIGSTOP);
  REQUIRE(eventually([&] { return nodes_of(port).empty(); }));
  up.signal(SIGCONT);
  CHECK(up.wait() == 69);
  INFO(up.err());
  CHECK(up.err().find("this process did not run for ") != std::string::npos);
  CHECK(up.err().find("its nodes took it for dead") != std::string::npos);
}

TEST_CASE("ending: a run that diverges ends with 1 and says what to do") {
  job_files job;
  program up(job.up({"train.lr=100", "train.clip_norm=0", "train.beta2=0", "train.batch=1"}));
  CHECK(up.wait() == 1);
  INFO(up.err());
  CHECK(up.err().find("loss") != std::string::npos);
  CHECK((up.err().find("is not a number") != std::string::npos ||
         up.err().find("is infinite") != std::string::npos));
  CHECK(up.err().find("-nan") == std::string::npos);
}
