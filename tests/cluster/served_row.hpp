// A power budget as its own process, and what its tree says, for tests of who joins it.
#pragma once

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tests/apps/runtime_folder.hpp"
#include "tests/cluster/job_files.hpp"

namespace troupe::cluster_test {

/// Signs of budgets and jobs that no other test sees.
struct own_signs {
  troupe::scratch folder;
  troupe::runtime_folder here{folder.path};
};

inline std::string child_of_budget(const std::string& name, const std::string& priority,
                                   double floor_w, double static_w, double ceiling_w) {
  return fmt::format(
      "[[child]]\nname = \"{}\"\npriority = \"{}\"\nfloor_w = {}\nstatic_w = {}\nceiling_w = {}\n",
      name, priority, floor_w, static_w, ceiling_w);
}

/// The configuration of a budget; its output is a folder of its name beside the file. A brake that
/// it pulls by itself would hold steps that most tests wait for.
inline fs::path budget_file(const troupe::scratch& at, const std::string& name, double budget_w,
                            const std::string& children, const std::string& more = "",
                            const std::string& brake = "manual") {
  const auto file = at / (name + ".toml");
  std::ofstream(file)
      << fmt::format(
             "name = \"{0}\"\nbudget_w = {1}\nbrake = \"{3}\"\ntick_ms = 100\nlease_ttl_ms = "
             "5000\noutput = \"{2}/{0}\"\ntextfile = \"{2}/{0}.prom\"\n",
             name, budget_w, at.path.string(), brake)
      << more << children;
  return file;
}

/// A served budget.
struct served_row {
  program up;
  std::string address;

  explicit served_row(const fs::path& file) : up({"power", "serve", file.string()}) {
    size_t at = 0;
    REQUIRE(up.until([&] {
      at = up.err().find(" serves ");
      return at != std::string::npos && up.err().find('\n', at) != std::string::npos;
    }));
    const auto line = up.err().substr(at, up.err().find('\n', at) - at);
    address = line.substr(line.rfind(' ') + 1);
  }

  void end() {
    up.signal(SIGTERM);
    CHECK(up.wait() == 0);
  }
};

/// What a tool says as one JSON object; null where it fails.
inline nlohmann::json object_of(const std::vector<std::string>& arguments) {
  const auto said = run(arguments);
  return said.code == 0 ? nlohmann::json::parse(said.out) : nlohmann::json();
}

inline nlohmann::json row_tree(const std::string& name = "row0") {
  return object_of({"power", "tree", name, "--json"});
}

/// The same, once it is said: for who asks once and is to have an answer of a process that a busy
/// machine keeps waiting.
inline nlohmann::json said_object_of(const std::vector<std::string>& arguments) {
  nlohmann::json out;
  REQUIRE(eventually([&] { return (out = object_of(arguments)).is_object(); }));
  return out;
}
inline nlohmann::json said_tree(const std::string& name = "row0") {
  return said_object_of({"power", "tree", name, "--json"});
}

/// `troupe power` with these words, again where a budget that the machine keeps waiting has not
/// answered in time: what it was told it has then, too.
inline finished told_power(std::vector<std::string> words) {
  words.insert(words.begin(), "power");
  constexpr int not_reached = 69, no_answer = 75;
  finished said;
  REQUIRE(eventually([&] {
    said = run(words);
    return said.code != not_reached && said.code != no_answer;
  }));
  return said;
}

inline nlohmann::json child_in(const nlohmann::json& tree, const std::string& name) {
  if (tree.is_object())
    for (const auto& c : tree["children"])
      if (c["name"] == name) return c;
  return {};
}

/// Whether a child of the budget comes to be so.
inline bool until_child(const std::string& name,
                        const std::function<bool(const nlohmann::json&)>& so) {
  return eventually([&] {
    const auto c = child_in(row_tree(), name);
    return c.is_object() && so(c);
  });
}

inline bool until_row_knows() {
  return eventually([] {
    const auto tree = row_tree();
    return tree.is_object() && tree["knows"] == true;
  });
}

}  // namespace troupe::cluster_test
