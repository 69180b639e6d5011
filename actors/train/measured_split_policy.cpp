// From paces of nodes to a kind of node for each, and from planned bytes to bytes of a layer.
#include "actors/train/measured_split_policy.hpp"

#include <algorithm>
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

/// What measurements of equal nodes vary by, and by how much another split must be quicker.
constexpr double counts_alike = 1.03, worth_it = 0.98;

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

/// The slowest first: who is hardly quicker than another one is of its kind.
void add_kinds(split_question& q, const job_plan& plan, const std::vector<node_pace>& stages) {
  std::vector<size_t> order(stages.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t s) { return stages[s].flops_s; });
  std::vector<node_pace> kinds;
  q.nodes.resize(stages.size());
  for (const auto s : order) {
    const auto& pace = stages[s];
    const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const node_pace& k) {
      return k.memory_bytes == pace.memory_bytes && pace.flops_s <= counts_alike * k.flops_s;
    });
    q.nodes[s] = static_cast<size_t>(it - kinds.begin());
    if (it != kinds.end()) continue;
    kinds.push_back(pace);
    q.kinds.push_back(kind_of_node(plan, fmt::format("as stage {}", s), pace.flops_s));
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

result<stage_split> measured_split(const job_plan& plan, const std::vector<node_pace>& places) {
  const auto stages = paces_by_stage(plan, places);
  split_question q;
  q.nodes_stay = true;
  add_kinds(q, plan, stages);
  add_bytes(q, plan);
  for (const auto& s : plan_stages(plan)) q.layers_now.push_back(s.layers.last - s.layers.first);
  TROUPE_TRY(split, best_split(q));
  if (split.now_s > 0 && split.slowest_s > worth_it * split.now_s) {  // MSL-2
    split.layers = q.layers_now;
    split.reason = fmt::format(
        "no other split has a slowest stage that is 2 % quicker than {:.3g} "
        "ms a micro-batch",
        1e3 * split.now_s);
    return split;
  }
  auto settled = plan;
  TROUPE_CHECK(settle_layers(settled, fmt::format("{}", fmt::join(split.layers, ","))));
  const auto bytes = bytes_by_stage(settled);
  for (size_t s = 0; s < bytes.size(); ++s)  // MSL-1
    if (stages[s].memory_bytes > 0 && bytes[s] > stages[s].memory_bytes)
      return no_split_fits(q.layer_bytes.size(), bytes.size());
  return split;
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
