// A job whose nodes hang on two power budgets, with real processes: it makes steps by the leave of
// both, holds where one of them holds it, says which, and goes on by the same bits.
//
// What its machine draws is a model's word, the same whatever it does.
#include <csignal>

#include "tests/cluster/constant_watts.hpp"
#include "tests/cluster/served_row.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// Two nodes, the first of them in row0.
std::vector<std::string> under_two(const job_files& job, const std::vector<std::string>& sets) {
  std::ofstream(job / "job.toml", std::ios::app)
      << "[parallel]\ndata = 2\n"
         "[[cluster.node]]\nname = \"node0\"\npower_parent = \"auto:row0\"\n"
         "[[cluster.node]]\nname = \"node1\"\npower_parent = \"auto:row1\"\n";
  return job.up(with(with(constant_watts, {"job.name=gpt-a"}), sets));
}

served_row row_of(const own_signs& signs, const std::string& name) {
  return served_row(
      budget_file(signs.folder, name, 120, child_of_budget("gpt-a", "high", 0, 0, 120)));
}

bool until_knows(const std::string& name) {
  return eventually([&] {
    const auto tree = row_tree(name);
    return tree.is_object() && tree["knows"] == true;
  });
}

json racks_of(program& up) {
  const auto said = object_of({"power", "status", "--json", "--connect", job_address(up)});
  return said.is_object() && said.contains("racks") ? said["racks"] : json::array();
}

}  // namespace

TEST_CASE("PCR-8: power racks: a job under two budgets works by both, with the bits of none") {
  if (is_metered_here()) return;
  const own_signs signs;
  served_row first = row_of(signs, "row0"), second = row_of(signs, "row1");
  REQUIRE(until_knows("row0"));
  REQUIRE(until_knows("row1"));
  const job_files alone, job;
  const auto truth = alone.losses(layout(2, 1));
  auto words = under_two(job, {});
  words.insert(words.end(), {"--record-actor", "pacer"});
  program up(words);
  const int ended = up.wait();
  INFO(up.err());
  REQUIRE(ended == 0);
  CHECK(up.losses() == truth);
  const auto again = run({"replay", (job / "run/actors-head.trace").string(), "--json"});
  INFO(again.err, again.out);
  REQUIRE(again.code == 0);
  CHECK(json::parse(again.out)["same"] == true);
  first.end();
  second.end();
}

TEST_CASE("PCR-8: power racks: one budget that holds the job's work holds it, and is named") {
  if (is_metered_here()) return;
  const own_signs signs;
  served_row first = row_of(signs, "row0"), second = row_of(signs, "row1");
  REQUIRE(until_knows("row0"));
  REQUIRE(until_knows("row1"));
  const job_files job;
  program up(under_two(job, endless));
  REQUIRE(up.until_step(3));
  const auto racks = racks_of(up);
  REQUIRE(racks.size() == 2);
  CHECK(racks[0]["nodes"] == json{"node0"});
  CHECK(racks[1]["nodes"] == json{"node1"});
  REQUIRE(run({"power", "brake", "row1", "on"}).code == 0);
  REQUIRE(up.until_error_has("the power budget row1 holds all work by its brake"));
  const auto held = racks_of(up);
  REQUIRE(held.size() == 2);
  CHECK(held[0]["pace_percent"] > 0);
  CHECK(held[1]["pace_percent"] == 0);
  REQUIRE(run({"power", "brake", "row1", "off"}).code == 0);
  up.listen();
  REQUIRE(up.until_step(static_cast<int>(up.losses().size()) + 3));
  second.up.signal(SIGKILL);  // its lease lapses
  REQUIRE(up.until_error_has("the lease of the power budget row1 has lapsed"));
  const auto why = told_at_console(up, "power why");
  INFO(why.out, why.err);
  CHECK(why.out.find("row1 feeds node1") != std::string::npos);
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
  first.end();
}
