// Cards to checkpoints.
#include "apps/ckpt/live.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/trace/text.hpp"
#include "io/base/text.hpp"

namespace troupe::apps::ckpt {

namespace {

using json = nlohmann::ordered_json;

/// One checkpoint on its way, over all ranks.
struct on_its_way {
  uint64_t shards = 0;  ///< that are still being copied or written
  uint64_t total = 0, captured = 0, written = 0;
  double age_s = 0;
};

struct picture {
  std::map<uint64_t, on_its_way> saves;  ///< by step
  uint64_t ranks = 0, saved_step = 0, checkpoints = 0, skipped = 0, failed = 0;
  double held_up_ms = 0, ring_wait_ms = 0;
  uint64_t slots = 0, free_slots = 0;  ///< of the fullest ring
  std::string archive, disk;
  json second;  ///< what the carrier's card says of the second tier; null without one
};

uint64_t whole(const json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_number_unsigned() ? at->get<uint64_t>() : 0;
}

double real(const json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_number() ? at->get<double>() : 0;
}

void add_worker(picture& p, const json& detail) {
  const auto at = detail.find("checkpoint");
  if (at == detail.end() || !at->is_object()) return;
  const auto& c = *at;
  ++p.ranks;
  p.failed += whole(c, "failed");
  p.ring_wait_ms = std::max(p.ring_wait_ms, real(c, "ring_wait_ms"));
  if (c.contains("disk") && c["disk"].is_string()) p.disk = c["disk"].get<std::string>();
  if (const auto ring = c.find("ring_slots"); ring != c.end() && ring->is_object()) {
    const auto free = whole(*ring, "free");
    const auto all =
        free + whole(*ring, "filling") + whole(*ring, "filled") + whole(*ring, "writing");
    if (p.slots == 0 || free < p.free_slots) p.slots = all, p.free_slots = free;
  }
  const auto saves = c.find("saves");
  if (saves == c.end() || !saves->is_array()) return;
  for (const auto& s : *saves) {
    if (!s.is_object()) continue;
    auto& save = p.saves[whole(s, "step")];
    ++save.shards;
    save.total += whole(s, "total");
    save.captured += whole(s, "captured");
    save.written += whole(s, "written");
    save.age_s = std::max(save.age_s, real(s, "age_s"));
  }
}

void add_run(picture& p, const json& detail) {
  p.saved_step = whole(detail, "saved_step");
  p.checkpoints = whole(detail, "checkpoints");
  p.skipped = whole(detail, "skipped_checkpoints");
  p.held_up_ms = real(detail, "checkpoint_wait_ms");
  if (const auto open = detail.find("saving"); open != detail.end() && open->is_array())
    for (const auto& step : *open)
      if (step.is_number_unsigned()) p.saves[step.get<uint64_t>()];
}

picture picture_of(const fbs::ClusterViewT& view) {
  picture p;
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors) {
      if (!a->ended.empty()) continue;
      const auto detail = json::parse(a->detail, nullptr, false);
      if (a->path == "archive") p.archive = a->state;
      if (!detail.is_object()) continue;
      if (a->path.starts_with("worker/")) add_worker(p, detail);
      if (a->path == "run") add_run(p, detail);
      if (a->path == "carrier") p.second = detail;
    }
  std::erase_if(p.saves, [&](const auto& s) { return s.first <= p.saved_step; });
  return p;
}

const char* state_of(const picture& p, const on_its_way& s) {
  if (s.shards == 0) return p.archive == "committing" ? "committing" : "voting";
  return s.captured < s.total ? "copying" : "flushing";
}

double rate_of(const on_its_way& s) {
  return s.age_s > 0 ? static_cast<double>(s.written) / s.age_s : 0;
}

/// A line on the second tier.
std::string second_text(const json& c) {
  std::string out = "second tier: ";
  const auto step = [&](const char* key) {
    return c.contains(key) && c[key].is_number_unsigned()
               ? fmt::format("step {}", c[key].get<uint64_t>())
               : std::string("none");
  };
  if (whole(c, "total_bytes") > 0)
    out += fmt::format("{} is being copied, {} of {} written, {}/s; ", step("step"),
                       bytes_text(whole(c, "written_bytes")), bytes_text(whole(c, "total_bytes")),
                       bytes_text(whole(c, "bytes_per_s")));
  return out + fmt::format("durable: {} ({} copied, {} passed over, {} failed)\n",
                           step("durable_step"), whole(c, "copied"), whole(c, "passed_over"),
                           whole(c, "failures"));
}

}  // namespace

std::string live_text(const fbs::ClusterViewT& view, int columns) {
  const auto p = picture_of(view);
  std::vector<std::vector<std::string>> rows{
      {"step", "state", "shards under way", "copied", "written", "of", "rate", "age"}};
  for (const auto& [step, s] : p.saves)
    rows.push_back({std::to_string(step), state_of(p, s), fmt::format("{}/{}", s.shards, p.ranks),
                    bytes_text(s.captured), bytes_text(s.written), bytes_text(s.total),
                    fmt::format("{}/s", bytes_text(static_cast<uint64_t>(rate_of(s)))),
                    fmt::format("{:.1f} s", s.age_s)});
  auto out = p.saves.empty() ? std::string("no checkpoint is under way\n")
                             : trace::table_text(rows, columns);
  out += fmt::format("committed: step {} ({} by this run, {} left out, {} shards failed)\n",
                     p.saved_step, p.checkpoints, p.skipped, p.failed);
  if (p.second.is_object()) out += second_text(p.second);
  out += fmt::format("training was held up for {:.1f} ms; copies waited {:.1f} ms for the ring\n",
                     p.held_up_ms, p.ring_wait_ms);
  if (p.slots > 0)
    out +=
        fmt::format("fullest ring: {} of {} slots free; disk: {}\n", p.free_slots, p.slots, p.disk);
  return out;
}

std::string live_json(const fbs::ClusterViewT& view) {
  const auto p = picture_of(view);
  json j{{"format", 1}, {"job", view.job}, {"saved_step", p.saved_step}};
  j["under_way"] = json::array();
  for (const auto& [step, s] : p.saves)
    j["under_way"].push_back({{"step", step},
                              {"state", state_of(p, s)},
                              {"shards", s.shards},
                              {"ranks", p.ranks},
                              {"bytes", s.total},
                              {"captured_bytes", s.captured},
                              {"written_bytes", s.written},
                              {"bytes_per_s", rate_of(s)},
                              {"age_s", s.age_s}});
  j["checkpoints"] = p.checkpoints;
  j["skipped_checkpoints"] = p.skipped;
  j["failed_shards"] = p.failed;
  j["checkpoint_wait_ms"] = p.held_up_ms;
  j["ring_wait_ms"] = p.ring_wait_ms;
  j["ring_slots"] = p.slots;
  j["free_ring_slots"] = p.free_slots;
  j["disk"] = p.disk;
  j["second_tier"] = p.second;
  return j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps::ckpt
