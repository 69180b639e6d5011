// What a node answers about its machine: a test's bytes, how fast its workers are, and what it is
// and was probed to do. For node.cpp alone; the invariants stand in node.hpp.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <caf/result.hpp>

#include "actors/cluster/node.hpp"

namespace troupe::cluster {

/// NOD-5.
msg<fbs::PairEcho> echo(node_pointer self, const msg<fbs::PairProbe>& m);

/// NOD-11. A node that has joined.
caf::result<msg<fbs::LayersMeasured>> measure_layers(node_pointer self,
                                                     const msg<fbs::MeasureLayers>& m);

/// NOD-12: `then` follows once the machine is probed, now where it is or need not be; nothing where
/// it is being probed: what was to follow that does.
void probe_machine(node_pointer self, std::function<void()> then);
/// The machine's, if it is known, as its head is told it.
std::unique_ptr<fbs::HwProfileT> own_profile(const node_state& st);

/// Something was measured, or has taken too long.
void hear_measured(node_pointer self);

/// What of a machine is bad, in words; empty: nothing.
std::string bad_parts(const fbs::CheckupReportT& r);

}  // namespace troupe::cluster
