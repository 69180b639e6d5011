// What a run leaves in the records of traces beside its messages.
#pragma once

#include <cstdint>

#include "actors/train/run.hpp"

namespace troupe::train {

/// The root of the step's causal tree: all else that happened in it lies under this span.
void record_step(run_pointer self, uint64_t step);
/// What a picture of the run shows beside its messages.
void record_measures(run_pointer self, const fbs::StepReportT& report);

}  // namespace troupe::train
