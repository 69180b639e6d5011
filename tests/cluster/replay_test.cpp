// A cluster of real processes records its actors; what is recorded is replayed through the program.
#include <csignal>

#include "tests/cluster/constant_watts.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/cluster/served_row.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

json replayed(const fs::path& file, const std::string& actor) {
  const auto done = run({"replay", file.string(), "--actor", actor, "--json"});
  INFO(done.err, done.out);
  REQUIRE(done.code == 0);
  return json::parse(done.out);
}

}  // namespace

TEST_CASE("replay: whoever is recorded still hears the heartbeats of nodes") {
  job_files job;
  auto arguments = job.up(with(endless, layout(2, 1)));
  arguments.insert(arguments.end(), {"--record-actor", "*"});
  program up(arguments);
  REQUIRE(up.until_step(1));
  const auto heard = [&] {
    const auto s = run({"status", "coordinator", "--json", "--connect",
                        "127.0.0.1:" + std::to_string(up.port())});
    INFO(s.err);
    REQUIRE((s.code == 0 || s.code == 1));
    const auto view = json::parse(s.out);
    for (const auto& n : view["nodes"])
      for (const auto& a : n["actors"])
        if (a["path"] == "coordinator")
          return std::all_of(a["detail"]["nodes"].begin(), a["detail"]["nodes"].end(),
                             [](const auto& row) { return row["rss_bytes"] > 0; });
    return false;
  };
  CHECK(eventually(heard));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("replay: a head that goes on leaves the record of the one before it") {
  job_files job;
  auto arguments = job.up(with(endless, with(layout(2, 1), {"checkpoint.every=1"})));
  arguments.insert(arguments.end(), {"--record-actor", "run"});
  program up(arguments);
  REQUIRE(up.until_step(3));
  const auto first = job / "run/actors-head.trace";
  REQUIRE(fs::exists(first));
  REQUIRE(kill(head_of(up.pid()), SIGKILL) == 0);
  REQUIRE(up.until_error_has("recovered in"));
  const auto left = fs::file_size(first);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  CHECK(fs::file_size(first) == left);
  CHECK(fs::exists(job / "run/actors-head.2.trace"));
  CHECK(replayed(job / "run/actors-head.2.trace", "run")["same"] == true);
}

TEST_CASE("replay: a real run's actors do the same again") {
  job_files job;
  auto arguments =
      job.up(with(layout(1, 2), {"train.steps=4", "train.validate_every=2",
                                 "data.validation_fraction=0.1", "checkpoint.every=2"}));
  arguments.insert(arguments.end(), {"--record-actor", "*"});
  program up(arguments);
  REQUIRE(up.wait() == 0);
  const auto node0 = job / "run/actors-node0.trace";
  const auto node1 = job / "run/actors-node1.trace";
  const auto head = job / "run/actors-head.trace";
  for (const auto& [file, actor] : {std::pair{node0, "stage/0"},
                                    {node1, "stage/1"},
                                    {node0, "loader/node0"},
                                    {head, "run"},
                                    {head, "coordinator"}}) {
    CAPTURE(actor);
    const auto o = replayed(file, actor);
    CHECK(o["same"] == true);
    CHECK(o["messages"].get<int>() > 4);
    CHECK(o["handled"] == o["messages"]);
    CHECK(o["said_then"] == o["said_now"]);
    CHECK(o["said_now"].get<int>() > 4);
  }
  const auto worker = run({"replay", node0.string(), "--actor", "worker/0"});
  CHECK(worker.code == 69);
  CHECK(worker.err.find("device") != std::string::npos);
  const auto several = run({"replay", node0.string()});
  CHECK(several.code == 64);
  CHECK(several.err.find("stage/0") != std::string::npos);
  const auto stop = run({"replay", node0.string(), "--actor", "stage/0", "--break-at", "3"});
  CHECK(stop.code == 64);
  CHECK(stop.err.find("gdb -ex run --args troupe replay") != std::string::npos);
  CHECK(run({"replay", node0.string(), "--actor", "stage/0", "--break-at", "99999"}).code == 64);
  fs::resize_file(node0, fs::file_size(node0) - 5);
  CHECK(run({"replay", node0.string(), "--actor", "stage/0"}).code == 65);
  CHECK(run({"replay", (job / "job.toml").string()}).code == 65);
  CHECK(run({"replay", (job / "none").string()}).code == 66);
  fs::remove(job / "data.txt");
}

TEST_CASE("replay: the pacer of a job under a power budget decides the same again") {
  if (is_metered_here()) return;
  const own_signs signs;
  served_row row(
      budget_file(signs.folder, "row0", 120, child_of_budget("gpt-a", "high", 10, 60, 120)));
  REQUIRE(until_row_knows());
  job_files job;
  auto words = job.up(with(with(constant_watts, {"job.name=gpt-a", "power.parent=auto"}), endless));
  words.insert(words.end(), {"--record-actor", "pacer"});
  program up(words);
  REQUIRE(up.until_step(20));
  up.signal(SIGINT);
  REQUIRE(up.wait() == 128 + SIGINT);
  const auto o = replayed(job / "run/actors-head.trace", "pacer");
  INFO(o.dump());
  CHECK(o["same"] == true);
  CHECK(o["messages"].get<int>() > 20);
  CHECK(o["handled"] == o["messages"]);
  CHECK(o["said_now"].get<int>() > 20);
  row.end();
}

TEST_CASE("replay: what actors said of themselves when they were asked they say again") {
  job_files job;
  auto arguments = job.up({"train.steps=1000000", "train.schedule=constant"});
  arguments.insert(arguments.end(), {"--record-actor", "*"});
  program up(arguments);
  REQUIRE(up.until_step(2));
  CHECK(run({"send", "*", "StatusRequest", "--connect", "127.0.0.1:" + std::to_string(up.port())})
            .code == 0);
  up.signal(SIGINT);
  REQUIRE(up.wait() == 130);
  for (const auto& [node, actor] : {std::pair{"node0", "stage/0"},
                                    {"node0", "loader/node0"},
                                    {"head", "run"},
                                    {"head", "coordinator"}}) {
    CAPTURE(actor);
    CHECK(replayed(job / fmt::format("run/actors-{}.trace", node), actor)["same"] == true);
  }
}

TEST_CASE("replay: a recording from the middle of a run is refused with what to do") {
  job_files job;
  program up(job.up({"train.steps=1000000", "train.schedule=constant"}));
  REQUIRE(up.until_step(2));
  const auto file = (job / "midway.trace").string();
  const auto done = run({"trace", "record", file, "--payloads", "--actor", "stage/0", "--seconds",
                         "1", "--connect", "127.0.0.1:" + std::to_string(up.port())});
  REQUIRE(done.code == 0);
  const auto refused = run({"replay", file, "--actor", "stage/0"});
  CHECK(refused.code == 65);
  CHECK(refused.err.find("--record-actor") != std::string::npos);
}
