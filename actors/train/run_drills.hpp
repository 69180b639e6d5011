// The drills of a run: what it says of them, and what its ranks are told. For run.cpp alone.
#pragma once

#include <string>
#include <vector>

#include "actors/train/run.hpp"

namespace troupe::train {

/// As a run begins: what earlier heads of the launch have ordered does not act again.
drill_policy drills_of(const run_state& st);

/// The configuration that a rank is built from: with the drills that are left for it.
std::string configuration_for(const run_state& st, size_t rank);

/// A step is ordered: what a person is told of the drills that act in it.
std::vector<std::string> drills_of_step(run_state& st, uint64_t step);

}  // namespace troupe::train
