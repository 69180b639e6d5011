// How a line of the log looks: as spdlog's own, with what was said made printable.
//
// Why here and not at each call: who logs a name or a reason of somebody else need not think of it.
#pragma once

#include <memory>

#include <spdlog/formatter.h>

namespace troupe::apps {

/// The format of every logger of the program: "[time] [level] text", one line a message, whoever's
/// words are in it (io/base/printable.hpp).
std::unique_ptr<spdlog::formatter> log_format();

}  // namespace troupe::apps
