// A job under a power budget, with real processes: whether it may make steps follows what is said
// of its machine, which is a model here that no other work on it changes; and bits are those
// without a budget.
#include <csignal>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

/// 50 W, whatever the machine does.
const std::vector<std::string> constant{
    "power.model_idle_w=50", "power.model_core_w=0", "power.meter_interval_ms=100",
    "cluster.heartbeat_interval_ms=100", "checkpoint.resume=never"};

/// Files of the kernel and a driver that a meter may read.
bool a_meter_says_watts() {
  std::error_code none;
  if (fs::exists("/proc/driver/nvidia", none)) return true;
  for (const char* folder : {"/sys/class/powercap", "/sys/class/hwmon"})
    for (const auto& device : fs::directory_iterator(folder, none))
      for (const auto& file : fs::directory_iterator(device.path(), none)) {
        const auto name = file.path().filename().string();
        if (name == "energy_uj" || name.starts_with("power")) return true;
      }
  return false;
}

finished say(const program& up, const std::string& line) {
  return run({"console", "-c", line, "--connect", "127.0.0.1:" + std::to_string(up.port())});
}

}  // namespace

TEST_CASE("PWR-3: a job whose budget has no room waits, says why, and goes on once it has some") {
  if (a_meter_says_watts()) {
    MESSAGE("skipped: a meter measures this machine, and what it says is not the test's");
    return;
  }
  job_files job;
  program up(job.up(with(constant, with(layout(2, 1), {"power.budget_w=40"}))));
  REQUIRE(up.until_error_has("waits for power: the machines draw 50 W without steps"));
  CHECK(up.objects("step").empty());
  const auto at = "127.0.0.1:" + std::to_string(up.port());
  const auto shown = run({"power", "status", "--json", "--connect", at});
  REQUIRE(shown.code == 0);
  const auto j = nlohmann::json::parse(shown.out);
  CHECK(j["budget_w"] == 40);
  CHECK(j["power_w"] == 50);
  CHECK(j["power_source"] == "modelled");
  CHECK(j["pace_percent"] == 0);
  REQUIRE(j["machines"].size() == 1);
  const auto told = say(up, "power").out;
  CHECK_MESSAGE(told.find("waits: the machines draw 50 W without steps") != told.npos, told);
  CHECK(say(up, "resume").code == 1);  // no person paused it
  CHECK(say(up, "power budget -1").code == 1);
  CHECK(say(up, "power budget 70").code == 0);
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
  const auto alone = job.losses(with(with(constant, layout(2, 1)), {"power.model_idle_w=0"}));
  CHECK(up.losses() == alone);
}

TEST_CASE(
    "PWR-3: where nothing says watts a budget lets no step begin, and the reason names the keys") {
  if (a_meter_says_watts()) {
    MESSAGE("skipped: a meter measures this machine");
    return;
  }
  job_files job;
  program up(job.up(
      {"power.budget_w=40", "power.meter_interval_ms=100", "cluster.heartbeat_interval_ms=100"}));
  REQUIRE(up.until_error_has("power.model_idle_w"));
  CHECK(up.objects("step").empty());
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
  CHECK(up.objects("step").empty());
}
