// One pace for each place: see node_paces_policy.hpp.
#include "actors/train/node_paces_policy.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/counted.hpp"

namespace troupe::train {

namespace {

/// What steps say over what a layer says, of the nodes that are known by both.
struct past_over_probe {
  double by = 1, half = 0;
  size_t nodes = 0;
};

past_over_probe ratio_of(const std::vector<node_pace>& places, const past_of_places& past) {
  past_over_probe out;
  double logarithms = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (!past[i] || !(places[i].flops_s > 0)) continue;
    logarithms += std::log(past[i]->flops_s / places[i].flops_s);
    out.half = std::max(out.half, past[i]->half);
    ++out.nodes;
  }
  if (out.nodes > 0) out.by = std::exp(logarithms / static_cast<double>(out.nodes));
  return out;
}

}  // namespace

void outrank_by_past(std::vector<node_pace>& places, const past_of_places& past) {
  const auto ratio = ratio_of(places, past);
  const bool all = std::ranges::all_of(past, [](const auto& p) { return p.has_value(); });
  if (!all && ratio.nodes == 0) return;
  for (size_t i = 0; i < places.size(); ++i) {
    auto& p = places[i];
    if (past[i]) {
      p.flops_s = past[i]->flops_s;
      p.half = past[i]->half;
      p.source = pace_source::past;
    } else if (p.flops_s > 0) {
      p.flops_s *= ratio.by;
      p.half = std::hypot(p.half, ratio.half);
    }
  }
}

std::string sources_text(const std::vector<node_pace>& places, const past_of_places& past,
                         std::span<const std::string> names) {
  uint64_t steps = 0;
  uint32_t runs = 0;
  std::vector<std::string> measured;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].source == pace_source::past) {
      steps = std::max(steps, past[i]->steps);
      runs = std::max(runs, past[i]->runs);
    } else {
      measured.push_back(names[i]);
    }
  }
  if (measured.size() == places.size()) return {};
  const auto rests = fmt::format("; from {} steps of {}", grouped(static_cast<int64_t>(steps)),
                                 counted(runs, "run"));
  if (measured.empty()) return rests + " on these nodes";
  constexpr size_t told = 4;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(told, measured.size()));
  return fmt::format(
      "{} on the other nodes, and by the layer that {}{} measured just now", rests,
      fmt::join(measured.begin(), measured.begin() + shown, ", "),
      measured.size() > told ? fmt::format(" and {} more", measured.size() - told) : "");
}

}  // namespace troupe::train
