// What a real fault leaves for the person who comes on Monday, in a job that goes on, in one that
// has ended, and over launches.
#include <signal.h>

#include <fstream>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

const std::vector<std::string> quick_to_heal{"recovery.enabled=true",
                                             "checkpoint.every=3",
                                             "train.batch=32",
                                             "cluster.heartbeat_interval_ms=100",
                                             "cluster.suspect_after_ms=60000",
                                             "cluster.dead_after_ms=120000"};

json object_in(const fs::path& file) {
  std::ifstream in(file);
  return json::parse(in, nullptr, false);
}

void strike(const program& up, const char* node, int signal) {
  const pid_t victim = node_named(up.port(), node);
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, signal) == 0);
}

finished show_incident(const std::vector<std::string>& more) {
  return run(with({"health", "show"}, more));
}

/// Until the monitor has seen the run make steps: the first one of an epoch may take long.
void until_watched(const program& up) {
  const auto seen = [&] {
    const auto said =
        run({"health", "--json", "--connect", fmt::format("127.0.0.1:{}", up.port())});
    const auto all = json::parse(said.out, nullptr, false);
    return all.is_object() ? all["step"].get<uint64_t>() : 0;
  };
  uint64_t first = 0;
  REQUIRE(eventually([&] { return (first = seen()) > 0; }));
  REQUIRE(eventually([&] { return seen() > first; }));
}

/// Until an incident is over, and the black box of who was killed is there.
json until_whole(const fs::path& folder) {
  json whole;
  REQUIRE(eventually([&] {
    whole = object_in(folder / "incident.json");
    return whole.is_object() && whole["state"] == "over" && !whole["black_boxes"].empty();
  }));
  return whole;
}

}  // namespace

TEST_CASE(
    "incidents: of a killed node all is kept, for a job that runs and for one that has ended") {
  job_files job;
  const auto sets = with(with(quick_to_heal, layout(2, 1)), endless);
  program up(job.up(sets));
  REQUIRE(up.until_step(7));
  strike(up, "node1", SIGKILL);
  REQUIRE(up.until_error_has("recovered in"));
  const auto folder = job / "run/incidents/0001";
  const auto kept = until_whole(folder);
  CHECK(kept["number"] == 1);
  CHECK(kept["finding"] == "dead_process");
  CHECK(kept["node"] == "node1");
  CHECK(kept["action"] == "restart");
  CHECK(kept["rule"].get<int>() >= 1);
  CHECK(kept["back_s"] >= kept["noticed_s"]);
  REQUIRE(kept["decisions"].size() == 1);
  CHECK(kept["decisions"][0]["vitals"][0]["node"] == "node1");
  for (const auto& box : kept["black_boxes"])
    CHECK(fs::exists(job / "run" / box.get<std::string>()));
  const auto box = kept["black_boxes"][0].get<std::string>();
  CHECK(box.starts_with("blackbox-node1-"));
  const auto address = fmt::format("127.0.0.1:{}", up.port());
  const auto page = show_incident({"1", "--connect", address});
  INFO(page.err);
  CHECK(page.code == 0);
  CHECK(page.out.starts_with("incident 1 (epoch 1 -> 2), node node1: dead_process\n"));
  CHECK(page.out.find(box) != std::string::npos);
  CHECK(json::parse(show_incident({"1", "--json", "--connect", address}).out) == kept);
  const auto word = run({"console", "-c", "incident 1", "--connect", address});
  CHECK(word.out == page.out);
  CHECK(run({"console", "-c", "incidents", "--connect", address}).out.find("dead_process") !=
        std::string::npos);
  CHECK(show_incident({"2", "--connect", address}).code == 66);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  CHECK(object_in(job / "run/incidents.jsonl")["folder"] == "incidents/0001");
  CHECK(show_incident({"1", "--dir", (job / "run").string()}).out == page.out);
  CHECK(show_incident({"1", (job / "job.toml").string()}).out == page.out);

  program again(job.up(sets));  // numbers go on, and nothing of the first launch changes
  REQUIRE(again.until([&] { return again.objects("step").size() >= 2; }));
  strike(again, "node0", SIGKILL);
  REQUIRE(again.until_error_has("recovered in"));
  CHECK(until_whole(job / "run/incidents/0002")["node"] == "node0");
  const auto health =
      run({"health", "--json", "--connect", fmt::format("127.0.0.1:{}", again.port())});
  CHECK(json::parse(health.out)["run"]["incidents"][0]["number"] == 2);
  CHECK(object_in(folder / "incident.json") == kept);
  again.signal(SIGINT);
  CHECK(again.wait() == 130);
}

TEST_CASE("incidents: the wait graph that named a stopped process is kept with its fault") {
  job_files job;
  program up(job.up(with(with(with(quick_to_heal, layout(2, 1)), endless),
                         {"checkpoint.every=1000000", "health.stuck_after_s=1",
                          "cluster.suspect_after_ms=12000", "cluster.dead_after_ms=15000"})));
  REQUIRE(up.until_step(7));
  until_watched(up);
  strike(up, "node1", SIGSTOP);
  REQUIRE(up.until_error_has("recovered in"));
  const auto kept = until_whole(job / "run/incidents/0001");
  CHECK(kept["finding"] == "frozen_process");
  REQUIRE(kept["decisions"].size() == 1);
  const auto& decision = kept["decisions"][0];
  bool named = false;
  for (const auto& f : decision["findings"])
    named = named || (f["name"] == "frozen_process" && f["node"] == "node1");
  CHECK(named);
  CHECK(decision["waits"]["culprits"][0]["kind"] == "silent");
  CHECK(decision["waits"]["culprits"][0]["node"] == "node1");
  std::ifstream text(job / "run/incidents/0001/waits.txt");
  std::string line;
  std::getline(text, line);
  CHECK(line == "culprit:");
  CHECK(fs::exists(job / "run/incidents/0001/waits.dot"));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("incidents: one that ends the job is kept with its evidence") {
  job_files job;
  const auto rule = R"(recovery.rule=[{finding="dead_process", do="end"}])";
  program up(job.up(with(with(with(quick_to_heal, layout(2, 1)), endless), {rule})));
  REQUIRE(up.until_step(4));
  strike(up, "node1", SIGKILL);
  CHECK(up.wait() == 69);
  const auto kept = object_in(job / "run/incidents/0001/incident.json");
  REQUIRE(kept.is_object());
  CHECK(kept["state"] == "over");
  CHECK(kept["action"] == "end");
  CHECK(kept["decisions"].size() == 1);
  CHECK(kept["done"].get<std::string>().starts_with("the job ended"));
}

TEST_CASE("incidents: a link or a file in the place of their folder is said before the start") {
  job_files job;
  fs::create_directories(job / "run");
  fs::create_directory(job / "elsewhere");
  fs::create_directory_symlink(job / "elsewhere", job / "run/incidents");
  auto said = run(job.up({"train.steps=2"}));
  CHECK(said.code == 78);
  CHECK(said.err.find("run/incidents is a link or a file") != std::string::npos);
  fs::remove(job / "run/incidents");
  std::ofstream(job / "run/incidents") << "mine";
  CHECK(run(job.up({"train.steps=2"})).code == 78);
  fs::remove(job / "run/incidents");
  fs::create_directory(job / "run/incidents");
  std::ofstream(job / "run/incidents/mine") << "mine";
  CHECK(run(job.up({"train.steps=2"})).code == 78);
  fs::remove(job / "run/incidents/mine");
  CHECK(run(job.up({"train.steps=2"})).code == 0);
}
