// What a swapper answers, as an engine takes it.
#pragma once

#include "actors/train/engine.hpp"
#include "messages/schemas/swap_generated.h"

namespace troupe::train {

/// Folders that a swapper has opened; keeper is not among what it says.
opened_swap opened_swap_of(const fbs::SwapOpened& opened);

}  // namespace troupe::train
