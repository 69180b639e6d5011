// What `troupe predict probe` makes of what this machine says and does; the verb is probe.cpp.
#pragma once

#include <optional>
#include <string>

#include "actors/job/plan.hpp"
#include "apps/gpu/devices.hpp"
#include "io/machine/facts.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::apps::predict {

/// The group gpu: of the first device, and how many there are.
void add_gpus(io::perf::hw_profile& into, const gpu_picture& picture);

/// The group workload.
void add_workload(io::perf::hw_profile& into, const train::job_plan& plan);

/// What this machine was measured to do at most, where that is kept of it and of the disk under
/// this process's folder; nothing is measured.
std::optional<io::perf::hw_profile> kept_probes_here(const io::fact_store& store = {});

/// A table a group: a line for each field that is there, and one that names those that are not.
std::string profile_text(const io::perf::hw_profile& profile, int columns);

}  // namespace troupe::apps::predict
