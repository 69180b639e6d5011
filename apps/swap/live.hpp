// What of a running job lives on drives, from its actors' state: for `troupe swap show`.
#pragma once

#include <string>

#include "messages/schemas/control_generated.h"

namespace troupe::apps::swap {

/// For people, lines ending with '\n', at most `columns` wide (0: any width): a row for each rank
/// that swaps, who holds the memory of each node's process, and how the last step is held against
/// what the machine could do; or that nobody swaps.
std::string live_text(const fbs::ClusterViewT& view, int columns);

/// {"format":1,"job":...,"ranks":[{"rank":"0","node":...,"read_bytes":...,"holders":[...]}],
/// "last_step":{"step":7,"of_limit":0.81,"bound_by":"disk",...},"job_written_bytes":...}, one
/// object and a line end.
std::string live_json(const fbs::ClusterViewT& view);

}  // namespace troupe::apps::swap
