// A job under a power budget, with real processes: whether it may make steps follows what is said
// of its machine, which is a model here that no other work on it changes; and bits are those
// without a budget.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cluster/constant_watts.hpp"

using namespace troupe::cluster_test;

TEST_CASE("PWR-3: a job whose budget has no room waits, says why, and goes on once it has some") {
  if (is_metered_here()) return;
  job_files job;
  const auto gauges = job / "t.prom";
  program up(
      job.up(with(constant_watts,
                  with(layout(2, 1), {"power.budget_w=40", "power.textfile=" + gauges.string()}))));
  REQUIRE(up.until_error_has("waits for power: the machines draw 50 W without steps"));
  CHECK(up.objects("step").empty());
  const auto shown =
      run({"power", "status", "--json", "--timeout-ms", "60000", "--connect", job_address(up)});
  REQUIRE(shown.code == 0);
  const auto j = nlohmann::json::parse(shown.out);
  CHECK(j["budget_w"] == 40);
  CHECK(j["power_w"] == 50);
  CHECK(j["power_source"] == "modelled");
  CHECK(j["pace_percent"] == 0);
  REQUIRE(j["machines"].size() == 1);
  const auto told = told_at_console(up, "power").out;
  CHECK_MESSAGE(told.find("waits: the machines draw 50 W without steps") != told.npos, told);
  CHECK(told_at_console(up, "resume").code == 1);  // no person paused it
  CHECK(told_at_console(up, "power budget -1").code == 1);
  CHECK(told_at_console(up, "power budget 70").code == 0);
  CHECK(up.wait() == 0);
  CHECK(up.err().find("goes on: its power budget has room") != std::string::npos);
  const auto steps = up.objects("step");
  REQUIRE(steps.size() == 20);
  for (const auto& step : steps) {
    CHECK(step["power_w"] == 50);
    CHECK(step["power_source"] == "modelled");
  }
  REQUIRE(up.objects("summary").size() == 1);
  CHECK(up.objects("summary")[0]["energy_source"] == "modelled");
  CHECK(up.objects("summary")[0]["energy_j"] > 0);
  std::vector<std::string> rules;
  std::ifstream journal(job / "run/power.jsonl");
  for (std::string line; std::getline(journal, line);)
    if (const auto entry = nlohmann::json::parse(line); entry["event"] == "pace")
      rules.push_back(entry["rule"].get<std::string>());
  CHECK(std::find(rules.begin(), rules.end(), "draw") != rules.end());
  CHECK(std::find(rules.begin(), rules.end(), "budget") != rules.end());
  std::ifstream prom(gauges);
  const std::string said{std::istreambuf_iterator<char>(prom), {}};
  CHECK_MESSAGE(said.find("troupe_power_pace_ratio{job=\"t\"}") != said.npos, said);
  const auto alone = job.losses(with(with(constant_watts, layout(2, 1)), {"power.model_idle_w=0"}));
  CHECK(up.losses() == alone);
}

TEST_CASE(
    "PWR-3: where nothing says watts a budget lets no step begin, and the reason names the keys") {
  if (is_metered_here()) return;
  job_files job;
  program up(job.up(
      {"power.budget_w=40", "power.meter_interval_ms=100", "cluster.heartbeat_interval_ms=100"}));
  REQUIRE(up.until_error_has("power.model_idle_w"));
  CHECK(up.objects("step").empty());
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
  CHECK(up.objects("step").empty());
}
