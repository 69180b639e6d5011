// What of a job's power is on the disk once its process has ended.
#include "apps/up/power_files.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/power/power_status.hpp"
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
  CHECK_FALSE(files.shown());
  CHECK_FALSE(std::filesystem::exists(folder / "power.jsonl"));
}

TEST_CASE("power files: the file for monitoring says what troupe power status --prometheus does") {
  const scratch folder;
  fbs::ClusterViewT view;
  view.job = "gpt-a";
  auto actor = std::make_unique<fbs::ActorInfoT>();
  actor->values = std::make_unique<fbs::StatusValuesT>();
  actor->values->pacer = std::make_unique<fbs::PacerStatusT>();
  actor->values->pacer->budget_w = 44;
  view.nodes.push_back(std::make_unique<fbs::ActorListT>());
  view.nodes.back()->node = "head";
  view.nodes.back()->actors.push_back(std::move(actor));
  const auto wanted = power_verb::status_prometheus(power_verb::job_power_in(view));
  CHECK(wanted.find("troupe_power_budget_watts{job=\"gpt-a\"} 44\n") != std::string::npos);
  auto job = job_in(folder, 0);
  job.power.textfile = folder / "job.prom";
  {
    const power_files files(job);
    const auto shown = files.shown();
    REQUIRE(shown);
    shown(std::move(view));
  }
  CHECK(content(folder / "job.prom") == wanted);
}
