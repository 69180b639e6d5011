// What a machine does at most of what steps consist of, measured in passing: memory, multiply-adds,
// matrix products, updates of the optimizer, and copies to a device and back.
//
// Each probe repeats one thing and counts the quickest time: what else the machine does makes it
// slower only. They block and compute on all threads given: nothing else should run beside them.
//
// Invariants
//   HWM-1  No probe is begun that would hardly end by the time that is given for all; those that
//     are not begun, and those that fail, stay absent and are named.
//   HWM-2  Arrays take no more than the memory given, and are gone afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::gpu::predict {

struct probe_options {
  int threads = 1;
  bool full = false;                ///< larger arrays and longer tries
  double seconds = 2;               ///< for all probes of a call (HWM-1)
  uint64_t memory_bytes = 1 << 30;  ///< for the arrays of one probe (HWM-2)
  /// Told what is measured next, in a few words.
  std::function<void(std::string_view)> before = [](std::string_view) {};
  /// Asked before each: whether to begin no more of them.
  std::function<bool()> stopped = [] { return false; };
};

/// What could not be measured, and why.
using probe_troubles = std::vector<std::string>;

/// Of the host's processors and memory, into the group probe.
probe_troubles probe_host(device& host, const probe_options& options, io::perf::hw_profile& into);

/// Of a device with memory of its own.
probe_troubles probe_device(device& on, const probe_options& options, io::perf::hw_profile& into);

}  // namespace troupe::gpu::predict
