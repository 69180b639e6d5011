// The audit log of a served budget: lines with their results, refusals, and a disk that is full.
#include "apps/power/budget_audit.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "messages/msg.hpp"
#include "messages/schemas/power_generated.h"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;
namespace {

constexpr std::chrono::seconds audit_patience{60};

power::order_said brake_by(const std::string& who) {
  return {who, "operator", "10.0.0.7", "SetPowerBrake", "{\"on\":true}"};
}

std::vector<nlohmann::json> audit_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> out;
  for (std::string line; std::getline(file, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

}  // namespace

TEST_CASE("PAU-2: budget audit: an order stands there before it is done, then with its result") {
  const scratch folder;
  budget_audit audit(folder / "audit.jsonl", "row0", [] { return "noon"; });
  audit.begins(1, brake_by("alice"));
  audit.begins(2, brake_by("carol"));
  REQUIRE(audit.settle(audit_patience));
  auto seen = audit_lines(folder / "audit.jsonl");
  REQUIRE(seen.size() == 2);
  CHECK(seen[0]["result"] == "asked");
  CHECK(seen[0]["time"] == "noon");
  CHECK(seen[0]["who"] == "alice");
  CHECK(seen[0]["role"] == "operator");
  CHECK(seen[0]["from"] == "10.0.0.7");
  CHECK(seen[0]["command"] == "SetPowerBrake");
  CHECK(seen[0]["target"] == "row0");
  CHECK(seen[0]["message"] == "{\"on\":true}");
  audit.ends(2, "row0 holds all work");
  audit.ends(1, "as before");
  audit.ends(3, "nobody has begun it");
  REQUIRE(audit.settle(audit_patience));
  seen = audit_lines(folder / "audit.jsonl");
  REQUIRE(seen.size() == 2);
  CHECK(seen[0]["result"] == "as before");
  CHECK(seen[1]["result"] == "row0 holds all work");
}

TEST_CASE("PSV-8: budget audit: who may not is named there, with his address") {
  const scratch folder;
  budget_audit audit(folder / "audit.jsonl", "row0", {});
  audit.refused(
      {{"bob", tls::role::reader}, "budget", make_msg<fbs::SetPowerBudget>(), "10.0.0.8"});
  REQUIRE(audit.settle(audit_patience));
  const auto seen = audit_lines(folder / "audit.jsonl");
  REQUIRE(seen.size() == 1);
  CHECK(seen[0]["who"] == "bob");
  CHECK(seen[0]["role"] == "reader");
  CHECK(seen[0]["from"] == "10.0.0.8");
  CHECK(seen[0]["target"] == "budget");
  CHECK(seen[0]["command"] == "SetPowerBudget");
  CHECK(seen[0]["result"].get<std::string>().starts_with("refused: "));
}

TEST_CASE("PAU-1: budget audit: a disk that takes nothing holds up nobody, and is counted") {
  budget_audit audit("/dev/full", "row0", {});
  for (uint64_t i = 1; i <= 3; ++i) {
    audit.begins(i, brake_by("alice"));
    audit.ends(i, "done");
  }
  REQUIRE(audit.settle(audit_patience));
  CHECK(audit.log()->failures() >= 3);
  CHECK(!audit.log()->trouble().empty());
}
