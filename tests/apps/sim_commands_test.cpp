// `troupe sim` through the built program: what its flags do, and which do not go together.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/command_folder.hpp"

using namespace troupe::commands_test;

TEST_CASE("commands: sim --swap has drives, and says what does not go together") {
  folder here;
  const auto done = sh(here, "troupe sim --swap --nodes 2 --steps 4 --faults slow_disk --json");
  REQUIRE(done.code == 0);
  const auto facts = nlohmann::json::parse(done.out);
  CHECK(facts["swap"]["operations"] > 0);
  CHECK(facts["swap"]["checkpoints_by_links"] > 0);
  CHECK(facts["ends"] == nlohmann::json{"success"});
  CHECK(sh(here, "troupe sim --steps 2 --json").out.find("swap") == std::string::npos);
  CHECK(sh(here, "troupe sim --swap --heads 3").code == 64);
  CHECK(sh(here, "troupe sim --swap --scale").code == 64);
  CHECK(sh(here, "troupe sim --swap --budget-w 900").code == 64);
  CHECK(sh(here, "troupe sim --heads 3 --budget-w 900").code == 64);
  CHECK(sh(here, "troupe sim --heads 3 --power-parent-w 900").code == 64);
  CHECK(sh(here, "troupe sim --faults full_disk").talk.find("--swap") != std::string::npos);
}

TEST_CASE("commands: sim --power-parent-w has a budget above its job, which can be lost") {
  folder here;
  const auto done = sh(here,
                       "troupe sim --power-parent-w 900 --steps 20 --fault lose_governor@3+2 "
                       "--fault lose_grant@9000 --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto facts = nlohmann::json::parse(done.out);
  CHECK(facts["ends"] == nlohmann::json{"success"});
  CHECK(facts["faults"].size() + facts["faults_without_effect"].size() == 2);
  CHECK(sh(here, "troupe sim --power-parent-w 100").code == 78);
  const auto alone = sh(here, "troupe sim --budget-w 900 --faults lose_governor");
  CHECK(alone.code == 64);
  CHECK(alone.talk.find("--power-parent-w") != std::string::npos);
  CHECK(sh(here, "troupe sim --budget-w 900 --fault lose_governor@3").code == 64);
}

TEST_CASE("commands: sim --watts-out writes what power swings reads") {
  folder here;
  const std::string sim = "troupe sim --micro-batches 16 --steps 200 --watts-out watts.csv";
  REQUIRE(sh(here, sim + " --checkpoint-every 50 --save-s 2 --blocking-saves").code == 0);
  const auto done = sh(here, "troupe power swings watts.csv --tdp-w 1400 --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  CHECK(sh(here, sim + " --heads 3").code == 64);
  CHECK(sh(here, sim + " --fuzz 3").code == 64);
}

TEST_CASE("commands: sim FILE runs a job's cluster, says what it leaves out, and what missed") {
  folder here;
  here.write("run.toml",
             job + "workers_per_node = 2\nthreads = 1\n[train]\nsteps = 4\nbatch = 4\n");
  here.write("text", std::string(600, 'a'));
  const std::string line = "troupe sim run.toml --gflops 1 --fault save_now@9000 ";
  const auto done = sh(here, line + "--json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  auto facts = nlohmann::json::parse(done.out);
  CHECK(facts["ends"] == nlohmann::json{"success"});
  CHECK(facts["last_step"] == 4);
  CHECK(facts["job"]["workers"] == 4);
  CHECK(facts["job"]["stages"].size() == 1);
  CHECK(facts["job"]["not_simulated"].size() >= 2);  // of the text, and of threads
  REQUIRE(facts["faults_without_effect"].size() == 1);
  CHECK(facts["faults_without_effect"][0]["fault"] == "save_now@9000");
  CHECK(nlohmann::json::parse(sh(here, line + "--json").out)["fingerprint"] ==
        facts["fingerprint"]);
  const auto told = sh(here, line).out;
  for (const auto* word : {"save_now@9000", "data.path", "cluster.threads", "GFLOP/s"})
    CHECK(told.find(word) != std::string::npos);
  const auto bad = sh(here, "troupe sim run.toml --set train.stesp=3");
  CHECK(bad.code == 78);
  CHECK(bad.talk == sh(here, "troupe plan run.toml --set train.stesp=3").talk);
  CHECK(sh(here, "troupe sim none.toml").code == 66);
  CHECK(sh(here, line + "--fault crash_node:node7@1").code == 64);
  CHECK(sh(here, line + "--nodes 3").code == 64);
  CHECK(sh(here, "troupe sim --set train.steps=3").code == 64);
  CHECK(sh(here, "troupe sim --steps 2 --fault slow_device:9@1").code == 64);
}
