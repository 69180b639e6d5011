// Who keeps whose copies in memory: for each rank another one, whose process holds its share, too.
//
// Pure, a function of the layout and of where the configuration puts the nodes: every process, and
// every epoch, comes to the same keepers, so that a share is looked for where it was put.
//
// Invariants
//   KPR-1  A keeper is on another node. Where there is one node alone nobody has a keeper.
//   KPR-2  Of those, on another host before on the same one, and outside the rank's data and
//     pipeline groups before within: what takes a host, or a group's links, does not take both.
//   KPR-3  Where one shift of all ranks, along both axes of the grid, serves everybody it is taken:
//     each keeps exactly one.
#pragma once

#include <string>
#include <vector>

#include "io/base/rank_grid.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// Where a rank runs.
struct rank_home {
  int64_t node = 0;
  std::string host;
};

/// By rank, who keeps its copies; empty where that cannot be (KPR-1).
std::vector<int> keepers_of(const rank_grid& grid, const std::vector<rank_home>& homes);

/// Those of a job; empty too where it takes no copies (checkpoint.memory.every = 0).
std::vector<int> keepers_of(const config::job& job);

/// All of whom a rank keeps the copies.
std::vector<int> kept_by(const std::vector<int>& keepers, int rank);

/// Whether every place is on the same host: then a lost host takes share and copy. False where
/// others start the nodes: nobody here knows where those are.
bool on_one_host(const config::job& job);

}  // namespace troupe::train
