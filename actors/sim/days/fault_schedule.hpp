// When which fault befalls whom: a Poisson process for each cause of a mix, drawn from a seed.
//
// Pure. Each fault bears the chances that decide what comes of it, so that a seed means the same
// faults whoever has to deal with them; each cause has a generator of its own, so that a change of
// one moves no other.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/sim/days/fault_mix.hpp"

namespace troupe::sim {

struct timed_fault {
  int64_t at_ns = 0;
  size_t cause = 0;    ///< of the mix
  int node = 0;        ///< its place in the job, from 0; of a switch the first one
  double stays = 0;    ///< in [0, 1): whether it stays with the host, or its like
  double when = 0;     ///< in [0, 1): how long it takes to be seen, where that is chance
  double verdict = 0;  ///< in [0, 1): whether it is seen, or the right one named, where that is
};

/// In the order of their times, within [0, span_ns). Rates hold for nodes of the job.
std::vector<timed_fault> draw_schedule(const fault_mix& mix, int nodes, int64_t span_ns,
                                       uint64_t seed);

}  // namespace troupe::sim
