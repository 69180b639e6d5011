// What of a job's power is on the disk once its process has ended.
#include "apps/up/power_files.hpp"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps;

namespace {

config::job job_in(const scratch& folder, double budget_w) {
  config::job out;
  out.job.output = folder.path.string();
  out.power.budget_w = budget_w;
  return out;
}

}  // namespace

TEST_CASE("power files: the journal of a job goes on over its processes, with the time of day") {
  const scratch folder;
  for (const auto* line : {"{\"event\":\"begins\"}", "{\"event\":\"pace\"}"}) {
    const power_files files(job_in(folder, 60));
    const auto journal = files.journal();
    REQUIRE(journal);
    journal(line);
  }
  const auto text = content(folder / "power.jsonl");
  const auto end = text.find('\n');
  REQUIRE(end != std::string::npos);
  const auto first = nlohmann::json::parse(text.substr(0, end));
  const auto second = nlohmann::json::parse(text.substr(end));
  CHECK(first["event"] == "begins");
  CHECK(first["unix_s"].is_number());
  CHECK(second["event"] == "pace");
}

TEST_CASE("power files: a job without a budget keeps no journal") {
  const scratch folder;
  const power_files files(job_in(folder, 0));
  CHECK_FALSE(files.journal());
  CHECK_FALSE(std::filesystem::exists(folder / "power.jsonl"));
}
