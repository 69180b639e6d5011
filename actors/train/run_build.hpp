// How a run has its stages built. For run.cpp alone; its invariants stand in run.hpp.
#pragma once

#include "actors/train/run.hpp"

namespace troupe::train {

/// Has all stages built, by the configuration that each is to have; the policy is told. Replicas
/// that swap are asked before what memory they are left, so that all of a stage plan by the same
/// (ENG-8).
void build_stages(run_pointer self, bool weights_follow);

}  // namespace troupe::train
