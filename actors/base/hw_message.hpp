// What a machine is and does (io/perf/hw_profile.hpp), as a message has it.
//
// Invariants
//   HWF-1  What a message holds is believed field by field: a name that is not known here, a number
//     that no such field can have and a word that is too long or no text are left out, and of a
//     field that is there twice the first counts. So what is made of a message is never more than
//     the list of fields, however large the message was.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "io/perf/hw_profile.hpp"
#include "io/perf/machine_print.hpp"
#include "messages/schemas/cluster_generated.h"
#include "messages/schemas/predict_generated.h"

namespace troupe {

/// Of a word of a profile in a message: what is longer is left out.
inline constexpr size_t hw_word_bytes = 128;

/// What is there, in the order of the list of fields.
std::vector<std::unique_ptr<fbs::HwFieldT>> to_message(const io::perf::hw_profile& profile);

/// Back from a message that was verified (HWF-1).
io::perf::hw_profile profile_in(const fbs::HwProfile& m);

/// Of a machine that says so of itself.
io::perf::machine_print print_of(const fbs::HardwareFactsT& facts);
/// Of a message that was verified; not known where it holds what no print does.
io::perf::machine_print print_in(const fbs::HwProfile& m);

}  // namespace troupe
