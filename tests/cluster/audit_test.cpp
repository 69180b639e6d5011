// A full disk under the audit log: what cannot be recorded is refused, what must not wait is done.
#include <csignal>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/mounts.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// The commands that stand in the audit log.
std::vector<std::string> commands_of(const fs::path& file) {
  std::vector<std::string> out;
  for (const auto& line : objects_in(file)) out.push_back(line["command"]);
  return out;
}

}  // namespace

TEST_CASE("audit: with a full disk commands are refused and the status says so, a pause is done") {
  if (const auto why = why_no_mounts()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  job_files job;
  mounts disk;
  const auto output = job / "run";
  if (const auto failed = disk.mount("-t tmpfs -o size=64m tmpfs", output)) {
    MESSAGE("SKIPPED: no tmpfs: " << *failed);
    return;
  }
  program up(job.up(with(endless, {"checkpoint.dir=" + (job / "checkpoints").string()})));
  REQUIRE(up.until_step(1));
  const auto at = "127.0.0.1:" + std::to_string(up.port());
  const auto say = [&](const std::string& words) {
    return run({"console", "--connect", at, "-c", words});
  };
  REQUIRE(say("pause").code == 0);
  REQUIRE(up.until_error_has("paused after step"));
  shell(fmt::format("dd if=/dev/zero of='{}' bs=64k", (output / "filler").string()));

  const auto refused = say("set train.lr 1e-4");
  INFO(refused.err);
  CHECK(refused.code == 1);
  CHECK(refused.err.find("the audit log cannot be written") != std::string::npos);
  const auto view = json::parse(run({"ps", "--connect", at, "--json"}).out);
  CHECK(view["healthy"] == false);
  CHECK(view["why"].get<std::string>().find("No space left") != std::string::npos);
  say("pause again");
  CHECK(commands_of(output / "audit.jsonl") == std::vector<std::string>{"Pause", "Pause"});

  fs::remove(output / "filler");
  CHECK(say("set train.lr 1e-4").code == 0);
  CHECK(json::parse(run({"ps", "--connect", at, "--json"}).out)["healthy"] == true);
  CHECK(commands_of(output / "audit.jsonl").back() == "SetValue");
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}
