// The clocks of a rank's operations, as a message has them.
//
// Invariants
//   CKM-1  Foreign: of a table that is taken each clock is one, each time is finite and more than
//     nothing, and there are as many as the rank has operations.
#pragma once

#include <cstddef>

#include "gpu/controls/operation_clocks.hpp"
#include "messages/schemas/power_generated.h"

namespace troupe::train {

/// Null: it is none. CKM-1
gpu::controls::clock_table_ptr clocks_in(const fbs::StageClocks& m, size_t operations);

}  // namespace troupe::train
