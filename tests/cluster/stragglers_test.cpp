// A cluster of real processes, one of which gets an eighth of its time: it is named, and with
// recovery.evict_slow a spare takes its place, at the cost of no bit of a loss.
#include <csignal>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/slowed_process.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// Steps that are long beside those turns, windows that a test can wait for, and a limit that a
/// machine with other work on it does not reach by itself for long.
const std::vector<std::string> watched_steps{"train.batch=128",
                                             "train.schedule=\"constant\"",
                                             "model.hidden=128",
                                             "health.window_s=1",
                                             "health.straggler_percent=20",
                                             "checkpoint.every=20",
                                             "cluster.heartbeat_interval_ms=100",
                                             "cluster.suspect_after_ms=60000",
                                             "cluster.dead_after_ms=120000"};

std::string address_of(const program& up) {
  return "127.0.0.1:" + std::to_string(up.port());
}

/// As a program is told of it. Where a machine has much else to do, the other one may be, too.
bool is_told(const json& findings) {
  for (const auto& f : findings) {
    if (f["name"] != "straggler" || f["node"] != "node1") continue;
    CHECK(f["rank"] == 1);
    CHECK(f["seen"] >= f["wanted"]);
    CHECK(f["text"].get<std::string>().find("slow_host") != std::string::npos);
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("stragglers: a process that gets an eighth of its time is named, and steps without it") {
  job_files job;
  program up(job.up(with(endless, with(layout(2, 1), watched_steps))));
  REQUIRE(up.until_step(4));
  const auto asked = [&](std::vector<std::string> words) {
    return run(with(std::move(words), {"--connect", address_of(up)}));
  };
  {
    slowed_process victim(node_named(up.port(), "node1"));
    REQUIRE(up.until_error_has("straggler rank 1 (node1): +"));  // for 30 s at least
    const auto said = asked({"health"});
    CHECK(said.code == 1);
    CHECK(said.out.find("straggler rank 1 (node1): +") != std::string::npos);
    CHECK(is_told(json::parse(asked({"health", "--json"}).out)["findings"]));
    const auto status = asked({"status", "monitor"});
    CHECK(status.out.find("straggler rank 1 (node1): +") != std::string::npos);
  }
  REQUIRE(up.until_error_has("node node1 was examined (straggler): "));
  CHECK(up.err().find("recovery") == std::string::npos);  // nobody said that it may be evicted
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("stragglers: a spare takes the place of one that is slow for long, at no bit of a loss") {
  job_files job;
  const auto sets = with(watched_steps, layout(2, 1));
  program up(job.up(with(with(endless, sets), {"recovery.enabled=true", "recovery.evict_slow=true",
                                               "cluster.spares=1"})));
  REQUIRE(up.until_error_has("spare node2 joined"));
  REQUIRE(up.until_step(4));
  {
    slowed_process victim(node_named(up.port(), "node1"));
    REQUIRE(up.until_error_has("recovery 1 (epoch 1 -> 2): spare node2 for node1"));
  }
  REQUIRE(up.until_error_has("recovered in"));
  int64_t last = 0;
  for (const auto& step : up.objects("step")) last = std::max<int64_t>(last, step["step"]);
  REQUIRE(up.until_step(last + 5));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  CHECK(up.err().find("straggler rank 1 (node1): +") != std::string::npos);
  for (const auto& step : up.objects("step")) last = std::max<int64_t>(last, step["step"]);
  const auto truth =
      job.losses(with(sets, {fmt::format("train.steps={}", last),
                             fmt::format("job.output={}", (job / "undisturbed").string())}));
  REQUIRE(std::ssize(truth) == last);
  for (const auto& step : up.objects("step")) {
    const size_t number = step["step"];
    CHECK(step["loss"].get<double>() == truth[number - 1]);
  }
  const auto kept = objects_in(job / "run/incidents.jsonl");
  REQUIRE_FALSE(kept.empty());
  const auto& incident = kept.front();
  CHECK(incident["finding"] == "straggler");
  CHECK(incident["node"] == "node1");
  CHECK(incident["done"].get<std::string>().find("spare node2 for node1") == 0);
}
