// What of a running job lives on drives, from stats as a cluster's workers publish them.
#include "apps/swap/live.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "messages/status_rows.hpp"

using namespace troupe;

namespace {

fbs::WorkerStatusT& add_worker_of(fbs::ClusterViewT& view, const std::string& node,
                                  const std::string& path) {
  if (view.nodes.empty() || view.nodes.back()->node != node) {
    view.nodes.push_back(std::make_unique<fbs::ActorListT>());
    view.nodes.back()->node = node;
  }
  auto& a = *view.nodes.back()->actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
  a.path = path;
  a.state = "ready";
  a.values = std::make_unique<fbs::StatusValuesT>();
  return values_of<fbs::WorkerStatusT>(*a.values);
}

fbs::ClusterViewT swapping() {
  fbs::ClusterViewT view;
  view.job = "j";
  add_worker_of(view, "node0", "worker/0");
  auto& w = add_worker_of(view, "node0", "worker/1");
  w.step = 7;
  w.swap = std::make_unique<fbs::SwapStatusT>();
  auto& s = *w.swap;
  s.state_chunks = 12;
  s.weight_chunks = 11;
  s.disk_bytes = uint64_t{3} << 30;
  s.memory_bytes = 5 << 20;
  s.read_bytes = uint64_t{7} << 30;
  s.written_bytes = uint64_t{6} << 30;
  s.spilled_layers = 3;
  s.recomputed_layers = 2;
  s.budget_bytes = 100 << 20;
  s.held_bytes = 80 << 20;
  s.peak_bytes = 90 << 20;
  s.holders.push_back(std::make_unique<fbs::MemoryHolderT>());
  s.holders.back()->holder = "weights";
  s.holders.back()->held_bytes = s.holders.back()->peak_bytes = 40 << 20;
  return view;
}

}  // namespace

TEST_CASE("swap show: a row for each rank that swaps, and who holds its process's memory") {
  const auto text = apps::swap::live_text(swapping(), 0);
  for (const char* word : {"node0", "12 chunks", "11 chunks", "3.0 GiB", "7.0 GiB", "6.0 GiB",
                           "3 layers, 2 recomputed", "80.0 MiB of 100.0 MiB held, 90.0 MiB at most",
                           "weights 40.0 MiB"}) {
    CAPTURE(word);
    CHECK(text.find(word) != std::string::npos);
  }
  const auto j = nlohmann::json::parse(apps::swap::live_json(swapping()));
  REQUIRE(j["ranks"].size() == 1);
  CHECK(j["ranks"][0]["rank"] == "1");
  CHECK(j["ranks"][0]["step"] == 7);
  CHECK(j["ranks"][0]["peak_bytes"] == 90 << 20);
  CHECK(j["ranks"][0]["spilled_layers"] == 3);
  CHECK(j["ranks"][0]["recomputed_layers"] == 2);
  CHECK(j["ranks"][0]["holders"][0]["holder"] == "weights");
}

TEST_CASE("swap show: where nothing is on a drive, that is said") {
  auto view = swapping();
  for (auto& a : view.nodes[0]->actors) a->values->worker->swap.reset();
  CHECK(apps::swap::live_text(view, 80).find("no rank of j has anything on a drive") == 0);
  CHECK(nlohmann::json::parse(apps::swap::live_json(view))["ranks"].empty());
}
