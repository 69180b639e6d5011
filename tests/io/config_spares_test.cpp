// Spares in a configuration: counted or marked in the list.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;
using config::node_spec;

namespace {

const std::string least_job =
    "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";

}  // namespace

TEST_CASE("J-1: spares are a number or marked in the list, come last and are no workers") {
  const auto counted =
      job_of_text(least_job, {"cluster.nodes=4", "cluster.spares=1", "train.batch=8"});
  const auto& c = counted.cluster;
  REQUIRE(c.node.size() == 5);
  CHECK(c.node[4] == node_spec{"node4", "localhost", 1, true});
  CHECK(c.places() == 4);
  CHECK(counted.workers() == 4);
  CHECK(counted.parallel.data == 4);
  const auto listed =
      job_of_text(least_job +
                      "[[cluster.node]]\nname = 's'\nspare = true\n[[cluster.node]]\n"
                      "name = 'a'\n[[cluster.node]]\nname = 'b'\n[train]\nbatch = 4\n",
                  {});
  CHECK(listed.cluster.nodes == 2);
  CHECK(listed.cluster.spares == 1);
  CHECK(listed.cluster.node.back().name == "s");
  for (const auto& job : {counted, listed}) {
    const auto again = config::parse(config::to_toml(job), "text");
    REQUIRE_MESSAGE(again, (again ? "" : render(again.error())));
    CHECK(*again == job);  // J-4
  }
}

TEST_CASE("spares that make no sense are refused with their place") {
  struct row {
    std::vector<std::string> sets;
    const char* key;
  };
  const row rows[] = {
      {{"cluster.spares=2"}, "cluster.spares"},
      {{"cluster.node=[{name=\"a\"},{name=\"b\"}]", "cluster.spares=1"}, "cluster.spares"},
      {{"cluster.node=[{name=\"a\", spare=true}]"}, "cluster.node.spare"},
      {{"cluster.node=[{name=\"a\", workers=2},{name=\"b\", spare=true}]"},
       "cluster.node.workers"},
  };
  const scratch folder;
  std::ofstream(folder / "job.toml") << least_job;
  for (const auto& r : rows) {
    CAPTURE(r.key);
    const auto problems = config::read({(folder / "job.toml").string(), {}, r.sets}).problems;
    REQUIRE_FALSE(problems.empty());
    CHECK(problems[0].key == r.key);
  }
}
