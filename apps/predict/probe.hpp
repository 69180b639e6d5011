// What `troupe predict probe` makes of what this machine says and does; the verb is probe.cpp.
#pragma once

#include <string>

#include "actors/job/plan.hpp"
#include "apps/gpu/devices.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::apps::predict {

/// The group gpu: of the first device, and how many there are.
void add_gpus(io::perf::hw_profile& into, const gpu_picture& picture);

/// The group workload.
void add_workload(io::perf::hw_profile& into, const train::job_plan& plan);

/// A table a group: a line for each field that is there, and one that names those that are not.
std::string profile_text(const io::perf::hw_profile& profile, int columns);

}  // namespace troupe::apps::predict
