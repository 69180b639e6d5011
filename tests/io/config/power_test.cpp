// [power]: what is refused together.
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/config/load.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;

TEST_CASE("config: a power budget needs meters that are read") {
  const scratch folder;
  const auto path = (folder / "job.toml").string();
  std::ofstream(path) << "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";
  const auto problems = [&](std::vector<std::string> sets) {
    return config::read({path, {}, std::move(sets)}).problems;
  };
  CHECK(problems({"power.budget_w=40"}).empty());
  CHECK(problems({"power.meter_interval_ms=0"}).empty());
  const auto both = problems({"power.budget_w=40", "power.meter_interval_ms=0"});
  REQUIRE(both.size() == 1);
  CHECK(config::render(both[0]).find("power.meter_interval_ms") != std::string::npos);
  CHECK(problems({"power.ramp_w_s=40"}).empty());
  CHECK(problems({"power.ramp_w_s=40", "power.meter_interval_ms=0"}).size() == 1);
  CHECK(problems({"power.ramp_w_s=40", "power.dry_run=true"}).empty());
  const auto dry = problems({"power.dry_run=true"});
  REQUIRE(dry.size() == 1);
  CHECK(config::render(dry[0]).find("power.dry_run") != std::string::npos);
}

TEST_CASE("config: a ramp is a bound as a budget is, and a dry run sets no device") {
  const std::string base = "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";
  CHECK_FALSE(job_of_text(base, {}).power.is_budgeted());
  CHECK(job_of_text(base, {"power.ramp_w_s=5"}).power.is_budgeted());
  CHECK(job_of_text(base, {"power.ramp_w_s=5", "power.control=cgroup"}).power.is_by_actuator());
  CHECK_FALSE(job_of_text(base, {"power.budget_w=5", "power.control=cgroup", "power.dry_run=true"})
                  .power.is_by_actuator());
}

TEST_CASE("PCT-1: config: what makes a job slower is known, and in an order that can be meant") {
  const std::string base = "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";
  CHECK_FALSE(job_of_text(base, {"power.budget_w=40"}).power.is_by_actuator());
  CHECK_FALSE(job_of_text(base, {"power.control=cgroup"}).power.is_by_actuator());  // no budget
  CHECK_FALSE(
      job_of_text(base, {"power.budget_w=40", "power.control=pace"}).power.is_by_actuator());
  CHECK(job_of_text(base, {"power.budget_w=40", "power.control=cgroup"}).power.is_by_actuator());
  for (const char* name : {"cpufreq", "rapl", "nvml_clocks", "nvml_limit"})
    CHECK(job_of_text(base, {"power.budget_w=40", std::string("power.control=") + name})
              .power.is_by_actuator());
  const scratch folder;
  std::ofstream(folder / "job.toml") << base;
  for (const char* right :
       {R"(power.control=["nvml_clocks", "nvml_limit"])", R"(power.control=["cpufreq", "rapl"])",
        R"(power.control=["cgroup", "pace"])",
        R"(power.control=["nvml_clocks", "cpufreq", "nvml_limit", "rapl", "cgroup", "pace"])"}) {
    CAPTURE(right);
    const auto problems = config::read({(folder / "job.toml").string(), {}, {right}}).problems;
    CHECK(problems.empty());
  }
  CHECK(job_of_text(base, {"power.budget_w=40", R"(power.control=["nvml_clocks", "pace"])"})
            .power.actuators() == std::vector<std::string>{"nvml_clocks", "pace"});
  CHECK(job_of_text(base, {"power.budget_w=40", "power.control=pace"}).power.actuators().empty());
  for (const char* wrong :
       {R"(power.control=["pace", "cgroup"])", "power.control=clocks",
        R"(power.control=["cgroup", "cgroup"])", R"(power.control=["nvml_limit", "nvml_clocks"])",
        R"(power.control=["rapl", "cgroup", "cpufreq"])",
        R"(power.control=["cpufreq", "pace", "cgroup"])"}) {
    CAPTURE(wrong);
    const auto problems = config::read({(folder / "job.toml").string(), {}, {wrong}}).problems;
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].key == "power.control");
    CHECK(problems[0].code == errc::bad_config);
  }
}

TEST_CASE("config: slack needs a plan, a pipeline, and something that sets clocks") {
  const std::string base =
      "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n[parallel]\npipeline "
      "= 2\n"
      "[cluster]\nworkers_per_node = 2\n";
  const std::vector<std::string> whole{"power.slack=plan", "power.profile=clocks.csv",
                                       "power.blocking_w=84", "power.control=nvml_clocks"};
  const auto job = job_of_text(base, whole);
  CHECK(job.power.takes_slack());
  CHECK_FALSE(job.power.is_budgeted());
  CHECK(job.power.actuators() == std::vector<std::string>{"nvml_clocks"});
  CHECK_FALSE(job_of_text(base, {"power.control=nvml_clocks"}).power.is_by_actuator());
  const scratch folder;
  std::ofstream(folder / "job.toml") << base;
  const auto keys = [&](const std::vector<std::string>& more) {
    auto sets = whole;
    sets.insert(sets.end(), more.begin(), more.end());
    std::vector<std::string> out;
    for (const auto& p : config::read({(folder / "job.toml").string(), {}, sets}).problems)
      out.push_back(p.key);
    return out;
  };
  CHECK(keys({}).empty());
  CHECK(keys({R"(power.control=["nvml_clocks", "pace"])"}).empty());
  CHECK(keys({"power.profile="}).empty());  // it is measured
  for (const char* wrong :
       {"power.control=pace", "power.control=cgroup", "power.control=nvml_limit",
        "power.blocking_w=0", "parallel.pipeline=1"}) {
    CAPTURE(wrong);
    CHECK(keys({wrong}).size() == 1);
  }
  CHECK(keys({"power.budget_w=40", "power.dry_run=true"}).size() == 1);
}
