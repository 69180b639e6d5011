// The console of a served power budget, what its audit log says of it, and what the budget leaves
// where it dies.
#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "tests/cluster/served_row.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// A budget for two jobs, of which none runs.
struct row_of_two {
  own_signs signs;
  served_row row{budget_file(
      signs.folder, "row0", 70,
      child_of_budget("gpt-a", "high", 20, 40, 60) + child_of_budget("gpt-b", "low", 15, 20, 60))};

  finished say(const std::vector<std::string>& lines,
               const std::vector<std::string>& as = {}) const {
    std::vector<std::string> words{"console", "--connect", row.address, "--timeout-ms", "60000"};
    for (const auto& line : lines) words.insert(words.end(), {"-c", line});
    words.insert(words.end(), as.begin(), as.end());
    return run(words);
  }
  /// The audit log, once it has so many lines or more, each with what came of it: results are
  /// written beside the answers.
  std::vector<json> audited(size_t count) const {
    std::vector<json> out;
    REQUIRE(eventually([&] {
      out.clear();
      std::ifstream in(signs.folder / "row0/audit.jsonl");
      for (std::string line; std::getline(in, line);)
        out.push_back(json::parse(line, nullptr, false));
      return out.size() >= count && std::all_of(out.begin(), out.end(), [](const json& l) {
               return l.is_object() && l["result"] != "asked";
             });
    }));
    return out;
  }
  std::string key_of(const std::string& role, const std::string& name) const {
    const auto file = (signs.folder / (name + ".key")).string();
    REQUIRE(run({"key", "--role", role, "--name", name, "--budget", "row0", "--out", file}).code ==
            0);
    return file;
  }
  /// Black boxes in its folder; one that is being written has another name until it is whole.
  std::vector<std::string> boxes() const {
    std::vector<std::string> out;
    for (const auto& f : fs::directory_iterator(signs.folder / "row0"))
      if (f.path().filename().string().starts_with("blackbox-") && f.path().extension() == ".trace")
        out.push_back(f.path().string());
    return out;
  }
};

}  // namespace

TEST_CASE("PSV-8: power serve: its console sets it, and the audit log says who did what") {
  row_of_two f;
  const auto set = f.say({"power budget row0 65 for 2h", "power brake row0 on", "power"});
  INFO(set.err);
  CHECK(set.code == 0);
  CHECK(set.out.find("65 W") != std::string::npos);
  CHECK(set.out.find("holds all work") != std::string::npos);
  CHECK(set.out.find("gpt-b") != std::string::npos);
  CHECK(said_tree()["budget_w"] == 65);
  const auto why = f.say({"power why gpt-b"});
  CHECK(why.code == 0);
  CHECK(why.out.find("gpt-b") != std::string::npos);
  CHECK(f.say({"power why gpt-x"}).code == 1);
  CHECK(f.say({"power budget row0 10"}).code == 1);  // below its static shares
  CHECK(f.say({"power budget row1 65"}).code == 1);
  CHECK(f.say({"power budget row0 many"}).code == 1);
  CHECK(f.say({"power brake row0 off"}).code == 0);
  CHECK(run({"console", "--job", "row0", "-c", "power budget 70"}).code == 0);

  const auto key = f.key_of("reader", "bob");
  const auto looked = f.say({"power"}, {"--key", key});
  CHECK(looked.code == 0);
  CHECK(looked.out.find("70 W") != std::string::npos);
  CHECK(f.say({"power budget row0 66"}, {"--key", key}).code == 77);
  CHECK(said_tree()["budget_w"] == 70);

  const auto lines = f.audited(7);
  REQUIRE(lines.size() == 7);
  const std::vector<std::string> commands{"SetPowerBudget", "SetPowerBrake", "SetPowerBudget",
                                          "SetPowerBudget", "SetPowerBrake", "SetPowerBudget",
                                          "SetPowerBudget"};
  for (size_t i = 0; i < lines.size(); ++i) {
    CAPTURE(lines[i].dump());
    CHECK(lines[i]["command"] == commands[i]);
    CHECK(lines[i]["role"] == (i < 6 ? "operator" : "reader"));
    CHECK(lines[i]["from"] == "127.0.0.1");
    CHECK(!lines[i]["who"].get<std::string>().empty());
  }
  CHECK(lines[0]["result"].get<std::string>().starts_with("row0 has 65 W"));
  CHECK(lines[6]["result"].get<std::string>().starts_with("refused: "));
  f.row.end();
}

TEST_CASE("power serve: its process is seen as a job's are, and an order by a message is audited") {
  row_of_two f;
  const auto seen = said_object_of({"ps", "--json", "--connect", f.row.address});
  CHECK(seen["job"] == "row0");
  REQUIRE(seen["nodes"].size() == 1);
  std::vector<std::string> actors;
  for (const auto& a : seen["nodes"][0]["actors"]) actors.push_back(a["path"]);
  for (const auto* one : {"budget", "gateway", "observer/row0"})
    CHECK(std::find(actors.begin(), actors.end(), one) != actors.end());
  CHECK(run({"status", "--connect", f.row.address}).code == 0);
  CHECK(said_object_of({"power", "status", "--json"})["budget"] == "row0");
  CHECK(f.say({"pause"}).code == 1);  // it makes no steps

  CHECK(f.say({R"(send budget SetPowerBrake {"on": true})"}).code == 0);
  CHECK(said_tree()["brake"] == true);
  const auto lines = f.audited(1);
  CHECK(lines.back()["command"] == "SetPowerBrake");
  CHECK(lines.back()["target"] == "budget");
  CHECK(lines.back()["result"] == "done");
  CHECK(f.say({"blackbox"}).code == 0);
  CHECK(f.boxes().size() == 1);
  f.row.end();
}

TEST_CASE("PSV-7: power serve: a budget that is killed leaves its last messages") {
  row_of_two f;
  // It may be gone before it answers.
  static_cast<void>(run({"console", "--connect", f.row.address, "-c", "kill budget"}));
  CHECK(f.row.up.wait() == 70);
  CHECK(!f.boxes().empty());
  for (const auto& box : f.boxes()) CHECK(run({"trace", "stats", box}).code == 0);
}

TEST_CASE("PSV-7: power serve: of a process that is killed its crash dumper leaves them") {
  row_of_two f;
  said_tree();
  f.row.up.signal(SIGKILL);
  f.row.up.wait();
  REQUIRE(eventually([&] { return !f.boxes().empty(); }));
  CHECK(run({"trace", "stats", f.boxes().front()}).code == 0);
}
