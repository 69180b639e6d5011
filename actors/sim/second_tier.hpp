// The second tier of a simulated cluster: what the real carrier does to files, on modelled disks.
//
// A copy takes two slots for each file, its bytes and their sync, and three for its name, so that
// a crash falls between any two; the job's bytes_per_second make them last.
#pragma once

#include <memory>

#include "actors/checkpoint/carrier.hpp"
#include "actors/sim/parts.hpp"

namespace troupe::sim {

inline constexpr uint64_t copy_slot_bytes = 1 << 20;  ///< of each slot, whatever it holds

std::unique_ptr<checkpoint::carrier_files> make_carrier_files(machine_room* room);

}  // namespace troupe::sim
