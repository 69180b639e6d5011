// Machines of a running cluster are examined: beside a training whose bits stay, with one node
// that does not answer, with one that sums wrongly, and without a cluster.
#include <csignal>
#include <cstring>

#include <set>

#include "actors/health/known_sum.hpp"
#include "tests/cluster/survivors.hpp"
#include "tests/cluster/turned_bit.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

finished doctor(const program& up, const std::vector<std::string>& more = {}) {
  return run(with({"doctor", "--connect", "127.0.0.1:" + std::to_string(up.port())}, more));
}

json diagnosis_of(const finished& said) {
  INFO(said.out);
  INFO(said.err);
  const auto all = json::parse(said.out);
  CHECK(all["type"] == "doctor");
  CHECK((said.code == 1) == (all["verdict"] == "bad"));
  return all;
}

/// The first numbers that a medic sums, as they lie in its memory, from a byte of the first on
/// whose bits no sum rounds away.
std::string first_numbers() {
  std::string out(64, '\0');
  for (uint32_t i = 0; i < out.size() / sizeof(float); ++i) {
    const auto number = static_cast<float>(troupe::health::known_sum::number(i));
    std::memcpy(out.data() + i * sizeof number, &number, sizeof number);
  }
  return out.substr(2);
}

const json& group_in(const json& all, const char* check) {
  for (const auto& g : all["groups"])
    if (g["check"] == check) return g;
  FAIL("no group ", check);
  return all;
}

std::set<std::string> checks_of(const json& node) {
  std::set<std::string> out;
  for (const auto& c : node["checks"]) out.insert(c["check"]);
  return out;
}

}  // namespace

TEST_CASE("doctor: two nodes that train are examined, and their losses stay") {
  job_files job;
  const auto sets = with(endless, layout(2, 1));
  program up(job.up(sets));
  REQUIRE(up.until_step(5));
  const auto said = doctor(up, {"--json"});
  INFO(said.out);
  CHECK(said.code == 0);
  const auto all = diagnosis_of(said);
  REQUIRE(all["nodes"].size() == 2);
  for (const auto& node : all["nodes"]) {
    const auto checks = checks_of(node);
    for (const char* name : {"open_files", "clock", "cpu_product", "memory_pattern",
                             "memory_bandwidth", "disk_pattern", "loopback_bandwidth"}) {
      CAPTURE(name);
      CHECK(checks.contains(name));
    }
    for (const auto& c : node["checks"])
      if (c["check"] == "cpu_product" || c["check"] == "memory_pattern" ||
          c["check"] == "disk_pattern")
        CHECK(c["verdict"] == "ok");
  }
  REQUIRE(all["pairs"].size() == 1);
  CHECK(all["pairs"][0]["answered"] == true);
  CHECK(all["pairs"][0]["wrong"] == 0);
  CHECK(all["pairs"][0]["bytes_per_s"] > 0);
  CHECK(all["pairs"][0]["one_host"] == true);
  const auto& sum = all["pairs"][0]["sum"];
  CHECK(sum["verdict"] == "ok");
  CHECK(sum["finished"] == true);
  CHECK(sum["wrong_sums"] == 0);
  CHECK(sum["bytes_per_s"] > 0);
  const auto& exchange = group_in(all, "all_to_all");
  CHECK(exchange["verdict"] == "ok");
  CHECK(exchange["nodes"].size() == 2);
  CHECK(exchange["wrong_gathered"] == 0);
  const auto& start = group_in(all, "group_start");
  CHECK(start["finished"] == true);
  CHECK(start["start_ms"] > 0);
  CHECK(start["verdict"] != "bad");
  const auto audit = text_of(job / "run/audit.jsonl");
  CHECK(audit.find("RunCheckup") != std::string::npos);
  CHECK(audit.find("TestPair") != std::string::npos);

  const auto word =
      run({"console", "-c", "doctor node0", "--connect", "127.0.0.1:" + std::to_string(up.port())});
  CHECK(word.code == 0);
  CHECK(word.out.find("cpu_product") != std::string::npos);

  const auto wrong = doctor(up, {"--node", "nod1"});
  CHECK(wrong.code == 66);
  CHECK(wrong.err.find("node1") != std::string::npos);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);

  const auto losses = up.losses();
  job_files again;
  auto alone = again.losses(with(with({"train.schedule=constant"}, layout(2, 1)),
                                 {"train.steps=" + std::to_string(losses.size())}));
  CHECK(alone == losses);
}

