// Names of work to operations, workers to ranks, trace ids to steps.
#include "trace/whatif_spans.hpp"

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "io/base/rank_grid.hpp"
#include "messages/operations.hpp"

namespace troupe::trace {

namespace {

/// `count`: no part of what a step waits for.
whatif_op op_of(std::string_view name) {
  const auto* facts = train::operation_named(name);
  if (facts == nullptr) return whatif_op::count;
  using k = train::pipeline_op;
  switch (facts->kind) {
    case k::forward:
      return whatif_op::forward;
    case k::backward:
      return whatif_op::backward;
    case k::receive_activation:
      return whatif_op::receive_activation;
    case k::receive_gradient:
      return whatif_op::receive_gradient;
    case k::send_activation:
      return whatif_op::send_activation;
    case k::send_gradient:
      return whatif_op::send_gradient;
    case k::reduce_scatter:
      return whatif_op::reduce_scatter;
    case k::norm:
      return whatif_op::norm;
    case k::all_reduce:
      return whatif_op::all_reduce;
    case k::measure:
      return whatif_op::measure;
    case k::all_gather_norms:
      return whatif_op::all_gather_norms;
    case k::update:
      return whatif_op::update;
    case k::all_gather:
      return whatif_op::all_gather;
    default:
      return whatif_op::count;
  }
}

/// 5 of "worker/5".
std::optional<int> rank_of(std::string_view path) {
  constexpr std::string_view begin = "worker/";
  if (!path.starts_with(begin)) return std::nullopt;
  path.remove_prefix(begin.size());
  int out = 0;
  const auto [at, fault] = std::from_chars(path.data(), path.data() + path.size(), out);
  if (fault != std::errc() || at != path.data() + path.size() || out < 0) return std::nullopt;
  return out;
}

/// Weights that live on a drive are gathered each time that they are fetched: what differs by this
/// is of the same chunk, of which a stage has fewer.
constexpr int32_t gathering_apart = 1 << 20;

struct ranked_span {
  int rank = 0;
  whatif_span span;
};

error no_steps(const timeline& t) {
  return {errc::not_found,
          t.steps().empty() ? "the trace holds no whole step"
                            : "the trace holds no work of a worker within a step",
          "record for a few steps, without a filter: `troupe trace record OUT`"};
}

}  // namespace

result<whatif_window> whatif_window_of(const timeline& t) {
  std::unordered_map<uint64_t, uint64_t> step_of;  // by trace id
  for (const auto& s : t.steps()) step_of[s.span] = s.number;
  std::map<int, std::string> nodes;  // by rank
  std::set<int> receivers;
  std::vector<ranked_span> spans;
  std::map<std::tuple<int, uint64_t, int32_t>, int32_t> gathered;  // by rank, step and chunk
  for (const auto& e : t.events()) {
    const auto step = step_of.find(e.record.trace);
    if (!e.is_work() || step == step_of.end()) continue;
    const auto op = op_of(t.name(e));
    const auto rank = rank_of(t.path(e.actor));
    if (op == whatif_op::count || !rank) continue;
    ranked_span r;
    r.rank = *rank;
    r.span.step = step->second;
    r.span.op = op;
    r.span.number = static_cast<int32_t>(e.record.sender & 0x7fff'ffff);
    if (op == whatif_op::all_gather)
      r.span.number += gathering_apart * gathered[{r.rank, r.span.step, r.span.number}]++;
    r.span.bytes = e.record.bytes;
    r.span.begin_ns = e.begin_ns;
    r.span.end_ns = e.end_ns;
    spans.push_back(r);
    nodes[*rank] = e.process != nothing ? t.processes()[e.process].node : std::string();
    if (op == whatif_op::receive_activation) receivers.insert(*rank);
  }
  if (spans.empty()) return no_steps(t);
  const auto ranks = nodes.size();
  const auto data = ranks - receivers.size();
  if (static_cast<size_t>(nodes.rbegin()->first) + 1 != ranks || data == 0 || ranks % data != 0)
    return error{errc::bad_data,
                 fmt::format("the trace holds work of {} ranks up to rank {}, of which {} are of a "
                             "first stage: not all ranks of a job",
                             ranks, nodes.rbegin()->first, data),
                 "record all nodes, without a filter: `troupe trace record OUT`"};
  const rank_grid grid(static_cast<int>(data), 1, static_cast<int>(ranks / data));
  whatif_window out;
  out.layout.data = grid.data;
  out.layout.pipeline = grid.pipeline;
  out.layout.hosts.resize(ranks);
  out.layout.names.resize(ranks);
  for (const auto& [rank, node] : nodes) {
    const auto at = grid.place_of(rank);
    out.layout.hosts[out.layout.cell(at.data, at.pipeline)] = node;
    out.layout.names[out.layout.cell(at.data, at.pipeline)] = fmt::format("rank {}", rank);
  }
  for (auto& r : spans) {
    const auto at = grid.place_of(r.rank);
    r.span.data = at.data;
    r.span.pipeline = at.pipeline;
    out.spans.push_back(r.span);
  }
  return out;
}

}  // namespace troupe::trace
