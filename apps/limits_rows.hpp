// What files of limits_table's rows share: units, and who joins them.
#pragma once

#include "apps/limits_table.hpp"

namespace troupe::apps {

inline constexpr uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

/// The first rows (limits_cluster.cpp): messages, connections, actors and traces.
std::span<const limit_row> limit_rows_of_cluster();
/// The rest (limits_files.cpp): checkpoints, data and models, this machine.
std::span<const limit_row> limit_rows_of_files();

}  // namespace troupe::apps
