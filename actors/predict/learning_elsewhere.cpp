// What is expected of a rank on a machine that its parts were not measured on: by machines of its
// kind, by probes, and by a prior (learning_policy.hpp, LRN-8 and LRN-9).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "actors/predict/learning_policy.hpp"

namespace troupe::predict {

namespace {

using train::pipeline_op;

/// Of machines of a kind that are asked, the first of these.
constexpr size_t siblings_asked = 8;
/// Equal machines differ by so much (online_policy's prior of a node), 19 of 20.
constexpr double equals_differ = 1.96 * 0.08;

/// No two machines are farther apart: a number that is none.
constexpr double machines_apart = 1e4;

/// Whether a machine's processors and memory alone say how quick a part is. A prior knows no links.
bool is_by_machine(pipeline_op part) {
  constexpr pipeline_op all[] = {pipeline_op::forward, pipeline_op::backward, pipeline_op::update,
                                 pipeline_op::norm, pipeline_op::capture};
  return std::ranges::find(all, part) != std::end(all);
}

}  // namespace

/// To a machine on which it takes so many times as long; nothing: as it is.
gpu::predict::step_estimate learning_policy::carried(gpu::predict::step_estimate e,
                                                     const std::optional<carried_by>& by) {
  if (!by) return e;
  e.seconds *= by->by;
  e.least_s *= by->by * std::exp(-by->half);
  e.most_s *= by->by * std::exp(by->half);
  return e;
}

void learning_policy::hear_probes(const probed_node& node) {
  const bool has_room =
      profiles_.contains(node.node) || profiles_.size() < gpu::predict::known_nodes;
  if (!has_room) return;  // LRN-3
  profiles_[node.node] = node.profile;
  if (node.prior)
    priors_[node.node] = *node.prior;
  else
    priors_.erase(node.node);
  for (const auto& r : node.ranks) {
    if (r.rank >= ranks_) continue;
    auto& planned = planned_[r.rank] = r;
    planned.node = node.node;
  }
}

std::optional<double> learning_policy::rate_of(const std::string& node, pipeline_op part) const {
  const auto known = profiles_.find(node);
  if (known == profiles_.end()) return std::nullopt;
  const auto& is = known->second;
  switch (part) {
    case pipeline_op::forward:
    case pipeline_op::backward: {
      const auto& all =
          dtype_ == config::compute_dtype::bf16 ? is.gemm_bf16_gflop_s : is.gemm_gflop_s;
      if (!all || !is.probe_threads) return std::nullopt;
      return *all / *is.probe_threads;  // threads are a feature of their own
    }
    case pipeline_op::update:
      if (!is.adamw_mparam_s || !is.probe_threads) return std::nullopt;
      return *is.adamw_mparam_s / *is.probe_threads;
    case pipeline_op::norm:
    case pipeline_op::capture:
      return is.triad_gb_s;
    default:
      return std::nullopt;
  }
}

std::optional<learning_policy::carried_by> learning_policy::carries(const std::string& from,
                                                                    const std::string& to,
                                                                    pipeline_op part) const {
  const auto here = rate_of(from, part), there = rate_of(to, part);
  if (here && there) return carried_by{*here / *there};
  if (!is_by_machine(part)) return std::nullopt;
  const auto quick = priors_.find(from), slow = priors_.find(to);
  if (quick == priors_.end() || slow == priors_.end()) return std::nullopt;
  const auto by = gpu::predict::times_as_long(slow->second, quick->second);
  return carried_by{by.by, gpu::predict::machines_differ + by.half, true};
}

std::optional<learning_policy::carried_by> learning_policy::times_as_long(const std::string& node,
                                                                          pipeline_op part) const {
  const auto model = models_.find(part);
  if (model == models_.end()) return std::nullopt;
  if (model->second.has_seen(number_of(node))) return std::nullopt;  // measured
  carried_by out{0, 0, true};
  size_t others = 0;
  for (const auto& [other, number] : nodes_) {
    if (!model->second.has_seen(number) || node_now(other.name) != other) continue;
    const auto one = carries(other.name, node, part);
    if (!one || (one->by_prior && !out.by_prior)) continue;
    if (out.by_prior && !one->by_prior) {  // what was probed outranks what came before it
      out = {0, 0, false};
      others = 0;
    }
    out.by += std::log(one->by);
    out.half = std::max(out.half, one->half);
    ++others;
  }
  if (others == 0) return std::nullopt;
  out.by = std::clamp(std::exp(out.by / static_cast<double>(others)), 1 / machines_apart,
                      machines_apart);
  return out;
}

std::optional<gpu::predict::step_estimate> learning_policy::by_kind(
    const gpu::predict::online_policy& model, const gpu::predict::step_configuration& configuration,
    const std::string& node) const {
  const auto is = node_now(node);
  if (!is.machine.is_known() || model.has_seen(number_of(node))) return std::nullopt;
  gpu::predict::step_estimate out;
  double logarithms = 0, least = 1, most = 1;
  size_t asked = 0;
  for (const auto& [other, number] : nodes_) {
    if (asked == siblings_asked) break;
    const bool is_like = !other.name.empty() && other.machine.kind == is.machine.kind;
    if (!is_like || !model.has_seen(number)) continue;
    const auto said = model.ask(configuration, number);
    if (!said || !*said) continue;
    const auto& e = **said;
    logarithms += std::log(e.seconds);
    least = std::min(least, e.least_s / e.seconds);
    most = std::max(most, e.most_s / e.seconds);
    out.configurations = e.configurations;
    out.outside = e.outside;
    ++asked;
  }
  if (asked == 0) return std::nullopt;
  const auto n = static_cast<double>(asked);
  const double apart = std::exp(equals_differ * std::sqrt(1 + 1 / n));
  out.seconds = std::exp(logarithms / n);
  out.least_s = out.seconds * least / apart;
  out.most_s = out.seconds * most * apart;
  return out;
}

const learned_rank* learning_policy::roofline_of(uint32_t rank) const {
  const auto own = planned_.find(rank);
  if (own == planned_.end()) return nullptr;
  if (!own->second.parts.empty()) return &own->second;
  const auto away = [&](const learned_rank& r) {
    return std::abs(static_cast<int64_t>(r.layers) - static_cast<int64_t>(own->second.layers));
  };
  const learned_rank* nearest = nullptr;
  for (const auto& [other, r] : planned_)
    if (!r.parts.empty() && (nearest == nullptr || away(r) < away(*nearest))) nearest = &r;
  return nearest;
}

std::optional<expected_part> learning_policy::by_roofline(const learned_rank& planned,
                                                          const train::step_part& part,
                                                          const place& at) const {
  if (!(part.busy_ms > 0) || planned.threads == 0 || planned.layers == 0) return std::nullopt;
  std::optional<carried_by> there;
  if (at.node != planned.node) {
    there = carries(planned.node, at.node, part.kind);
    if (!there) return std::nullopt;
    if (!there->by_prior) there->half = 0;  // a roofline of its own probes
  }
  double seconds = part.busy_ms / 1e3;
  seconds *= static_cast<double>(planned.threads) / std::max<uint32_t>(at.threads, 1);
  seconds *= static_cast<double>(std::max<uint32_t>(at.layers, 1)) / planned.layers;
  if (!std::isfinite(seconds)) return std::nullopt;
  gpu::predict::step_estimate out;
  out.seconds = gpu::predict::roofline_usual * seconds;
  out.least_s = gpu::predict::roofline_least * seconds;
  out.most_s = gpu::predict::roofline_most * seconds;
  const bool by_prior = there && there->by_prior;
  return expected_part{part.kind, carried(out, there), !by_prior, false, by_prior};
}

std::optional<gpu::predict::step_estimate> learning_policy::probed_of(uint32_t rank,
                                                                      pipeline_op part,
                                                                      const place& at) const {
  const auto* planned = roofline_of(rank);
  if (planned == nullptr) return std::nullopt;
  const auto of_part = std::ranges::find(planned->parts, part, &train::step_part::kind);
  if (of_part == planned->parts.end()) return std::nullopt;
  const auto said = by_roofline(*planned, *of_part, at);
  return said && said->by_probes ? std::optional(said->time) : std::nullopt;
}

void learning_policy::add_by_probes(uint32_t rank, const place& at, expected_rank& out) const {
  const auto* planned = roofline_of(rank);
  if (planned == nullptr) return;
  for (const auto& part : planned->parts) {
    if (std::ranges::find(out.parts, part.kind, &expected_part::part) != out.parts.end()) continue;
    const auto learned = learned_of(part, at);
    if (learned && !learned->time.outside)
      out.parts.push_back(*learned);
    else if (const auto said = by_roofline(*planned, part, at))
      out.parts.push_back(*said);
  }
  std::ranges::sort(out.parts, {}, &expected_part::part);
}

}  // namespace troupe::predict
