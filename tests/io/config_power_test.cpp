// [power] in a configuration: the power budget above a job, and what makes no sense with it.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;

namespace {

const std::string powered_job =
    "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";

std::vector<std::string> certified(std::vector<std::string> sets) {
  for (const auto* key : {"ca", "certificate", "key"})
    sets.push_back(std::string("cluster.tls.") + key + "=" + key + ".pem");
  return sets;
}

}  // namespace

TEST_CASE("a job is budgeted by its own budget, and by a power budget above it") {
  CHECK(!job_of_text(powered_job, {}).power.is_budgeted());
  CHECK(job_of_text(powered_job, {"power.budget_w=40"}).power.is_budgeted());
  CHECK(job_of_text(powered_job, {"power.parent=auto"}).power.is_budgeted());
  CHECK(job_of_text(powered_job, {"power.parent=auto:rack0"}).power.is_budgeted());
  const auto by_address =
      job_of_text(powered_job, {"power.parent=localhost:4242", "power.parent_key=row0.key"});
  CHECK(by_address.power.is_budgeted());
  CHECK(by_address.power.parent_key == "row0.key");
  const auto again = config::parse(config::to_toml(by_address), "text");
  REQUIRE_MESSAGE(again, (again ? "" : render(again.error())));
  CHECK(*again == by_address);
}

TEST_CASE("a power budget on another machine is joined by the certificates of the job") {
  const auto far = job_of_text(powered_job, certified({"power.parent=10.0.0.1:4242"}));
  CHECK(far.power.parent == "10.0.0.1:4242");
  CHECK(far.power.parent_key.empty());
  const auto near = job_of_text(powered_job, certified({"power.parent=127.0.0.1:4242"}));
  CHECK(near.power.parent_key.empty());
  const auto by_key = job_of_text(
      powered_job, certified({"power.parent=127.0.0.1:4242", "power.parent_key=row0.key"}));
  CHECK(by_key.power.parent_key == "row0.key");
}

namespace {

/// Three nodes and a spare, each with what it says of its power budget.
std::string job_in_racks(const std::vector<std::string>& parents, const std::string& power = "") {
  auto out = powered_job + "[power]\n" + power + "\n[parallel]\ndata = 3\n[train]\nbatch = 6\n";
  for (size_t i = 0; i < parents.size(); ++i)
    out += fmt::format("[[cluster.node]]\nname = \"n{}\"\nworkers = 1\nspare = {}\n{}\n", i, i == 3,
                       parents[i].empty() ? "" : "power_parent = \"" + parents[i] + "\"");
  return out;
}

}  // namespace

TEST_CASE("J-10: nodes that hang on several power budgets make a rack of each") {
  const auto job =
      job_of_text(job_in_racks({"auto:a", "auto:b", "", "auto:b"}, "parent = \"auto:a\""), {});
  CHECK(job.power.racks ==
        std::vector<config::power_rack>{{"auto:a", {"n0", "n2"}}, {"auto:b", {"n1", "n3"}}});
  CHECK(job.power.is_budgeted());
  CHECK(job.power.has_parent());
  const auto again = config::parse(config::to_toml(job), "text");
  REQUIRE_MESSAGE(again, (again ? "" : render(again.error())));
  CHECK(*again == job);
}

TEST_CASE("J-10: nodes that all hang on one power budget are a job below that") {
  const auto job = job_of_text(job_in_racks({"auto:a", "auto:a", "auto:a", "auto:a"}), {});
  CHECK(job.power.racks.empty());
  CHECK(job.power.parent == "auto:a");
  CHECK(job_of_text(job_in_racks({"", "", "", ""}), {}).power.has_parent() == false);
}

