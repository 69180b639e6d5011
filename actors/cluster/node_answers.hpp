// What a node answers about its machine: a test's bytes, and how fast its workers are. For
// node.cpp alone; the invariants stand in node.hpp.
#pragma once

#include <caf/result.hpp>

#include "actors/cluster/node.hpp"

namespace troupe::cluster {

/// NOD-5.
msg<fbs::PairEcho> echo(node_pointer self, const msg<fbs::PairProbe>& m);

/// NOD-11. A node that has joined.
caf::result<msg<fbs::LayersMeasured>> measure_layers(node_pointer self,
                                                     const msg<fbs::MeasureLayers>& m);

}  // namespace troupe::cluster
