// What a benchmark says of files that an earlier one, which was killed, has left beside its own.
#pragma once

#include <fmt/format.h>

#include "apps/talk.hpp"
#include "io/folder/held_scratch.hpp"

namespace troupe::apps {

/// On stderr, a line each.
inline void say_removed(const io::held_scratch& folder) {
  for (const auto& left : folder.removed())
    say(fmt::format("{} is removed: a benchmark that was killed had left it", left.string()));
}

}  // namespace troupe::apps
