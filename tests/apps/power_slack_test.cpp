// `troupe power slack` through the built program: what it prints and refuses.
#include <algorithm>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/apps/pipeline_profile.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

namespace {

/// The verb in a folder that holds p.csv.
ended slack_in(const scratch& in, const std::string& more) {
  std::ofstream(in / "p.csv") << pipeline_profile();
  return run_in(in.path,
                "'" TROUPE_PROGRAM "' power slack p.csv --micro-batches 4 --blocking-w 60 " + more);
}

}  // namespace

TEST_CASE("power slack: the step is as long, and a straggler is followed and let go") {
  scratch in;
  const auto done = slack_in(in, "--steps 30 --straggler 1.2 --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  CHECK(j.at("stages") == 3);
  CHECK(j.at("saved") > 0.02);
  CHECK(j.at("saved").get<double>() ==
        doctest::Approx(j.at("saved_by_plan").get<double>()).epsilon(0.15));
  CHECK(j.at("longer") <= 0.005);
  const auto& steps = j.at("steps");
  REQUIRE(steps.size() == 30);
  CHECK(steps[0].at("state") == "measuring");
  CHECK(steps[9].at("state") == "planned");
  CHECK(steps[15].at("state") == "held");
  CHECK(steps[15].at("energy_j") < steps[15].at("without_j"));
  CHECK(steps[21].at("state") == "planned");
  for (const auto& s : steps) CHECK(s.at("late") == 0);
  CHECK(slack_in(in, "--steps 30 --straggler 1.2 --json").out == done.out);
  const auto told = slack_in(in, "--steps 30 --straggler 1.2");
  CHECK(told.code == 0);
  for (const auto* part : {"saved by steps that are", "measuring", "held", "too late"})
    CHECK_MESSAGE(told.out.find(part) != std::string::npos, told.out);
}

TEST_CASE("power slack: what saves no energy is refused with the reason, as what cannot be") {
  scratch in;
  const auto refused = [&](const std::string& more, std::string_view says) {
    CAPTURE(more);
    const auto done = slack_in(in, more);
    CHECK(done.code == 64);
    CHECK(done.out.empty());
    CHECK_MESSAGE(done.talk.find(says) != std::string::npos, done.talk);
    CHECK(done.talk.find("hint: ") != std::string::npos);
  };
  refused("--control pace", "the same joules, later");
  refused("--control cgroup", "the same joules, later");
  refused("--control nvml_limit", "sets no clocks");
  refused("--control clocks", "sets no clocks");
  refused("--replicas 0", "--replicas is 0");
  refused("--set-ms -1", "--set-ms is -1");
  refused("--straggler 0.5", "--straggler is 0.5");
}

}  // namespace troupe
