// From the stats of actors to checkpoints.
#include "apps/ckpt/live.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "messages/status_rows.hpp"
#include "trace/text.hpp"

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
  std::string committer, disk;
  const fbs::ReplicatorStatusT* second = nullptr;  ///< the second tier, where there is one
};

void add_worker(picture& p, const fbs::SaverStatusT& c) {
  ++p.ranks;
  p.failed += c.failed;
  p.ring_wait_ms = std::max(p.ring_wait_ms, c.ring_wait_ms);
  p.disk = c.disk;
  if (const auto* ring = c.ring_slots.get()) {
    const uint64_t all = uint64_t{ring->free} + ring->filling + ring->filled + ring->writing;
    if (p.slots == 0 || ring->free < p.free_slots) p.slots = all, p.free_slots = ring->free;
  }
  for (const auto& s : c.saves) {
    auto& save = p.saves[s->step];
    ++save.shards;
    save.total += s->total;
    save.captured += s->captured;
    save.written += s->written;
    save.age_s = std::max(save.age_s, s->age_s);
  }
}

void add_run(picture& p, const fbs::RunStatusT& run) {
  p.saved_step = run.saved_step;
  p.checkpoints = run.checkpoints;
  p.skipped = run.skipped_checkpoints;
  p.held_up_ms = run.checkpoint_wait_ms;
  for (const auto step : run.saving) p.saves[step];
}

picture picture_of(const fbs::ClusterViewT& view) {
  picture p;
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors) {
      if (!a->ended.empty() || !a->values) continue;
      const auto& v = *a->values;
      if (v.committer) p.committer = a->state;
      if (v.worker && v.worker->checkpoint) add_worker(p, *v.worker->checkpoint);
      if (v.run) add_run(p, *v.run);
      if (v.replicator) p.second = v.replicator.get();
    }
  std::erase_if(p.saves, [&](const auto& s) { return s.first <= p.saved_step; });
  return p;
}

const char* state_of(const picture& p, const on_its_way& s) {
  if (s.shards == 0) return p.committer == "committing" ? "committing" : "voting";
  return s.captured < s.total ? "copying" : "flushing";
}

double rate_of(const on_its_way& s) {
  return s.age_s > 0 ? static_cast<double>(s.written) / s.age_s : 0;
}

/// A line on the second tier.
std::string second_text(const fbs::ReplicatorStatusT& c) {
  std::string out = "second tier: ";
  const auto step = [](int64_t number) {
    return number >= 0 ? fmt::format("step {}", number) : std::string("none");
  };
  if (c.total_bytes > 0)
    out += fmt::format(
        "{} is being copied, {} of {} written, {}/s; ", step(c.step), bytes_text(c.written_bytes),
        bytes_text(c.total_bytes),
        bytes_text(static_cast<uint64_t>(std::min(std::max(0.0, c.bytes_per_s), 1e18))));
  return out + fmt::format("durable: {} ({} copied, {} skipped, {} failed)\n", step(c.durable_step),
                           c.copied, c.passed_over, c.failures);
}

json second_json(const fbs::ReplicatorStatusT& c) {
  fbs::StatusValuesT values;
  values.replicator = std::make_unique<fbs::ReplicatorStatusT>(c);
  return json::parse(to_json(status_rows(values)));
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
  out += fmt::format("committed: step {} ({} by this run, {} left out, {} failed)\n", p.saved_step,
                     p.checkpoints, p.skipped, counted(p.failed, "shard"));
  if (p.second != nullptr) out += second_text(*p.second);
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
  j["second_tier"] = p.second != nullptr ? second_json(*p.second) : json(nullptr);
  return j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps::ckpt
