// How quick the nodes are by all that is known of them: which of it counts, and what it rests on in
// words.
//
// Pure. What whole steps of earlier runs took outranks what a node measures of a layer. Both are
// compared only as far as some node is known by both: steps leave less out.
//
// Invariants
//   NPC-1  A place's pace is by past runs where they know its node. Another's is what it measured,
//     by the ratio of both on those that are known by both; where there are none, everybody's is
//     what it measured.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/train/measured_split_policy.hpp"
#include "io/perf/past_pace.hpp"

namespace troupe::train {

/// By place; nothing: no run before knows its node.
using past_of_places = std::vector<std::optional<io::perf::past_pace>>;

/// NPC-1, of places that say what they have measured.
void outrank_by_past(std::vector<node_pace>& places, const past_of_places& past);

/// What the paces rest on, to go behind a reason: "; from 1,240 steps of 9 runs on these nodes".
/// Empty: on what all have measured. `names`: of the nodes.
std::string sources_text(const std::vector<node_pace>& places, const past_of_places& past,
                         std::span<const std::string> names);

}  // namespace troupe::train
