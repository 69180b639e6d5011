// The audit log of a served budget: lines with their results, refusals, and a disk that is full.
#include "apps/power/budget_audit.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
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

refusal refused_reader() {
  return {{"bob", tls::role::reader}, "budget", make_msg<fbs::SetPowerBudget>(), "10.0.0.8"};
}

/// What a person is told on stderr, while it lives.
class overheard {
 public:
  explicit overheard(const std::filesystem::path& file)
      : file_(file), before_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) {
    const io::unique_fd to(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    REQUIRE(to);
    REQUIRE(dup2(to.get(), STDERR_FILENO) == STDERR_FILENO);
  }
  ~overheard() { dup2(before_.get(), STDERR_FILENO); }
  overheard(const overheard&) = delete;
  overheard& operator=(const overheard&) = delete;

  /// Lines with that in them.
  size_t lines(const std::string& part) const {
    std::ifstream in(file_);
    size_t out = 0;
    for (std::string line; std::getline(in, line);) out += line.find(part) != std::string::npos;
    return out;
  }

 private:
  const std::filesystem::path file_;
  const io::unique_fd before_;
};

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
  audit.refused(refused_reader());
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

TEST_CASE("PAU-3: budget audit: that lines are written again is told by a line that is written") {
  const scratch folder;
  const auto file = folder / "audit.jsonl";
  std::filesystem::create_symlink("/dev/full", file);
  budget_audit audit(file, "row0", {});
  const overheard talk(folder / "talk");
  for (uint64_t i = 0; i < 2 * trace::audit_log::refusals_per_minute; ++i) {
    audit.refused(refused_reader());
    REQUIRE(audit.settle(audit_patience));  // the later ones are left out, and fail not
  }
  CHECK(talk.lines("is not written") == 1);
  CHECK(talk.lines("is written again") == 0);
  std::filesystem::rename(file, folder / "full");
  audit.ends(1, "nobody has begun it");
  REQUIRE(audit.settle(audit_patience));
  CHECK(talk.lines("is written again") == 0);
  for (uint64_t i = 1; i <= 2; ++i) {
    audit.begins(i, brake_by("alice"));
    audit.ends(i, "done");
  }
  REQUIRE(audit.settle(audit_patience));
  CHECK(talk.lines("is not written") == 1);
  CHECK(talk.lines("is written again") == 1);
  CHECK(audit_lines(file).size() == 2);
}

TEST_CASE("PAU-4: budget audit: a line whose result never comes gives way to later ones") {
  const scratch folder;
  budget_audit audit(folder / "audit.jsonl", "row0", {}, 2);
  for (uint64_t i = 1; i <= 3; ++i) {
    audit.begins(i, brake_by("alice"));
    REQUIRE(audit.settle(audit_patience));
  }
  for (uint64_t i = 1; i <= 3; ++i) {
    audit.ends(i, "done");
    REQUIRE(audit.settle(audit_patience));
  }
  const auto seen = audit_lines(folder / "audit.jsonl");
  REQUIRE(seen.size() == 3);
  CHECK(seen[0]["result"] == "asked");
  CHECK(seen[1]["result"] == "done");
  CHECK(seen[2]["result"] == "done");
}
