// From paces of nodes to a kind of node for each, and from planned bytes to bytes of a layer.
#include "actors/train/measured_split_policy.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/engine.hpp"
#include "actors/train/memory_estimate.hpp"
#include "gpu/swap/step_traffic.hpp"

namespace troupe::train {

namespace {

/// What measurements of equal nodes vary by: that must not make another split.
constexpr double counts_alike = 1.03;
/// Another split, or one for which nodes change places, takes at most that share of what stays.
constexpr double worth_changing = 0.95;

/// The same, where two of the paces may be off at once: a slowest stage before and one after.
double worth_by(const std::vector<node_pace>& places) {
  double widest = 0, next = 0;
  for (const auto& p : places) {
    next = std::max(next, std::min(widest, p.half));
    widest = std::max(widest, p.half);
  }
  return std::min(worth_changing, std::exp(-std::hypot(widest, next)));
}

uint64_t bytes_less(uint64_t from, uint64_t what) {
  return from > what ? from - what : 0;
}

/// What a rank of each stage takes of its node's memory.
std::vector<uint64_t> bytes_by_stage(const job_plan& plan) {
  std::vector<uint64_t> out;
  for (const auto& s : plan_stages(plan)) out.push_back(s.bytes.total() + s.ring_bytes);
  return out;
}

/// The same if each stage had so many layers.
std::vector<uint64_t> bytes_with_layers(job_plan plan, int64_t layers) {
  for (auto& r : plan.ranks) r.layers = {0, layers};
  return bytes_by_stage(plan);
}

/// A node that shares its memory with no other one is a host of its own.
std::string host_of(const rank_place& rank, const std::vector<node_pace>& places) {
  const auto& host = places.at(static_cast<size_t>(rank.node)).host;
  return host.empty() ? fmt::format("node {}", rank.node) : host;
}

/// By host, what its ranks take as planned.
std::map<std::string, uint64_t> bytes_by_host(const job_plan& plan,
                                              const std::vector<node_pace>& places) {
  const auto planned = bytes_by_stage(plan);
  std::map<std::string, uint64_t> out;
  for (const auto& r : plan.ranks)
    out[host_of(r, places)] += planned[static_cast<size_t>(r.at.place().pipeline)];
  return out;
}

/// By stage, of the slowest of its nodes and of the one that has the least memory for it.
std::vector<node_pace> paces_by_stage(const job_plan& plan, const std::vector<node_pace>& places) {
  const auto planned = bytes_by_stage(plan);
  const auto of_hosts = bytes_by_host(plan, places);
  std::vector<node_pace> out(static_cast<size_t>(plan.job.parallel.pipeline));
  for (const auto& r : plan.ranks) {
    const auto number = static_cast<size_t>(r.at.place().pipeline);
    auto& stage = out[number];
    const auto& node = places.at(static_cast<size_t>(r.node));
    if (stage.flops_s == 0 || node.flops_s < stage.flops_s) stage.flops_s = node.flops_s;
    if (node.memory_bytes == 0) continue;
    const auto all = static_cast<double>(of_hosts.at(host_of(r, places)));
    const auto share = static_cast<double>(planned[number]) / all;
    const auto bytes = std::max<uint64_t>(
        1, static_cast<uint64_t>(static_cast<double>(node.memory_bytes) * share));
    if (stage.memory_bytes == 0 || bytes < stage.memory_bytes) stage.memory_bytes = bytes;
  }
  return out;
}

/// The slowest first: who is hardly quicker than another one is of its kind. `nodes`: those of the
/// first stage first.
void add_kinds(split_question& q, const job_plan& plan, const std::vector<node_pace>& nodes) {
  std::vector<size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t s) { return nodes[s].flops_s; });
  std::vector<node_pace> kinds;
  q.nodes.resize(nodes.size());
  for (const auto s : order) {
    const auto& pace = nodes[s];
    const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const node_pace& k) {
      return k.memory_bytes == pace.memory_bytes && pace.flops_s <= counts_alike * k.flops_s;
    });
    q.nodes[s] = static_cast<size_t>(it - kinds.begin());
    if (it != kinds.end()) continue;
    kinds.push_back(pace);
    q.kinds.push_back(kind_of_node(plan, fmt::format("as node {}", s), pace.flops_s));
    q.kinds.back().memory_bytes = pace.memory_bytes;
  }
}

