// What the machine of a node is and does at most, before steps are made on it: from what is kept of
// it, or measured now and kept (io/perf/kept_probes.hpp).
//
// Blocks, and computes on all threads: on a thread of its own, and while nothing else computes.
//
// Invariants
//   MPR-1  Whoever measures this machine already is waited for, `patience` long, and what that kept
//     is taken: nodes of one machine are probed in turn, and all but the first pay nothing. So
//     nothing is measured where nothing can be kept.
//   MPR-2  What `troupe predict probe` keeps of processors and memory stands for it; what is
//     measured here stands for none of that, as it is less: no disk.
//   MPR-4  Of the disk it has what checkpoints or swapping have measured and kept, and measures
//     nothing: a node's start is no time to write to it.
//   MPR-3  Where nothing could be measured, or not in time, the profile has no probes: what the
//     machine is it has all the same.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "gpu/predict/probes.hpp"
#include "io/machine/facts.hpp"
#include "io/perf/hw_profile.hpp"
#include "io/perf/kept_probes.hpp"

namespace troupe::cluster {

struct machine_probing {
  bool measures = true;  ///< false: what the machine is, and nothing of what it does
  bool full = false;
  std::chrono::milliseconds patience{0};  ///< for others that measure this machine
  std::stop_token stop = {};              ///< nothing more is begun
  std::string folder = {};                ///< on the disk that is told of; empty: on none
  io::fact_store store = {};
  /// Measures; as this machine does it where it is empty.
  std::function<gpu::predict::probe_troubles(io::perf::hw_profile&)> measure = {};
};

/// Of processors and memory, whatever of the disk and the GPUs.
io::perf::probe_key host_probe_key(bool full);

io::perf::hw_profile probe_this_machine(const machine_probing& how);

}  // namespace troupe::cluster
