// A simulated job with several heads (cluster.heads): one acts, the others stand by, each a process
// in a place of its own behind those of the nodes. Electors, voters, journal and coordinator are
// the real ones; what a process does between standing by and acting is that of apps/up
// (actors/train/succession.hpp). Others than the job start the nodes, and start them again.
//
// One launch, as `troupe up` begins it; simulation.hpp has the invariants.
#pragma once

#include <memory>

#include "actors/sim/environment.hpp"
#include "actors/sim/simulation.hpp"
#include "actors/train/engine.hpp"

namespace troupe::sim {

/// What several heads need besides the job.
struct heads_means {
  train::job_plan plan;
  shares_of_ranks shares;
  std::shared_ptr<io::slots> ring;
};

simulation_outcome simulate_heads(const simulation_options& options, heads_means means);

}  // namespace troupe::sim
