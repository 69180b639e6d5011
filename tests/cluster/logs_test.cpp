// A line in the log of a node becomes a finding of the cluster: with real processes, as a person, a
// library or a script would have written it there.
#include <csignal>
#include <fstream>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

struct logging_run {
  job_files job;
  program up;

  logging_run()
      : up(job.up(with(with(endless, layout(2, 1)),
                       {"cluster.heartbeat_interval_ms=100",
                        R"x(health.log_rule=[{name="fans", match="fan [0-9]+ (failed|stopped)", )x"
                        R"x(finding="device_hot"}])x"}))) {
    REQUIRE(up.until_step(2));
  }

  /// Arguments that lead to the cluster.
  std::vector<std::string> there() const {
    return {"--connect", "127.0.0.1:" + std::to_string(up.port())};
  }
  /// Whether a node looks at its own log; before, nobody knows where lines that are added begin.
  bool watches(const std::string& node) const {
    const auto said = run(with({"status", "vitals/" + node, "--json"}, there()));
    return said.code == 0 && said.out.find(node + ".log") != std::string::npos;
  }
  /// As whatever runs in a node's process, and whoever may write there.
  void add(const std::string& node, const std::string& line) const {
    std::ofstream(job / "run" / (node + ".log"), std::ios::app) << line << std::endl;
  }
  /// The findings of a rule of this configuration.
  std::vector<json> found(const std::string& rule) const {
    const auto said = run(with({"health", "--json"}, there()));
    INFO(said.err);
    REQUIRE((said.code == 0 || said.code == 1));
    std::vector<json> out;
    const auto all = json::parse(said.out);
    for (const auto& f : all["findings"])
      if (f["rule"] == rule) out.push_back(f);
    return out;
  }
};

}  // namespace

TEST_CASE("logs: a line in a node's log that fits a rule is a finding, by the rule's name") {
  logging_run r;
  CHECK(eventually([&] { return r.watches("node1"); }));
  CHECK(r.found("fans").empty());
  r.add("node1", "all fans turn");
  r.add("node1", "chassis: fan 7 failed, password=hunter2");
  REQUIRE(eventually([&] { return !r.found("fans").empty(); }));
  const auto all = r.found("fans");
  REQUIRE(all.size() == 1);  // of the node whose log it is
  CHECK(all[0]["name"] == "device_hot");
  CHECK(all[0]["node"] == "node1");
  CHECK(all[0]["seen"] == 1);
  CHECK(all[0]["unit"] == "lines");
  const auto text = all[0]["text"].get<std::string>();
  CHECK(text.ends_with("the rule fans: chassis: fan 7 failed, password=***"));
  CHECK(r.up.until_error_has("device_hot node1: " + text));

  // What is told of it is no further line, wherever it is written; another one is.
  r.add("node1", "warning: " + text);
  r.add("node1", "fan 8 stopped");
  CHECK(eventually([&] { return r.found("fans")[0]["seen"] == 2; }));
  CHECK(r.found("fans")[0]["text"].get<std::string>().ends_with("fan 8 stopped"));
  r.up.signal(SIGINT);
  CHECK(r.up.wait() == 130);
}
