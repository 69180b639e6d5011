// The actuator of a rank, by the word of power.control.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/groups.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// `threads`: those of the rank that compute on processors; `gpu`: the UUID of what it computes on,
/// empty where it is none. Errors: no_computing_threads, no_such_setting; those of thread_quota and
/// setting_governor; bug for a word that the configuration does not take.
result<std::unique_ptr<actuator>> open_actuator(const std::string& name, const control_place& at,
                                                const control_owner& owner,
                                                std::span<const int> threads,
                                                const std::string& gpu);

}  // namespace troupe::gpu::controls
