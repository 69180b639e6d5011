// Matching, first fit.
#include "actors/cluster/places_policy.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include <fmt/format.h>

#include "io/base/counted.hpp"
#include "io/base/text.hpp"

namespace troupe::cluster {

namespace {

/// Why a node cannot come into a place; empty: it can.
std::string why_not(const place_needs& needs, const spare_node& s) {
  if (s.workers < needs.workers)
    return fmt::format("has {}, the place needs {}", counted(s.workers, "worker"), needs.workers);
  if (s.cores < needs.cores)
    return fmt::format("has {}, the place needs {}", counted(s.cores, "core"), needs.cores);
  if (s.gpus < needs.gpus)
    return fmt::format("has {}, the place needs {}", counted(s.gpus, "free GPU"), needs.gpus);
  if (s.memory_bytes > 0 && s.memory_bytes < needs.memory_bytes)  // PLA-6
    return fmt::format("has {} of memory, the ranks of the place take {}",
                       bytes_text(s.memory_bytes), bytes_text(needs.memory_bytes));
  return {};
}

/// What a spare of the same host has when ranks take so much of it.
void lessen(spare_node& s, const place_needs& taken) {
  s.gpus -= taken.gpus;  // PLA-4
  if (s.memory_bytes == 0) return;
  s.memory_bytes -= std::min(taken.memory_bytes, s.memory_bytes - 1);  // PLA-6; 0 is not known
}

}  // namespace

places_policy::places_policy(size_t places) : nodes_(places), needs_(places), used_(places) {
  std::iota(nodes_.begin(), nodes_.end(), 0U);
}

std::optional<uint32_t> places_policy::place_of(uint32_t node) const {
  const auto end = nodes_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto it = std::find(nodes_.begin(), end, node);
  if (it == end) return std::nullopt;
  return static_cast<uint32_t>(it - nodes_.begin());
}

void places_policy::fix(uint32_t place, place_needs needs) {
  if (fixed_) return;
  needs_.at(place) = std::move(needs);
  fixed_ = place + 1 == nodes_.size();
}

void places_policy::move(const std::vector<size_t>& from) {
  assert(from.size() == used_);
  const auto before = nodes_;
  for (size_t place = 0; place < used_; ++place) nodes_[place] = before.at(from[place]);
  needs_.assign(nodes_.size(), {});
  fixed_ = false;
}

std::optional<spare_node> places_policy::candidate(uint32_t place,
                                                   const std::vector<spare_node>& spares) const {
  for (const auto& s : spares)
    if (why_not(needs_.at(place), s).empty()) return s;
  return std::nullopt;
}

filling places_policy::fill(const std::vector<uint32_t>& lost, std::vector<spare_node> spares) {
  filling out;
  for (const auto place : lost) {
    const auto& needs = needs_.at(place);
    const auto found = candidate(place, spares);
    for (const auto& s : spares) {
      if (found && s.node == found->node) break;
      out.passed.push_back({s.name, place, why_not(needs, s)});
    }
    if (!found) continue;
    const bool other = !needs.cpu_model.empty() && found->cpu_model != needs.cpu_model;
    out.taken.push_back({place, nodes_[place], found->node, other});
    const auto idle = std::find(nodes_.begin() + static_cast<std::ptrdiff_t>(used_), nodes_.end(),
                                found->node);
    if (idle != nodes_.end()) *idle = nodes_[place];  // PLA-5
    nodes_[place] = found->node;
    std::erase_if(spares, [&](const spare_node& s) { return s.node == found->node; });
    for (auto& s : spares)
      if (s.host == found->host) lessen(s, needs);
  }
  return out;
}

}  // namespace troupe::cluster
