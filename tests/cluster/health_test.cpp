// A cluster of real processes says who holds it up: the frozen one, within seconds, by heartbeats
// and by the wait graph, and nobody while it is well.
#include <csignal>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

struct watched_run {
  job_files job;
  program up;

  explicit watched_run(const std::vector<std::string>& sets)
      : up(job.up(with(endless, with(layout(2, 1), sets)))) {
    REQUIRE(up.until_step(5));
  }

  finished health(const std::vector<std::string>& more = {}) const {
    return run(with({"health", "--connect", "127.0.0.1:" + std::to_string(up.port())}, more));
  }
  json findings() const {
    const auto said = health({"--json"});
    INFO(said.err);
    REQUIRE((said.code == 0 || said.code == 1));
    const auto all = json::parse(said.out);
    CHECK(all["type"] == "health");
    return all["findings"];
  }
  /// Whether a process of this node is named as frozen; nobody else may be.
  bool is_frozen(const char* node) const {
    bool named = false;
    for (const auto& f : findings()) {
      // What this machine's disk is at, and what its kernel says, is not the test's.
      if (f["severity"] != "error" || !f["rule"].is_null()) continue;
      CHECK(f["name"] == "frozen_process");
      CHECK(f["node"] == node);
      CHECK(f["rank"].is_null());
      CHECK(f["seen"].get<double>() >= 1);
      CHECK(f["unit"] == "s");
      named = true;
    }
    return named;
  }
};

/// `sets`: of silences and stands that no process has on a machine that is merely busy, since
/// nobody else may be named.
void names_frozen(const std::vector<std::string>& sets) {
  watched_run r(sets);
  CHECK_FALSE(r.is_frozen("node1"));
  const pid_t victim = node_named(r.up.port(), "node1");
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGSTOP) == 0);
  CHECK(eventually([&] { return r.is_frozen("node1"); }));
  const auto said = r.health();
  CHECK(said.code == 1);
  CHECK(said.out.find("findings: frozen_process node1") != std::string::npos);
  const auto word =
      run({"console", "-c", "findings", "--connect", "127.0.0.1:" + std::to_string(r.up.port())});
  CHECK(word.out.find("frozen_process node1") != std::string::npos);
  REQUIRE(kill(victim, SIGCONT) == 0);
  CHECK(eventually([&] { return !r.is_frozen("node1"); }));  // it heals by itself
  CHECK(r.up.err().find("recovery") == std::string::npos);
  r.up.signal(SIGINT);
  CHECK(r.up.wait() == 130);
}

}  // namespace

TEST_CASE("health: a stopped process is named by its missing heartbeats, and heals") {
  names_frozen({"cluster.suspect_after_ms=8000", "cluster.dead_after_ms=120000",
                "cluster.heartbeat_interval_ms=100"});
}

TEST_CASE("health: a stopped process is named by the wait graph where heartbeats may take long") {
  names_frozen({"cluster.suspect_after_ms=100000", "cluster.dead_after_ms=120000",
                "cluster.heartbeat_interval_ms=100", "health.stuck_after_s=8"});
}

TEST_CASE("health: a cluster that is not there is not well") {
  const auto said = run({"health", "--connect", "127.0.0.1:1"});
  CHECK(said.code == 69);
  CHECK(said.out.empty());
}
