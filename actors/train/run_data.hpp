// How a run has its data opened, and what their loaders tell meanwhile. For run.cpp alone; its
// invariants stand in run.hpp.
#pragma once

#include "actors/train/run.hpp"

namespace troupe::train {

/// Has all loaders open the data; the policy is told. RUN-7
void open_data(run_pointer self);

/// What a part of the job has to say to a person.
void hear_notice(run_pointer self, const msg<fbs::Notice>& m);

}  // namespace troupe::train