/// What a layer takes, in itself and for each micro-batch in flight, and what the ends take beside
/// their layers; what every stage takes is no kind's memory any more.
void add_bytes(split_question& q, const job_plan& plan) {
  const auto one = bytes_with_layers(plan, 1), two = bytes_with_layers(plan, 2);
  for (const auto& r : plan.ranks)
    if (r.at.place().data == 0) q.slots.push_back(slots_needed(schedule_of_stage(plan.job, r.at)));
  std::vector<uint64_t> layer;
  for (size_t s = 0; s < one.size(); ++s) layer.push_back(bytes_less(two[s], one[s]));
  const auto beside = [&](size_t s) { return bytes_less(one[s], layer[s]); };
  const auto slots_apart = static_cast<uint64_t>(q.slots.front() - q.slots.back());
  const uint64_t slot =
      slots_apart == 0 ? 0 : bytes_less(layer.front(), layer.back()) / slots_apart;
  const uint64_t alone = bytes_less(layer.back(), slot * static_cast<uint64_t>(q.slots.back()));
  const uint64_t common = one.size() > 2 ? beside(1) : 0;
  const auto layers = static_cast<size_t>(plan.model.layers);
  q.layer_bytes.assign(layers, alone);
  q.layer_slot_bytes.assign(layers, slot);
  q.embedding_bytes = bytes_less(beside(0), common);
  q.head_bytes = bytes_less(beside(one.size() - 1), common);
  for (auto& kind : q.kinds)
    if (kind.memory_bytes > 0)
      kind.memory_bytes = std::max<uint64_t>(1, bytes_less(kind.memory_bytes, common));
}

/// What both questions share.
split_question question_of(const job_plan& plan, const std::vector<node_pace>& nodes) {
  split_question q;
  add_kinds(q, plan, nodes);
  add_bytes(q, plan);
  for (const auto& s : plan_stages(plan)) q.layers_now.push_back(s.layers.last - s.layers.first);
  return q;
}

/// A stage's bytes once it has the layers of a split.
result<std::vector<uint64_t>> bytes_after(const job_plan& plan, const stage_split& split) {
  auto settled = plan;
  TROUPE_CHECK(settle_layers(settled, fmt::format("{}", fmt::join(split.layers, ","))));
  return bytes_by_stage(settled);
}

result<stage_split> split_with_nodes_staying(const job_plan& plan,
                                             const std::vector<node_pace>& places) {
  const auto stages = paces_by_stage(plan, places);
  auto q = question_of(plan, stages);
  q.nodes_stay = true;
  TROUPE_TRY(split, best_split(q));
  split.nodes.resize(places.size());
  std::iota(split.nodes.begin(), split.nodes.end(), size_t{0});
  const double worth = worth_by(places);
  if (split.now_s > 0 && split.slowest_s > worth * split.now_s) {  // MSL-2
    split.layers = q.layers_now;
    split.slowest_s = split.now_s;
    split.reason = fmt::format(
        "no other split has a slowest stage that is {:.0f} % quicker than {:.3g} ms a micro-batch",
        100 * (1 - worth), 1e3 * split.now_s);
    return split;
  }
  TROUPE_TRY(bytes, bytes_after(plan, split));
  for (size_t s = 0; s < bytes.size(); ++s)  // MSL-1
    if (stages[s].memory_bytes > 0 && bytes[s] > stages[s].memory_bytes)
      return no_split_fits(q.layer_bytes.size(), bytes.size());
  return split;
}

/// The stage of each place; empty where one has ranks of several, or more ranks than another.
std::vector<size_t> stages_of_places(const job_plan& plan, size_t places) {
  std::vector<size_t> stage(places), ranks(places);
  for (const auto& r : plan.ranks) {
    const auto place = static_cast<size_t>(r.node);
    const auto its = static_cast<size_t>(r.at.place().pipeline);
    if (ranks.at(place)++ > 0 && stage[place] != its) return {};
    stage[place] = its;
  }
  const bool alike = std::ranges::all_of(ranks, [&](size_t n) { return n == ranks.front(); });
  return alike ? stage : std::vector<size_t>();
}

