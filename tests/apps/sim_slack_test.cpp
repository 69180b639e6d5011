// `troupe sim --slack` through the built program: what it says of a job's slack, and refuses.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

namespace {

ended sim_in(const scratch& in, const std::string& more) {
  return run_in(in.path, "'" TROUPE_PROGRAM "' sim --nodes 4 --checkpoint-every 0 " + more);
}

}  // namespace

TEST_CASE("sim --slack: a simulated job runs at planned clocks, and says what that took") {
  scratch in;
  const std::string words = "--pipeline 4 --micro-batches 8 --steps 40 --slack profile";
  const auto done = sim_in(in, words + " --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  CHECK(j.at("violation").is_null());
  const auto& slack = j.at("slack");
  CHECK(slack.at("planned_steps") > 20);
  CHECK(slack.at("trials") == 0);
  CHECK(slack.at("joules_a_step_planned") < slack.at("joules_a_step_highest"));
  const auto told = sim_in(in, words);
  CHECK(told.code == 0);
  CHECK_MESSAGE(told.out.find("at planned clocks") != std::string::npos, told.out);
  CHECK(!nlohmann::json::parse(sim_in(in, "--steps 3 --json").out).contains("slack"));
}

TEST_CASE("sim --slack: what does not go together is refused") {
  scratch in;
  for (const auto* words : {"--slack profile", "--pipeline 2 --slack profile --swap",
                            "--pipeline 2 --slack profile --heads 3", "--slack never",
                            "--pipeline 4 --micro-batches 200 --slack profile",
                            "--fuzz 1 --slack profile --budget-w 1"}) {
    CAPTURE(words);
    CHECK(sim_in(in, words).code == 64);
  }
}

}  // namespace troupe
