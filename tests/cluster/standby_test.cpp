// Several heads: one that is killed with its launcher, or stands still, is followed by one that
// stood by, with the losses of an undisturbed run; and it comes back as one that stands by.
#include <signal.h>

#include <algorithm>

#include "tests/apps/runtime_folder.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

/// A job of two nodes that a test starts, and three heads; each head has its own port. A process
/// that gets no processor for less than ten seconds is not taken for dead, nor is its place taken.
struct several_heads {
  job_files job;
  std::vector<std::string> ports;
  std::vector<std::string> sets;

  explicit several_heads(const std::vector<std::string>& more = {}) {
    for (int i = 0; i < 3; ++i)
      ports.push_back(fmt::format("127.0.0.1:{}", troupe::reserved_port()));
    sets = with(
        {"cluster.launch=external", "parallel.data=2", "cluster.nodes=2", "train.steps=300",
         "checkpoint.every=5", "cluster.heartbeat_interval_ms=100", "cluster.suspect_after_ms=2500",
         "cluster.dead_after_ms=10000", "recovery.head_takeover_s=10",
         fmt::format(R"(cluster.heads=["{}","{}","{}"])", ports[0], ports[1], ports[2])},
        more);
  }
  std::vector<std::string> standby(size_t i) const {
    auto out = job.up(sets);
    out.front() = "head";
    out.insert(out.end(), {"--standby", ports[i]});
    return out;
  }
  std::vector<std::string> node(const char* name) const {
    return {"node",
            "--join",
            fmt::format("{}", fmt::join(ports, ",")),
            "--name",
            name,
            "--heartbeat-ms",
            "100",
            "--dead-after-ms",
            "10000"};
  }
  /// Of a job without an end, by one head, which nobody disturbs.
  std::vector<double> truth(int steps) const {
    return job.losses(
        with(endless, {fmt::format("train.steps={}", steps), "cluster.nodes=2", "parallel.data=2",
                       "job.output=" + (job / "undisturbed").string()}));
  }
  fs::path log() const { return job / "run/log.jsonl"; }
};

/// All lines of steps, whichever head wrote them, have the losses of the undisturbed run, as far as
/// that goes; the steps.
std::set<int> judge_of_lines(const several_heads& cluster, const std::vector<double>& truth) {
  std::set<int> made;
  for (const auto& step : objects_in(cluster.log())) {
    if (step.value("type", "") != "step") continue;
    const int number = step["step"];
    if (number <= std::ssize(truth))
      CHECK(step["loss"].get<double>() == truth.at(static_cast<size_t>(number) - 1));
    made.insert(number);
  }
  return made;
}

/// The same of a job that came to its end; a lost head may have made steps and not told them.
void have_losses(const several_heads& cluster, const std::vector<double>& truth) {
  const auto made = judge_of_lines(cluster, truth);
  CHECK(made.contains(static_cast<int>(truth.size())));
  CHECK(made.size() + 50 > truth.size());
}

/// The standby of these that came to act.
program* successor_of(std::vector<program*> standbys) {
  const auto acts = [](const program* p) {
    return p->err().find("follow this one: it acts in epoch") != std::string::npos;
  };
  const auto it = std::find_if(standbys.begin(), standbys.end(), acts);
  return it == standbys.end() ? nullptr : *it;
}

/// The one of two that acts, once the job has gone on; nobody where none came to.
program* until_succeeded(program& second, program& third) {
  program* next = nullptr;
  const bool goes_on = eventually([&] {
    second.listen();
    third.listen();
    next = successor_of({&second, &third});
    return next != nullptr && next->err().find("recovered in") != std::string::npos;
  });
  return goes_on ? next : nullptr;
}

/// Three heads and two nodes, which train.
struct in_training {
  program up, second, third, node0, node1;

  explicit in_training(const several_heads& cluster)
      : up(cluster.job.up(cluster.sets)),
        second(once_begun(cluster.standby(1))),
        third(cluster.standby(2)),
        node0(cluster.node("node0")),
        node1(cluster.node("node1")) {
    REQUIRE(second.until_error_has("acts in epoch 1"));
    REQUIRE(third.until_error_has("acts in epoch 1"));
    REQUIRE(up.until_step(30));
  }
  /// Nodes look for its key in the folder of signs.
  const std::vector<std::string>& once_begun(const std::vector<std::string>& words) {
    REQUIRE(up.until_error_has("coordinator of t at"));
    return words;
  }
};

}  // namespace

TEST_CASE("standby: a head that is killed with its launcher is followed by another one") {
  several_heads cluster(endless);
  in_training all(cluster);
  auto& [up, second, third, node0, node1] = all;
  up.signal(SIGKILL);
  program* const next = until_succeeded(second, third);
  REQUIRE(next != nullptr);
  const int steps = end_soon(*next, cluster.log());
  CHECK(second.wait() == 0);
  CHECK(third.wait() == 0);
  INFO(second.err());
  INFO(third.err());
  CHECK(next->objects("summary").size() == 1);
  CHECK(next->err().find("come by themselves") != std::string::npos);
  CHECK(next->err().find("is there already") == std::string::npos);
  CHECK(node0.wait() == 0);
  CHECK(node1.wait() == 0);
  have_losses(cluster, cluster.truth(steps));
  const auto incident = only_object_in(cluster.job / "run/incidents.jsonl");
  CHECK(incident["finding"] == "head_lost");
}

