// From the stats of workers to rows.
#include "apps/swap/live.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/up/swap_steps.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "messages/step_parts.hpp"
#include "trace/text.hpp"

namespace troupe::apps::swap {

namespace {

using json = nlohmann::ordered_json;

/// A rank some of whose state lives on a drive.
struct swapping_rank {
  std::string rank, node;
  const fbs::WorkerStatusT* worker = nullptr;
  const fbs::SwapStatusT& swap() const { return *worker->swap; }
};

std::vector<swapping_rank> ranks_of(const fbs::ClusterViewT& view) {
  std::vector<swapping_rank> out;
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors) {
      if (!a->ended.empty() || !a->values || !a->values->worker) continue;
      const auto& w = *a->values->worker;
      if (w.swap) out.push_back({a->path.substr(a->path.rfind('/') + 1), n->node, &w});
    }
  return out;
}

/// What the reporter says of the last step of all ranks; null: it has heard of none, or is away.
const fbs::SwapStepT* last_step_of(const fbs::ClusterViewT& view) {
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors)
      if (a->ended.empty() && a->values && a->values->reporter && a->values->reporter->swap)
        return a->values->reporter->swap.get();
  return nullptr;
}

/// How fast a rank read and wrote in its last step, while it did.
struct rank_rates {
  double read_bytes_s = 0, written_bytes_s = 0;
};

rank_rates rates_of(const swapping_rank& r) {
  const auto moved = moved_in(train::parts_of(r.worker->parts));
  if (!moved) return {};
  return {bytes_per_s(moved->read_bytes, moved->read_ms),
          bytes_per_s(moved->written_bytes, moved->write_ms)};
}

std::string rate_text(double bytes_s) {
  return fmt::format("{:.3g} GB/s", bytes_s / 1e9);
}

/// "rank 0 reads 1.91 GB/s and writes 1.2; of its last checkpoint's chunks 5 linked, 1 copied".
std::string rank_text(const swapping_rank& r) {
  const auto& s = r.swap();
  const auto rates = rates_of(r);
  std::vector<std::string> words;
  for (const auto& [count, word] :
       {std::pair(s.linked_chunks, "linked"), std::pair(s.cloned_chunks, "cloned"),
        std::pair(s.copied_chunks, "copied")})
    if (count > 0) words.push_back(fmt::format("{} {}", count, word));
  auto out = fmt::format("rank {} reads {} and writes {}", r.rank, rate_text(rates.read_bytes_s),
                         rate_text(rates.written_bytes_s));
  if (!words.empty())
    out += fmt::format("; of its last checkpoint's chunks {}", fmt::join(words, ", "));
  return out + "\n";
}

/// "step 7 took 1.20 s, 0.81 of the limit (disk): 3.2 GiB read at 1.91 GB/s, 2.1 GiB written at
/// 1.2 GB/s; drives were waited for 0.20 s", and what of its life the drive has lost.
std::string step_text(const fbs::SwapStepT& s) {
  auto out = fmt::format("step {} took {:.3g} s", s.step, s.step_ms / 1e3);
  if (s.limit_ms > 0)
    out += fmt::format(", {:.2f} of the limit ({})", s.of_limit_percent / 100, s.bound_by);
  if (s.limit_kept_ms > 0 && s.step_ms > 0)
    out += fmt::format(", {:.2f} by what the drive keeps", s.limit_kept_ms / s.step_ms);
  out += fmt::format(": {} read at {}, {} written at {}; drives were waited for {:.3g} s\n",
                     bytes_text(s.read_bytes), rate_text(s.read_bytes_per_s),
                     bytes_text(s.written_bytes), rate_text(s.written_bytes_per_s),
                     s.swap_wait_ms / 1e3);
  out += fmt::format("{} written since the job's head began", bytes_text(s.job_written_bytes));
  if (s.rated_bytes > 0)
    out +=
        fmt::format(", {:.3g} % of swap.rated_tbw", 100 * static_cast<double>(s.job_written_bytes) /
                                                        static_cast<double>(s.rated_bytes));
  return out + "\n";
}

json step_json(const fbs::SwapStepT& s) {
  json out{{"step", s.step},
           {"step_ms", s.step_ms},
           {"read_bytes", s.read_bytes},
           {"written_bytes", s.written_bytes},
           {"read_bytes_s", s.read_bytes_per_s},
           {"written_bytes_s", s.written_bytes_per_s},
           {"swap_wait_ms", s.swap_wait_ms}};
  if (s.limit_ms > 0) {
    out["limit_ms"] = s.limit_ms;
    out["of_limit"] = s.of_limit_percent / 100;
    out["bound_by"] = s.bound_by;
  }
  if (s.limit_kept_ms > 0) out["limit_kept_ms"] = s.limit_kept_ms;
  return out;
}

/// "weights 193.6 MiB, gradients 387.2 MiB".
std::string holders_text(const std::vector<std::unique_ptr<fbs::MemoryHolderT>>& holders) {
  std::vector<std::string> words;
  for (const auto& h : holders)
    if (h->peak_bytes > 0)
      words.push_back(fmt::format("{} {}", h->holder, bytes_text(h->peak_bytes)));
  return fmt::format("{}", fmt::join(words, ", "));
}