/// What each worker of a place has, where its host's workers share alike. Memory that holds
/// whatever stage is as good as any: machines that differ by pages are of one kind.
std::vector<node_pace> paces_of_workers(const job_plan& plan,
                                        const std::vector<node_pace>& places) {
  const auto most_layers = plan.model.layers - plan.job.parallel.pipeline + 1;
  const auto largest = std::ranges::max(bytes_with_layers(plan, most_layers));
  std::map<std::string, uint64_t> workers;
  for (const auto& r : plan.ranks) ++workers[host_of(r, places)];
  auto out = places;
  for (const auto& r : plan.ranks) {
    const auto node = static_cast<size_t>(r.node);
    const auto all = places[node].memory_bytes;
    if (all == 0) continue;
    const auto share = std::max<uint64_t>(1, all / workers.at(host_of(r, places)));
    out[node].memory_bytes = share >= largest ? 0 : share;
  }
  return out;
}

/// Those of each stage, with who was there already in its own place (MSL-4). `nodes`: those of the
/// first stage first, as many for each.
std::vector<size_t> keeping_places(const std::vector<size_t>& nodes,
                                   const std::vector<size_t>& stage_of, size_t stages) {
  const size_t each = nodes.size() / stages;
  std::vector<size_t> out(nodes.size());
  for (size_t stage = 0; stage < stages; ++stage) {
    std::vector<size_t> come, free;
    for (size_t place = stage * each; place < (stage + 1) * each; ++place) {
      if (stage_of[nodes[place]] == stage)
        out[nodes[place]] = nodes[place];
      else
        come.push_back(nodes[place]);
      const auto end = nodes.begin() + static_cast<std::ptrdiff_t>((stage + 1) * each);
      if (std::find(end - static_cast<std::ptrdiff_t>(each), end, place) == end)
        free.push_back(place);
    }
    for (size_t i = 0; i < come.size(); ++i) out[free[i]] = come[i];
  }
  return out;
}

/// Of places whose ranks are each of one stage.
result<stage_split> split_with_nodes_moved(const job_plan& plan,
                                           const std::vector<node_pace>& places,
                                           const std::vector<size_t>& stage_of) {
  const auto nodes = paces_of_workers(plan, places);
  const auto q = question_of(plan, nodes);
  TROUPE_TRY(split, best_split(q));
  TROUPE_TRY(bytes, bytes_after(plan, split));
  split.nodes = keeping_places(split.nodes, stage_of, bytes.size());
  for (size_t place = 0; place < split.nodes.size(); ++place)  // MSL-1
    if (const auto there = nodes[split.nodes[place]].memory_bytes;
        there > 0 && bytes[stage_of[place]] > there)
      return no_split_fits(q.layer_bytes.size(), bytes.size());
  return split;
}

}  // namespace

node_kind kind_of_node(const job_plan& plan, std::string name, double flops_s) {
  const auto& of = plan.job.train;
  const auto tokens = static_cast<double>(of.micro_batch * of.seq_len);
  const double passes = plan.job.model.recompute ? 4 : 3;
  const double layer = tokens * gpu::layer_flops(plan.model, of.seq_len) * passes / 3;
  const double head = tokens * 6 * static_cast<double>(plan.model.vocab * plan.model.hidden);
  return {std::move(name),
          std::vector<double>(static_cast<size_t>(plan.model.layers), layer / flops_s), 0,
          head / flops_s, 0};
}

result<stage_split> measured_split(const job_plan& plan, const std::vector<node_pace>& places,
                                   node_order order) {
  auto staying = split_with_nodes_staying(plan, places);
  const auto stage_of =
      order == node_order::stays ? std::vector<size_t>() : stages_of_places(plan, places.size());
  if (stage_of.empty()) return staying;
  auto moved = split_with_nodes_moved(plan, places, stage_of);
  if (!moved) return staying;
  if (!staying) return moved;
  if (moved->slowest_s > worth_by(places) * staying->slowest_s) return staying;  // MSL-4
  moved->reason += fmt::format("; with each where it is, and {} layers, it is {:.3g} ms",
                               fmt::join(staying->layers, ","), 1e3 * staying->slowest_s);
  return moved;
}

std::vector<uint64_t> bytes_of_places(const job_plan& plan, const std::vector<node_pace>& places) {
  const auto planned = bytes_by_stage(plan);
  const auto of_hosts = bytes_by_host(plan, places);
  std::vector<uint64_t> out(places.size());
  for (const auto& r : plan.ranks) {
    const auto node = static_cast<size_t>(r.node);
    const auto there = places.at(node).memory_bytes;
    const bool has_room = there == 0 || of_hosts.at(host_of(r, places)) <= there;
    if (has_room) out[node] += planned[static_cast<size_t>(r.at.place().pipeline)];
  }
  return out;
}

}  // namespace troupe::train
