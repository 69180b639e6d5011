// What a job that swaps cannot do is refused where it is configured.
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/config/load.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::config;

namespace {

/// What is said of a small job with these settings; empty: it can be trained.
std::string said_of_swap(const std::vector<std::string>& sets) {
  const scratch here;
  std::ofstream(here / "run.toml")
      << "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";
  std::string all;
  for (const auto& p : read({(here / "run.toml").string(), {}, sets}).problems)
    all += render(p) + "\n";
  CHECK(all.find("TOML") == std::string::npos);
  return all;
}

std::string said_of_two(std::vector<std::string> sets) {
  sets.insert(sets.begin(), {"swap.dir=a", "cluster.nodes=2"});
  return said_of_swap(sets);
}

bool says_of_two(std::vector<std::string> sets, const char* what) {
  return said_of_two(std::move(sets)).find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("what swapping cannot do is refused") {
  const auto of = [](const char* dirs) {
    return std::vector<std::string>{std::string("swap.dir=") + dirs};
  };
  CHECK(said_of_two(of(R"(["/a/{rank}", "/b"])")).empty());
  CHECK(says_of_two(of(R"(["/a", "/a/"])"), "is named twice"));
  CHECK(says_of_two(of(R"(["/a/{name}", ""])"), "{rank} can stand in braces"));
  CHECK(says_of_two({R"(swap.dir=["/a", "/b"])", "swap.consume=true", "cluster.nodes=1"},
                    "one drive alone"));
  for (const char* layout : {"parallel.pipeline=2", "parallel.data=2"})
    CHECK(said_of_two({layout, "swap.consume=true"}).empty());
  CHECK(says_of_two({"swap.spill_layers=2"}, "are chosen together"));
  CHECK(said_of_swap({"swap.spill_layers=2"}).find("is required where [swap]") !=
        std::string::npos);
}

TEST_CASE("swap.weights: of every layout, and only where [swap] is") {
  for (const auto* weights : {"swap.weights=derived", "swap.weights=stored"}) {
    for (const auto* layout : {"parallel.pipeline=2", "parallel.data=2"})
      CHECK(said_of_two({layout, weights}).empty());
    CHECK(said_of_swap({weights}).find("is required where [swap]") != std::string::npos);
  }
}

TEST_CASE("swap.clip: stages hold, and replicas know their norm in any way") {
  const std::vector<std::string> stages{"parallel.pipeline=2"}, replicas{"parallel.data=2"},
      lamb{"parallel.data=2", "train.optimizer=lamb"};
  const auto clipped = [](std::vector<std::string> sets, const char* way) {
    sets.push_back(std::string("swap.clip=") + way);
    return sets;
  };
  for (const char* way : {"twice", "speculate"})
    CHECK(says_of_two(clipped(stages, way), "each keeps its gradients"));
  for (const auto& layout : {stages, lamb, replicas})
    for (const char* way : {"auto", "hold"}) CHECK(said_of_two(clipped(layout, way)).empty());
  for (const auto& layout : {replicas, lamb})
    for (const char* way : {"twice", "speculate"}) CHECK(said_of_two(clipped(layout, way)).empty());
}
