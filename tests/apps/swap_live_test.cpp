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
  s.linked_chunks = 11;
  s.copied_chunks = 1;
  w.process_peak_bytes = 150 << 20;
  const auto moves = [&w](const char* kind, double busy_ms, uint64_t bytes) {
    auto& part = *w.parts.emplace_back(std::make_unique<fbs::StepPartT>());
    part.kind = kind;
    part.busy_ms = busy_ms;
    part.work = bytes;
  };
  moves("read_weights", 400, 1'000'000'000);
  moves("read_state", 1000, 2'000'000'000);
  moves("write_chunk", 800, 2'000'000'000);
  s.holders.push_back(std::make_unique<fbs::MemoryHolderT>());
  s.holders.back()->holder = "weights";
  s.holders.back()->held_bytes = s.holders.back()->peak_bytes = 40 << 20;
  return view;
}

/// What the reporter of that job says of its last step.
fbs::SwapStepT& add_last_step(fbs::ClusterViewT& view) {
  view.nodes.push_back(std::make_unique<fbs::ActorListT>());
  auto& a = *view.nodes.back()->actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
  a.path = "reporter";
  a.values = std::make_unique<fbs::StatusValuesT>();
  auto& told = values_of<fbs::ReporterStatusT>(*a.values).swap;
  told = std::make_unique<fbs::SwapStepT>();
  told->step = 7;
  told->step_ms = 2000;
  told->read_bytes = 3'000'000'000;
  told->written_bytes = 2'000'000'000;
  told->read_bytes_per_s = 3e9;
  told->written_bytes_per_s = 2.5e9;
  told->swap_wait_ms = 300;
  told->limit_ms = 1500;
  told->of_limit_percent = 75;
  told->bound_by = "disk";
  told->job_written_bytes = 14'000'000'000;
  told->rated_bytes = 14'000'000'000'000;
  return *told;
}

}  // namespace

TEST_CASE("swap show: how fast each rank's drive is, and what of its checkpoint was linked") {
  auto view = swapping();
  const auto text = apps::swap::live_text(view, 0);
  CHECK(text.find("rank 1 reads 3 GB/s and writes 2.5 GB/s; of its last checkpoint's chunks 11 "
                  "linked, 1 copied\n") != std::string::npos);
  CHECK(text.find("node0: its process had 150.0 MiB in memory at most\n") != std::string::npos);
  CHECK(text.find("of the limit") == std::string::npos);  // no reporter is heard
  const auto rank = nlohmann::json::parse(apps::swap::live_json(view))["ranks"][0];
  CHECK(rank["read_bytes_s"] == 3e9);
  CHECK(rank["written_bytes_s"] == 2.5e9);
  CHECK(rank["process_peak_bytes"] == 150 << 20);
  CHECK(rank["linked_chunks"] == 11);
  CHECK(rank["cloned_chunks"] == 0);
  CHECK(rank["copied_chunks"] == 1);
  view.nodes[0]->actors[1]->values->worker->parts.clear();
  CHECK(apps::swap::live_text(view, 0).find("rank 1 reads 0 GB/s and writes 0 GB/s") !=
        std::string::npos);
}

TEST_CASE("swap show: of a rank on a GPU both memories are told, with who holds them") {
  auto view = swapping();
  CHECK(apps::swap::live_text(view, 0).find("GPU") == std::string::npos);
  CHECK_FALSE(
      nlohmann::json::parse(apps::swap::live_json(view))["ranks"][0].contains("device_held_bytes"));
  auto& s = *view.nodes[0]->actors[1]->values->worker->swap;
  s.device_budget_bytes = 300 << 20;
  s.device_held_bytes = 200 << 20;
  s.device_peak_bytes = 250 << 20;
  s.device_holders.push_back(std::make_unique<fbs::MemoryHolderT>());
  s.device_holders.back()->holder = "gradients";
  s.device_holders.back()->held_bytes = s.device_holders.back()->peak_bytes = 70 << 20;
  CHECK(apps::swap::live_text(view, 0).find("node0, GPU: 200.0 MiB of 300.0 MiB held, 250.0 MiB "
                                            "at most: gradients 70.0 MiB\n") != std::string::npos);
  const auto rank = nlohmann::json::parse(apps::swap::live_json(view))["ranks"][0];
  CHECK(rank["device_budget_bytes"] == 300 << 20);
  CHECK(rank["device_held_bytes"] == 200 << 20);
  CHECK(rank["device_peak_bytes"] == 250 << 20);
  CHECK(rank["device_holders"][0]["holder"] == "gradients");
  CHECK(rank["holders"][0]["holder"] == "weights");
}

TEST_CASE("swap show: each GPU that a process uses is told once") {
  auto view = swapping();
  const auto on = [](fbs::WorkerStatusT& w, const char* device, uint64_t held_bytes) {
    if (!w.swap) w.swap = std::make_unique<fbs::SwapStatusT>();
    w.swap->device = device;
    w.swap->device_held_bytes = w.swap->device_peak_bytes = held_bytes;
  };
  on(*view.nodes[0]->actors[1]->values->worker, "cuda:0", 200 << 20);
  on(add_worker_of(view, "node0", "worker/2"), "cuda:1", 100 << 20);
  on(add_worker_of(view, "node0", "worker/3"), "cuda:0", 200 << 20);
  on(add_worker_of(view, "node1", "worker/4"), "cuda:0", 300 << 20);
  const auto text = apps::swap::live_text(view, 0);
  for (const auto* line :
       {"node0, cuda:0: 200.0 MiB", "node0, cuda:1: 100.0 MiB", "node1, cuda:0: 300.0 MiB"}) {
    CAPTURE(line);
    const auto found = text.find(line);
    REQUIRE(found != std::string::npos);
    CHECK(text.find(line, found + 1) == std::string::npos);
  }
  CHECK(nlohmann::json::parse(apps::swap::live_json(view))["ranks"][1]["device"] == "cuda:1");
}

TEST_CASE("swap show: the last step against its limit, and what drives have been written") {
  auto view = swapping();
  CHECK_FALSE(nlohmann::json::parse(apps::swap::live_json(view)).contains("last_step"));
  auto& step = add_last_step(view);
  auto text = apps::swap::live_text(view, 0);
  for (const char* words :
       {"step 7 took 2 s, 0.75 of the limit (disk): 2.8 GiB read at 3 GB/s, 1.9 GiB written at "
        "2.5 GB/s; drives were waited for 0.3 s\n",
        "13.0 GiB written since the job's head began, 0.1 % of swap.rated_tbw\n"}) {
    CAPTURE(words);
    INFO(text);
    CHECK(text.find(words) != std::string::npos);
  }
  auto j = nlohmann::json::parse(apps::swap::live_json(view));
  CHECK(j["last_step"]["step"] == 7);
  CHECK(j["last_step"]["read_bytes_s"] == 3e9);
  CHECK(j["last_step"]["of_limit"] == 0.75);
  CHECK(j["last_step"]["bound_by"] == "disk");
  CHECK(j["job_written_bytes"] == 14'000'000'000);
  CHECK(j["rated_bytes"] == 14'000'000'000'000);
  step.limit_kept_ms = 1900;
  CHECK(apps::swap::live_text(view, 0).find("0.95 by what the drive keeps") != std::string::npos);
  step.limit_ms = 0;
  step.rated_bytes = 0;
  text = apps::swap::live_text(view, 0);
  CHECK(text.find("of the limit") == std::string::npos);
  CHECK(text.find("rated_tbw") == std::string::npos);
  j = nlohmann::json::parse(apps::swap::live_json(view));
  CHECK_FALSE(j["last_step"].contains("of_limit"));
  CHECK_FALSE(j.contains("rated_bytes"));
}

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