TEST_CASE("standby: a head that stands still and wakes up commits nothing, and stands by") {
  several_heads cluster(endless);
  in_training all(cluster);
  auto& [up, second, third, node0, node1] = all;
  const watched head(head_of(up.pid()));
  REQUIRE(head.pid() > 0);
  head.signal(SIGSTOP);
  program* const next = until_succeeded(second, third);
  REQUIRE(next != nullptr);
  head.signal(SIGCONT);
  CHECK(up.until_error_has("this head acts no more"));
  CHECK(up.until_error_has("standing by for t"));
  CHECK(up.until_error_has("acts in epoch"));
  CHECK(up.objects("summary").empty());
  next->signal(SIGINT);
  CHECK(next->wait() == 128 + SIGINT);
  CHECK(up.wait() == 0);  // the job is over
  CHECK((next == &second ? third : second).wait() == 0);
  CHECK(node0.wait() == 0);
  CHECK(node1.wait() == 0);
  INFO(up.err());
  INFO(next->err());
  judge_of_lines(cluster, cluster.job.losses({"train.steps=100", "train.schedule=constant",
                                              "cluster.nodes=2", "parallel.data=2",
                                              "job.output=" + (cluster.job / "other").string()}));
}

TEST_CASE("standby: the launcher starts a head again that was killed, by the votes of the others") {
  several_heads cluster(endless);
  in_training all(cluster);
  auto& [up, second, third, node0, node1] = all;
  const watched head(head_of(up.pid()));
  REQUIRE(head.pid() > 0);
  head.signal(SIGKILL);
  REQUIRE(up.until_error_has("recovered in"));
  const int steps = end_soon(up, cluster.log());
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("heads and nodes follow this one: it acts in epoch 2") != std::string::npos);
  CHECK(second.wait() == 0);
  CHECK(third.wait() == 0);
  CHECK(second.err().find("the job is over") != std::string::npos);
  have_losses(cluster, cluster.truth(steps));
}

TEST_CASE("standby: without a majority nothing begins, and that is said") {
  several_heads cluster({"cluster.join_timeout_ms=60000"});
  program up(cluster.job.up(cluster.sets));
  REQUIRE(up.until_error_has("coordinator of t at"));
  program node0(cluster.node("node0"));  // with the head itself 2 of 5
  INFO(up.err());
  REQUIRE(up.until_error_has("of 5 voters answer, 3 are needed"));
  CHECK(up.objects("step").empty());
  program second(cluster.standby(1)), node1(cluster.node("node1"));
  CHECK(up.until_step(3));
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
  CHECK(second.wait() == 0);
}

TEST_CASE("standby: one with other settings is refused, one that comes after the job's end ends") {
  several_heads cluster;
  program up(cluster.job.up(cluster.sets));
  REQUIRE(up.until_error_has("coordinator of t at"));
  auto other = cluster.standby(2);
  other.insert(other.end(), {"--set", "train.steps=7"});
  program refused(other);
  CHECK(refused.wait() == 78);
  CHECK(refused.err().find("train.steps is 300 there and 7 here") != std::string::npos);
  auto same = cluster.standby(1);
  same.insert(same.end(), {"--log-format", "plain", "--set", "log.every=3"});
  program second(same);
  REQUIRE(second.until_error_has("acts in epoch 1"));
  up.signal(SIGINT);
  CHECK(up.wait() != 0);
  CHECK(second.wait() == 0);
  CHECK(second.err().find("the job is over") != std::string::npos);
  program late(cluster.standby(2));
  CHECK(late.wait() == 0);
  INFO(late.err());
  CHECK(late.err().find("standing by for t") != std::string::npos);
  CHECK(late.err().find("the job is over: ") != std::string::npos);
}

TEST_CASE("standby: one that comes after the end leaves no secret of the job (STB-3)") {
  const troupe::scratch signs;  // where nobody else's secrets are
  const troupe::runtime_folder runtime(signs.path);
  const auto secrets = [&] {
    size_t n = 0;
    for (const auto& f : std::filesystem::recursive_directory_iterator(signs.path))
      n += f.path().extension() == ".secret";
    return n;
  };
  {
    several_heads cluster({"train.steps=20"});
    program up(cluster.job.up(cluster.sets));
    REQUIRE(up.until_error_has("coordinator of t at"));
    CHECK(secrets() == 1);
    program node0(cluster.node("node0")), node1(cluster.node("node1"));
    CHECK(up.wait() == 0);
    CHECK(node0.wait() == 0);
    CHECK(node1.wait() == 0);
    CHECK(secrets() == 0);
    program late(cluster.standby(2));
    REQUIRE(late.until_error_has("standing by for t"));
    CHECK(secrets() == 1);
    CHECK(late.wait() == 0);
    CHECK(late.err().find("the job is over") != std::string::npos);
    CHECK(secrets() == 0);
  }
}

TEST_CASE("standby: an address that is none of the job's heads is refused") {
  several_heads cluster;
  auto words = cluster.standby(1);
  words.back() = "127.0.0.1:1";
  const auto refused = run(words);
  CHECK(refused.code == 64);
  CHECK(refused.err.find("127.0.0.1:1") != std::string::npos);
  CHECK(refused.err.find(cluster.ports[2]) != std::string::npos);
}
