// How long our own actors need for a recovery: measured on a simulated cluster, whose devices,
// disks and process starts take no time, so that what is left is messages, heartbeats and limits.
#pragma once

#include <cstdint>

#include "io/base/result.hpp"

namespace troupe::sim {

/// In virtual nanoseconds.
struct protocol_times {
  int nodes = 0, workers = 0;    ///< of the cluster that it was measured on
  int64_t notice_closed_ns = 0;  ///< a process was killed: its connection breaks
  int64_t notice_silent_ns = 0;  ///< a host is gone without a word: cluster.dead_after_ms
  int64_t notice_error_ns = 0;   ///< a device fails; whose fault it was is waited for
  int64_t quiet_ns = 0;          ///< until no rank of the epoch before runs
  int64_t members_ns = 0;        ///< until all nodes are there and ranks are given out
  int64_t connect_ns = 0;        ///< until ranks are built and groups connected
  int64_t restore_ns = 0;        ///< until the first step begins

  /// Of a cluster of so many nodes: what is not a limit is taken to grow with them, and not to
  /// shrink.
  protocol_times scaled_to(int nodes) const;
};

/// Errors: bad_config; bug where a simulated recovery did not come to a step.
result<protocol_times> measure_protocol(int nodes, int workers, uint64_t seed);

}  // namespace troupe::sim
