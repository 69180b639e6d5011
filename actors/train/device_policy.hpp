// Which device each rank computes on.
//
// A pure function of what the nodes say they have. GPUs are handed out in the order of ranks on a
// machine, so that nodes which share a machine share out its GPUs.
//
// Invariants
//   DVC-1  All ranks of a job compute on the same kind of device: their sums then round alike and
//     their groups have one transport.
//   DVC-2  No GPU has two ranks, unless a person asked for GPUs and there are too few.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// What one node has.
struct node_devices {
  std::string name;     ///< as people call it
  std::string machine;  ///< the same text for nodes on the same machine
  int64_t gpus = 0;     ///< of the machine, as the node sees them
};

/// What every rank computes on.
struct device_choice {
  std::vector<std::string> names;  ///< by rank: "host" or "cuda:N"
  bool shared = false;             ///< a GPU has several ranks
};

/// GPUs are wanted and a machine has none: which.
inline constexpr error_kind<std::string_view> no_gpu{
    "no_gpu", errc::unavailable, "{} has no GPU that CUDA can use",
    "`troupe gpu` there says why; or set cluster.device = \"host\""};

/// `node_of[r]` is the node of rank r. `wanted` automatic: GPUs if no GPU needs to be shared, else
/// the host. Error no_gpu.
result<device_choice> choose_devices(config::device_kind wanted,
                                     std::span<const node_devices> nodes,
                                     std::span<const int64_t> node_of);

}  // namespace troupe::train