TEST_CASE("J-10: nodes whose power budgets cannot be joined together are refused, each by name") {
  struct row {
    std::vector<std::string> parents;
    const char *power, *key, *expected;
  };
  const row rows[] = {
      {{"auto:a", "auto:b", "", "auto:b"}, "", "cluster.node.power_parent", "\"n2\" hangs on no"},
      {{"auto:a", "auto:b", "auto", "auto:b"}, "", "cluster.node.power_parent", "names none"},
      {{"auto:a", "auto:b", "row 0", "auto:b"}, "", "cluster.node.power_parent", "got \"row 0\""},
      {{"auto:a", "auto:b", "127.0.0.1:4242", "auto:b"},
       "",
       "cluster.node.power_parent",
       "by certificates alone"},
      {{"auto:a", "auto:b", "auto:b", "auto:b"},
       "ramp_w_s = 10",
       "power.ramp_w_s",
       "2 power budgets"},
  };
  const scratch folder;
  for (const auto& r : rows) {
    CAPTURE(r.expected);
    std::ofstream(folder / "job.toml") << job_in_racks(r.parents, r.power);
    const auto problems = config::read({(folder / "job.toml").string(), {}, {}}).problems;
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].key == r.key);
    CHECK(problems[0].what.find(r.expected) != std::string::npos);
    CHECK(problems[0].code == errc::bad_config);
  }
}

TEST_CASE("J-10: more power budgets than a job may hang on are refused") {
  const auto problems_of = [](size_t budgets) {
    auto text =
        powered_job + fmt::format("[parallel]\ndata = {0}\n[train]\nbatch = {0}\n", budgets);
    for (size_t i = 0; i < budgets; ++i)
      text += fmt::format(
          "[[cluster.node]]\nname = \"n{0}\"\nworkers = 1\npower_parent = \"auto:r{0}\"\n", i);
    const scratch folder;
    std::ofstream(folder / "job.toml") << text;
    return config::read({(folder / "job.toml").string(), {}, {}}).problems;
  };
  CHECK(problems_of(config::most_power_racks).empty());
  const auto problems = problems_of(config::most_power_racks + 1);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].key == "power.parent");
  CHECK(problems[0].what.find("257 power budgets") != std::string::npos);
}

TEST_CASE("a power budget above a job that cannot be joined is refused with its key") {
  struct row {
    std::vector<std::string> sets;
    const char *key, *expected;
  };
  const row rows[] = {
      {{"power.parent_key=k"}, "power.parent_key", "none is named"},
      {{"power.parent=auto", "power.parent_key=k"}, "power.parent_key", "is found with it"},
      {{"power.parent=auto", "power.meter_interval_ms=0"}, "power.parent", "no meter is read"},
      {{"power.parent=auto", "power.meter_interval_ms=1001"}, "power.parent", "of 1001 ms"},
      {{"power.parent=auto", "cluster.heartbeat_interval_ms=1500"}, "power.parent", "each 1500 ms"},
      {{"power.parent=auto", "cluster.heartbeat_interval_ms=100", "cluster.suspect_after_ms=300",
        "cluster.dead_after_ms=999"},
       "power.parent",
       "takes for a dead link"},
      {{"power.parent=row0", "power.parent_key=k"},
       "power.parent",
       "expected \"auto\", \"auto:NAME\" or HOST:PORT, got \"row0\""},
      {{"power.parent=auto:row 0"}, "power.parent", "got \"auto:row 0\""},
      {{"power.parent=127.0.0.1:0", "power.parent_key=k"}, "power.parent", "or HOST:PORT"},
      {{"power.parent=auto:"}, "power.parent", "got \"auto:\""},
      {{"power.parent=auto:row0", "power.parent_key=k"}, "power.parent_key", "is found with it"},
      {{"power.parent=10.0.0.1:4242", "power.parent_key=k"},
       "power.parent",
       "\"10.0.0.1:4242\" is not loopback, and TLS is off"},
      {certified({"power.parent=10.0.0.1:4242", "power.parent_key=k"}), "power.parent_key",
       "a key is no proof"},
      {{"power.parent=127.0.0.1:4242"}, "power.parent", "needs power.parent_key"},
      {{"power.agent_socket=agent.sock"}, "power.agent_socket", "got \"agent.sock\""},
      {{"power.agent_socket=/" + std::string(107, 'x')}, "power.agent_socket", "107 bytes"},
  };
  const scratch folder;
  std::ofstream(folder / "job.toml") << powered_job;
  for (const auto& r : rows) {
    CAPTURE(r.expected);
    const auto problems = config::read({(folder / "job.toml").string(), {}, r.sets}).problems;
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].key == r.key);
    CHECK(problems[0].what.find(r.expected) != std::string::npos);
    CHECK(problems[0].code == errc::bad_config);
  }
}