void add_holders(json& row, const char* key,
                 const std::vector<std::unique_ptr<fbs::MemoryHolderT>>& holders) {
  for (const auto& h : holders)
    row[key].push_back(
        {{"holder", h->holder}, {"held_bytes", h->held_bytes}, {"peak_bytes", h->peak_bytes}});
}

/// "speculate, 3 steps made again".
std::string clip_text(const fbs::SwapStatusT& s) {
  return s.redone_steps == 0
             ? s.clip
             : fmt::format("{}, {} made again", s.clip, counted(s.redone_steps, "step"));
}

/// "3 layers, 2 recomputed".
std::string spilled_text(const fbs::SwapStatusT& s) {
  const auto out = counted(s.spilled_layers, "layer");
  return s.recomputed_layers == 0 ? out
                                  : fmt::format("{}, {} recomputed", out, s.recomputed_layers);
}

}  // namespace

std::string live_text(const fbs::ClusterViewT& view, int columns) {
  const auto ranks = ranks_of(view);
  if (ranks.empty())
    return fmt::format(
        "no rank of {} has anything on a drive: swap.dir is empty, all fits into "
        "memory, or no step is done yet\n",
        view.job);
  std::vector<std::vector<std::string>> rows{{"rank", "node", "step", "state on drive",
                                              "weights on drive", "files", "in memory", "read",
                                              "written", "clipped", "activations there"}};
  for (const auto& r : ranks) {
    const auto& s = r.swap();
    rows.push_back({r.rank, r.node, std::to_string(r.worker->step),
                    counted(s.state_chunks, "chunk"), counted(s.weight_chunks, "chunk"),
                    bytes_text(s.disk_bytes), bytes_text(s.memory_bytes), bytes_text(s.read_bytes),
                    bytes_text(s.written_bytes), clip_text(s), spilled_text(s)});
  }
  auto out = trace::table_text(rows, columns);
  std::string told;
  std::set<std::pair<std::string, std::string>> told_gpus;
  for (const auto& r : ranks) {
    out += rank_text(r);
    const auto& s = r.swap();
    if (s.device_peak_bytes > 0 && told_gpus.emplace(r.node, s.device).second)
      out += fmt::format("{}, {}: {} of {} held, {} at most: {}\n", r.node,
                         s.device.empty() ? "GPU" : s.device, bytes_text(s.device_held_bytes),
                         bytes_text(s.device_budget_bytes), bytes_text(s.device_peak_bytes),
                         holders_text(s.device_holders));
    if (std::exchange(told, r.node) == r.node) continue;  // they share its process
    out +=
        fmt::format("{}: {} of {} held, {} at most: {}\n", r.node, bytes_text(s.held_bytes),
                    bytes_text(s.budget_bytes), bytes_text(s.peak_bytes), holders_text(s.holders));
    if (r.worker->process_peak_bytes > 0)
      out += fmt::format("{}: its process had {} in memory at most\n", r.node,
                         bytes_text(r.worker->process_peak_bytes));
  }
  if (const auto* step = last_step_of(view)) out += step_text(*step);
  return out;
}

std::string live_json(const fbs::ClusterViewT& view) {
  json j{{"format", 1}, {"job", view.job}, {"ranks", json::array()}};
  for (const auto& r : ranks_of(view)) {
    const auto& s = r.swap();
    const auto rates = rates_of(r);
    json row{{"rank", r.rank},
             {"node", r.node},
             {"step", r.worker->step},
             {"state_chunks", s.state_chunks},
             {"weight_chunks", s.weight_chunks},
             {"disk_bytes", s.disk_bytes},
             {"memory_bytes", s.memory_bytes},
             {"read_bytes", s.read_bytes},
             {"written_bytes", s.written_bytes},
             {"read_bytes_s", rates.read_bytes_s},
             {"written_bytes_s", rates.written_bytes_s},
             {"clip", s.clip},
             {"redone_steps", s.redone_steps},
             {"spilled_layers", s.spilled_layers},
             {"recomputed_layers", s.recomputed_layers},
             {"budget_bytes", s.budget_bytes},
             {"held_bytes", s.held_bytes},
             {"peak_bytes", s.peak_bytes},
             {"process_peak_bytes", r.worker->process_peak_bytes},
             {"linked_chunks", s.linked_chunks},
             {"cloned_chunks", s.cloned_chunks},
             {"copied_chunks", s.copied_chunks}};
    add_holders(row, "holders", s.holders);
    if (s.device_peak_bytes > 0) {
      row["device"] = s.device;
      row["device_budget_bytes"] = s.device_budget_bytes;
      row["device_held_bytes"] = s.device_held_bytes;
      row["device_peak_bytes"] = s.device_peak_bytes;
      add_holders(row, "device_holders", s.device_holders);
    }
    j["ranks"].push_back(std::move(row));
  }
  if (const auto* step = last_step_of(view)) {
    j["last_step"] = step_json(*step);
    j["job_written_bytes"] = step->job_written_bytes;
    if (step->rated_bytes > 0) j["rated_bytes"] = step->rated_bytes;
  }
  return j.dump() + "\n";
}

}  // namespace troupe::apps::swap
