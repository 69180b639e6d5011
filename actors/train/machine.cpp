// Facts from the kernel's own files and the driver.
#include "actors/train/machine.hpp"

#include <algorithm>
#include <numeric>

#include "actors/base/hardware.hpp"
#include "gpu/cuda.hpp"

namespace troupe::train {

int threads_on(const config::cluster_section& cluster, int64_t cores) {
  if (cluster.threads > 0) return static_cast<int>(cluster.threads);
  int64_t most = 1;
  for (const auto& n : cluster.node) most = std::max(most, n.workers);
  if (cluster.launch == config::launch_mode::local)  // all nodes are here
    most = std::accumulate(cluster.node.begin(), cluster.node.end(), int64_t{0},
                           [](int64_t sum, const auto& n) { return sum + n.workers; });
  return static_cast<int>(std::max<int64_t>(1, cores / std::max<int64_t>(1, most)));
}

int threads_here(const config::cluster_section& cluster) {
  return threads_on(cluster, cluster::hardware_facts().cores);
}

machine this_machine(const config::cluster_section& cluster) {
  machine m;
  const auto facts = cluster::hardware_facts();
  m.cores = facts.cores;
  m.memory_bytes = facts.memory_bytes;
  m.memory_whose = facts.memory_bytes < cluster::physical_memory()
                       ? "the control group of this process"
                       : "this machine";
  if (cluster.device == config::device_kind::host) return m;
  const auto gpus = gpu::list_cuda_devices();
  if (!gpus) m.no_gpus = gpus.error();
  if (gpus)
    for (const auto& g : *gpus) m.gpus.push_back({g.name, g.memory_bytes});
  return m;
}

}  // namespace troupe::train
