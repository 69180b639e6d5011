// Steps in rows.
#include "actors/train/drill_policy.hpp"

#include <algorithm>
#include <optional>

#include "io/config/drills.hpp"

namespace troupe::train {

namespace {

/// The first step above `furthest` that a drill falls due in; none: it is over.
std::optional<uint64_t> next_of(const config::drill_spec& drill, uint64_t furthest) {
  const auto first = static_cast<uint64_t>(drill.from_step);
  if (first > furthest) return first;
  if (drill.every == 0) return std::nullopt;
  const auto every = static_cast<uint64_t>(drill.every);
  const auto next = first + ((furthest - first) / every + 1) * every;
  return next > config::last_drill_step ? std::nullopt : std::optional(next);
}

}  // namespace

/// DRL-1.
std::vector<size_t> drill_policy::begin_step(uint64_t step) {
  std::vector<size_t> out;
  for (size_t i = 0; i < drills_.size(); ++i)
    if (next_of(drills_[i], std::max(furthest_, step - 1)) == step) out.push_back(i);
  furthest_ = std::max(furthest_, step);
  return out;
}

/// DRL-2.
std::vector<config::drill_spec> drill_policy::left_for(int rank, const std::string& node) const {
  std::vector<config::drill_spec> out;
  for (const auto& drill : drills_) {
    const auto whose = config::rank_of(drill);
    if (whose ? *whose != rank : drill.who != node) continue;
    const auto next = next_of(drill, furthest_);
    if (!next) continue;
    out.push_back(drill);
    out.back().from_step = static_cast<int64_t>(*next);
  }
  return out;
}

}  // namespace troupe::train
