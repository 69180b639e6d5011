// The hosts of a simulated cluster: devices whose operations take given times, draw given watts and
// fail as faults say, under the real worker and the real meter.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/cluster/host.hpp"
#include "actors/sim/environment.hpp"

namespace troupe::sim {

/// The host of a node, which has the devices of these ranks.
std::shared_ptr<cluster::host> make_host(environment* room, int node, std::vector<uint32_t> ranks,
                                         std::string instance);

}  // namespace troupe::sim
