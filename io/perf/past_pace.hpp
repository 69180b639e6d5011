// How quick a node was at a job's work in earlier runs, in one number: what the layers of a
// pipeline are shared out by before anything of a run was measured. Made of kept times of parts
// (part_times.hpp); a place's node is found by its name and its machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>

#include "io/perf/machine_print.hpp"

namespace troupe::io::perf {

/// Nodes' that are handed on, those that were measured last.
inline constexpr size_t past_paces_kept = 512;

struct past_pace {
  std::string node;
  machine_print machine = {};
  uint32_t threads = 0;  ///< of a rank
  bool on_gpus = false;
  double flops_s = 0;  ///< of a rank, forward and backward
  double half = 0;     ///< of the 95 % interval of its logarithm, either way
  uint64_t steps = 0;  ///< that it rests on
  uint32_t runs = 0;   ///< that made them
  bool operator==(const past_pace&) const = default;
};

/// Who is asked about.
struct paced_node {
  std::string_view name;
  machine_print machine = {};
  uint32_t threads = 0;
  bool on_gpus = false;
};

/// The newest of `known`, the oldest of which is first, that is of this node on what may be the
/// same machine, with as many threads.
inline std::optional<past_pace> pace_of(std::span<const past_pace> known, const paced_node& who) {
  const auto newest = std::views::reverse(known);
  const auto it = std::ranges::find_if(newest, [&](const past_pace& p) {
    return p.node == who.name && p.threads == who.threads && p.on_gpus == who.on_gpus &&
           may_be_same(p.machine, who.machine);
  });
  return it == newest.end() ? std::nullopt : std::optional(*it);
}

}  // namespace troupe::io::perf
