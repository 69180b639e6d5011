// The live view of checkpoints, from stats as a cluster's actors publish them.
#include "apps/ckpt/live.hpp"

#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "messages/status_rows.hpp"

using namespace troupe;
using namespace troupe::apps::ckpt;

namespace {

template <class T>
T& add(fbs::ClusterViewT& view, const std::string& path, const std::string& state) {
  if (view.nodes.empty()) view.nodes.push_back(std::make_unique<fbs::ActorListT>());
  auto& a = *view.nodes.back()->actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
  a.path = path;
  a.state = state;
  a.values = std::make_unique<fbs::StatusValuesT>();
  return values_of<T>(*a.values);
}

void add_save(fbs::WorkerStatusT& worker, uint64_t step, uint64_t captured, uint64_t written,
              double age_s) {
  auto& s = *worker.checkpoint->saves.emplace_back(std::make_unique<fbs::SaveProgressT>());
  s.step = step;
  s.total = 4000;
  s.captured = captured;
  s.written = written;
  s.age_s = age_s;
}

fbs::WorkerStatusT& add_worker(fbs::ClusterViewT& view, const std::string& path) {
  auto& worker = add<fbs::WorkerStatusT>(view, path, "ready");
  worker.checkpoint = std::make_unique<fbs::SaverStatusT>();
  auto& c = *worker.checkpoint;
  c.durable = 3;
  c.failed = 1;
  c.ring_wait_ms = 1.5;
  c.disk = "uring";
  c.ring_slots = std::make_unique<fbs::RingSlotsT>();
  c.ring_slots->free = c.ring_slots->filling = 1;
  c.ring_slots->writing = 2;
  return worker;
}

fbs::ClusterViewT busy() {
  fbs::ClusterViewT view;
  view.job = "j";
  auto& run = add<fbs::RunStatusT>(view, "run", "training");
  run.step = 9;
  run.saved_step = 6;
  run.saving = {7, 8, 9};
  run.checkpoints = 6;
  run.skipped_checkpoints = 2;
  run.checkpoint_wait_ms = 0.25;
  add<fbs::CommitterStatusT>(view, "committer", "committing");
  add_save(add_worker(view, "worker/0"), 8, 4000, 1000, 2.0);
  auto& second = add_worker(view, "worker/1");
  add_save(second, 8, 4000, 3000, 1.5);
  add_save(second, 9, 100, 0, 0.1);
  return view;
}

}  // namespace

TEST_CASE("ckpt live: each checkpoint on its way, over all ranks") {
  const auto j = nlohmann::json::parse(live_json(busy()));
  CHECK(j["saved_step"] == 6);
  CHECK(j["skipped_checkpoints"] == 2);
  CHECK(j["failed_shards"] == 2);
  CHECK(j["free_ring_slots"] == 1);
  CHECK(j["ring_slots"] == 4);
  REQUIRE(j["under_way"].size() == 3);
  CHECK(j["under_way"][0]["state"] == "committing");  // all shards are durable
  CHECK(j["under_way"][1]["state"] == "flushing");
  CHECK(j["under_way"][1]["bytes"] == 8000);
  CHECK(j["under_way"][1]["written_bytes"] == 4000);
  CHECK(j["under_way"][1]["bytes_per_s"] == 2000.0);
  CHECK(j["under_way"][2]["state"] == "copying");
  CHECK(j["under_way"][2]["shards"] == 1);
  const auto text = live_text(busy(), 0);
  for (const char* word : {"committing", "flushing", "copying", "2/2", "step 6", "0.2 ms",
                           "1 of 4 slots free", "uring"}) {
    CAPTURE(word);
    CHECK(text.find(word) != std::string::npos);
  }
}

TEST_CASE("ckpt live: nothing under way, and all_stats that say nothing or are of the dead") {
  auto view = busy();
  for (auto& a : view.nodes[0]->actors) {
    if (a->path == "committer") a->values.reset();
    if (a->path == "worker/0") a->values->worker->checkpoint.reset();
    if (a->path == "worker/1") a->ended = "killed";
    if (a->path == "run") a->values->run->saved_step = 9;
  }
  CHECK(live_text(view, 80).find("no checkpoint is under way") == 0);
  CHECK(nlohmann::json::parse(live_json(view))["saved_step"] == 9);
  view.nodes[0]->actors.clear();
  CHECK(nlohmann::json::parse(live_json(view)).contains("under_way"));
}

TEST_CASE("ckpt live: the second tier, where there is one") {
  CHECK(nlohmann::json::parse(live_json(busy()))["second_tier"].is_null());
  CHECK(live_text(busy(), 0).find("second tier") == std::string::npos);
  auto view = busy();
  auto& c = add<fbs::ReplicatorStatusT>(view, "replicator", "copying");
  c.step = 6;
  c.total_bytes = 4096;
  c.written_bytes = 1024;
  c.durable_bytes = 512;
  c.bytes_per_s = 2048;
  c.durable_step = 4;
  c.copied = 2;
  c.passed_over = 3;
  c.failures = 1;
  CHECK(nlohmann::json::parse(live_json(view))["second_tier"]["durable_step"] == 4);
  auto text = live_text(view, 0);
  for (const char* word : {"second tier: step 6 is being copied, 1.0 KiB of 4.0 KiB written",
                           "durable: step 4 (2 copied, 3 skipped, 1 failed)"}) {
    CAPTURE(word);
    INFO(text);
    CHECK(text.find(word) != std::string::npos);
  }
  c = {};
  CHECK(nlohmann::json::parse(live_json(view))["second_tier"]["durable_step"].is_null());
  CHECK(live_text(view, 0).find("second tier: durable: none (0 copied") != std::string::npos);
  c.total_bytes = 1;
  for (const double odd : {-1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    c.bytes_per_s = odd;
    CHECK(live_text(view, 0).find("second tier: none is being copied") != std::string::npos);
  }
}
