// Whether a folder can be made, or written to where it is there already: asked before a job starts,
// and told without leaving anything behind.
//
// Invariants
//   MAK-1  Nothing is left: what the question makes has no name (O_TMPFILE), or is gone again when
//     the answer is there.
#pragma once

#include <filesystem>

#include "io/base/result.hpp"

namespace troupe::io {

/// Success where files could be made in `folder`, with the parents it lacks. Errors: what the
/// system says, or io where something that is no folder stands in the way; named is the place.
status can_make(const std::filesystem::path& folder);

/// Whether `inner` is `outer` or lies in it; links are followed as far as the paths exist.
bool is_within(const std::filesystem::path& inner, const std::filesystem::path& outer);

}  // namespace troupe::io
