// From the stats of workers to rows.
#include "apps/swap/live.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/base/counted.hpp"
#include "io/base/text.hpp"
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

/// "weights 193.6 MiB, gradients 387.2 MiB".
std::string holders_text(const fbs::SwapStatusT& s) {
  std::vector<std::string> words;
  for (const auto& h : s.holders)
    if (h->peak_bytes > 0)
      words.push_back(fmt::format("{} {}", h->holder, bytes_text(h->peak_bytes)));
  return fmt::format("{}", fmt::join(words, ", "));
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
  for (const auto& r : ranks) {
    if (std::exchange(told, r.node) == r.node) continue;  // they share its process
    const auto& s = r.swap();
    out += fmt::format("{}: {} of {} held, {} at most: {}\n", r.node, bytes_text(s.held_bytes),
                       bytes_text(s.budget_bytes), bytes_text(s.peak_bytes), holders_text(s));
  }
  return out;
}

std::string live_json(const fbs::ClusterViewT& view) {
  json j{{"format", 1}, {"job", view.job}, {"ranks", json::array()}};
  for (const auto& r : ranks_of(view)) {
    const auto& s = r.swap();
    json row{{"rank", r.rank},
             {"node", r.node},
             {"step", r.worker->step},
             {"state_chunks", s.state_chunks},
             {"weight_chunks", s.weight_chunks},
             {"disk_bytes", s.disk_bytes},
             {"memory_bytes", s.memory_bytes},
             {"read_bytes", s.read_bytes},
             {"written_bytes", s.written_bytes},
             {"clip", s.clip},
             {"redone_steps", s.redone_steps},
             {"spilled_layers", s.spilled_layers},
             {"recomputed_layers", s.recomputed_layers},
             {"budget_bytes", s.budget_bytes},
             {"held_bytes", s.held_bytes},
             {"peak_bytes", s.peak_bytes}};
    for (const auto& h : s.holders)
      row["holders"].push_back(
          {{"holder", h->holder}, {"held_bytes", h->held_bytes}, {"peak_bytes", h->peak_bytes}});
    j["ranks"].push_back(std::move(row));
  }
  return j.dump() + "\n";
}

}  // namespace troupe::apps::swap
