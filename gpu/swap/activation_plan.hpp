// How many layers of a stage that swaps keep what of their forward pass, and where, so that a step
// is short: memory that holds activations saves products in backward, and is missing for weights
// and state that would not have to come from the drive then; a drive that holds them saves both
// (Fuyou's activation swapping, arXiv 2403.06504), as far as it has time.
//
// Pure: a search over what somebody says a step takes. Every choice has the same bits (SM-4), so it
// may differ from start to start.
//
// Choices are tried in one order: first layers, the last one first, keep x + attention beside their
// input, then all; of the products that a byte spares, x + attention spares the most. In this order
// more memory is taken and less is computed, so that the time falls until the drive is what a step
// waits for, and does not fall again (but where gradients cease to fit, and passes are made twice:
// so a sixteenth of all choices is looked at before the best one's neighbours). Then layers before
// those that keep all spill, one after the other, and these in their turn: memory and products are
// spared while the drive has nothing else to do. What is kept is chosen anew beside the best number
// of those, until that changes nothing.
//
// Invariants
//   ACT-1  What is chosen fits, wherever anything that was looked at does; none, all halves and all
//     kept are always looked at.
//   ACT-2  No choice that was looked at and spills nothing is quicker by more than a thousandth; of
//     those that are as quick it is the one that spares most products. One that spills is taken
//     where it is quicker than that by more than 3 %, since it writes more; of those that are as
//     quick the one that spills least.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gpu/model/stage_shape.hpp"

namespace troupe::gpu {

/// The last layers of a stage that keep all; those before them that spill; and before them those
/// that keep their input and x + attention.
struct activation_split {
  int64_t keep = 0, half = 0, spill = 0;
  bool operator==(const activation_split&) const = default;
};

/// By layer of a stage of so many.
std::vector<activation_choice> choices_by_layer(const activation_split& split, int64_t layers);

/// `seconds`: what a step takes with that choice; none: it does not fit. `has_halves`: the block
/// has x + attention. None: nothing fits that does not spill.
std::optional<activation_split> choose_activations(
    int64_t layers, bool has_halves,
    const std::function<std::optional<double>(const activation_split&)>& seconds);

}  // namespace troupe::gpu
