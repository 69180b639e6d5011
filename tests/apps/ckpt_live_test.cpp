// The live view of checkpoints, from cards as a cluster's actors publish them.
#include "apps/ckpt/live.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace troupe;
using namespace troupe::apps::ckpt;

namespace {

void add(fbs::ClusterViewT& view, const std::string& path, const std::string& state,
         const std::string& detail) {
  if (view.nodes.empty()) view.nodes.push_back(std::make_unique<fbs::ActorListT>());
  view.nodes.back()->actors.push_back(std::make_unique<fbs::ActorInfoT>());
  auto& a = *view.nodes.back()->actors.back();
  a.path = path;
  a.state = state;
  a.detail = detail;
}

std::string worker(const std::string& saves) {
  return R"({"checkpoint":{"saves":[)" + saves +
         R"(],"durable":3,"failed":1,"share_bytes":4000,"durable_bytes":12000,)"
         R"("ring_wait_ms":1.5,"ring_slots":{"free":1,"filling":1,"filled":0,"writing":2},)"
         R"("slot_bytes":4096,"disk":"uring"}})";
}

fbs::ClusterViewT busy() {
  fbs::ClusterViewT view;
  view.job = "j";
  add(view, "run", "training",
      R"({"step":9,"saved_step":6,"saving":[7,8,9],"checkpoints":6,"skipped_checkpoints":2,)"
      R"("checkpoint_wait_ms":0.25})");
  add(view, "archive", "committing", "{}");
  add(view, "worker/0", "ready",
      worker(R"({"step":8,"total":4000,"captured":4000,"written":1000,"durable":0,"age_s":2.0})"));
  add(view, "worker/1", "ready",
      worker(R"({"step":8,"total":4000,"captured":4000,"written":3000,"durable":0,"age_s":1.5},)"
             R"({"step":9,"total":4000,"captured":100,"written":0,"durable":0,"age_s":0.1})"));
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

TEST_CASE("ckpt live: nothing under way, and cards that are no JSON or another's") {
  auto view = busy();
  for (auto& a : view.nodes[0]->actors) a->detail = a->path == "run" ? R"({"saved_step":9})" : "x";
  CHECK(live_text(view, 80).find("no checkpoint is under way") == 0);
  for (const char* hostile : {"[]", "{\"checkpoint\":7}", "{\"checkpoint\":{\"saves\":3}}",
                              "{\"checkpoint\":{\"saves\":[1,{}],\"ring_slots\":[]}}"}) {
    for (auto& a : view.nodes[0]->actors) a->detail = hostile;
    CHECK(nlohmann::json::parse(live_json(view)).contains("under_way"));
  }
}

TEST_CASE("ckpt live: the second tier, where there is one") {
  CHECK(nlohmann::json::parse(live_json(busy()))["second_tier"].is_null());
  CHECK(live_text(busy(), 0).find("second tier") == std::string::npos);
  auto view = busy();
  add(view, "carrier", "copying",
      R"({"step":6,"total_bytes":4096,"written_bytes":1024,"durable_bytes":512,)"
      R"("bytes_per_s":2048,"durable_step":4,"copied":2,"passed_over":3,"failures":1})");
  CHECK(nlohmann::json::parse(live_json(view))["second_tier"]["durable_step"] == 4);
  auto text = live_text(view, 0);
  for (const char* word : {"second tier: step 6 is being copied, 1.0 KiB of 4.0 KiB written",
                           "durable: step 4 (2 copied, 3 passed over, 1 failed)"}) {
    CAPTURE(word);
    INFO(text);
    CHECK(text.find(word) != std::string::npos);
  }
  view.nodes.back()->actors.back()->detail =
      R"({"step":null,"total_bytes":0,"durable_step":null,"copied":0})";
  text = live_text(view, 0);
  CHECK(text.find("second tier: durable: none (0 copied") != std::string::npos);
  view.nodes.back()->actors.back()->detail = R"({"step":[],"total_bytes":"x","durable_step":-1})";
  CHECK(live_text(view, 0).find("second tier: durable: none") != std::string::npos);
}