TEST_CASE("doctor: a node that sums wrongly is named by the bits, and training goes on") {
  job_files job;
  program up(job.up(with(with(endless, layout(3, 1)), {"train.batch=12"})));
  REQUIRE(up.until_step(5));
  const auto before = doctor(up, {"--json"});  // from here on each has its numbers
  CHECK(diagnosis_of(before)["verdict"] != "bad");
  const pid_t victim = node_named(up.port(), "node0");
  REQUIRE(victim > 0);
  REQUIRE(turn_a_bit(victim, first_numbers()) > 0);
  const auto said = doctor(up, {"--json"});
  CHECK(said.code == 1);
  const auto all = diagnosis_of(said);
  CHECK(all["culprits"] == json{"node0"});
  size_t bad = 0;
  for (const auto& p : all["pairs"]) {
    CAPTURE(p.dump());
    const bool with_victim = p["nodes"][0] == "node0" || p["nodes"][1] == "node0";
    CHECK((p["sum"]["verdict"] == "bad") == with_victim);
    CHECK(p["verdict"] != "bad");  // its messages come back as they were
    bad += with_victim;
  }
  CHECK(bad == 2);  // all pairs of three: with one that does well with others, too
  const auto text = doctor(up);
  CHECK(text.code == 1);
  CHECK(text.out.find("of the sum is") != std::string::npos);
  CHECK(up.until_step(static_cast<int>(up.losses().size()) + 3));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("doctor: a node that is stopped is named") {
  job_files job;
  program up(job.up(with(endless, with(layout(2, 1), {"cluster.suspect_after_ms=100000",
                                                      "cluster.dead_after_ms=120000"}))));
  REQUIRE(up.until_step(5));
  const pid_t victim = node_named(up.port(), "node1");
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGSTOP) == 0);
  const auto said = doctor(up, {"--json"});
  CHECK(said.code == 1);
  const auto all = diagnosis_of(said);
  for (const auto& node : all["nodes"]) {
    CAPTURE(node["node"]);
    CHECK((node["verdict"] == "bad") == (node["node"] == "node1"));
  }
  REQUIRE(kill(victim, SIGCONT) == 0);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("doctor: a node that is examined already is unknown, and nobody is named") {
  job_files job;
  program up(job.up(with(endless, layout(2, 1))));
  REQUIRE(up.until_step(5));
  const auto address = "127.0.0.1:" + std::to_string(up.port());
  program abandoned({"doctor", "--node", "node0", "--deep", "--connect", address});
  REQUIRE(eventually([&] {
    return run({"status", "medic/node0", "--connect", address}).out.find("examining") !=
           std::string::npos;
  }));
  abandoned.signal(SIGINT);
  CHECK(abandoned.wait() == 130);

  auto said = doctor(up, {"--node", "node0", "--json"});
  CHECK(said.code == 0);
  CHECK(diagnosis_of(said)["verdict"] == "unknown");
  said = doctor(up, {"--json"});
  CHECK(said.code == 0);
  const auto all = diagnosis_of(said);
  REQUIRE(all["nodes"].size() == 2);
  for (const auto& node : all["nodes"]) {
    CAPTURE(node["node"]);
    CHECK(node["verdict"] == (node["node"] == "node0" ? "unknown" : "ok"));
  }
  CHECK(all["culprits"].empty());
  CHECK(all["unclear_pairs"].empty());
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("doctor: without a cluster it says so, and examines this machine where it is asked to") {
  CHECK(run({"doctor", "--connect", "127.0.0.1:1"}).code == 69);
  CHECK(run({"doctor", "--local", "--node", "a"}).code == 64);
  job_files job;
  const auto said = run({"doctor", "--local", "--folder", job.folder.path.string(), "--json"});
  CHECK(said.code == 0);
  CHECK(diagnosis_of(said)["nodes"].size() == 1);
}
