// Facts from the kernel's own files and the driver.
#include "actors/train/machine.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "actors/base/hardware.hpp"
#include "gpu/cuda.hpp"

namespace troupe::train {

namespace fs = std::filesystem;

namespace {

/// The number a file of limits holds; 0 for "max", for what is as good as none, or without a file.
uint64_t limit_in(const fs::path& file) {
  std::ifstream in(file);
  uint64_t bytes = 0;
  if (!(in >> bytes) || bytes >= uint64_t{1} << 60) return 0;
  return bytes;
}

uint64_t lesser(uint64_t a, uint64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

/// The least limit of a group and those that it is in. A path that is not there is of another
/// namespace: then the mount is the group.
uint64_t least_limit(const fs::path& mount, const std::string& group, const char* file) {
  uint64_t least = limit_in(mount / file);
  for (fs::path at = fs::path(group).relative_path(); !at.empty(); at = at.parent_path())
    least = lesser(least, limit_in(mount / at / file));
  return least;
}

}  // namespace

uint64_t control_group_limit(const fs::path& groups, const fs::path& mount) {
  std::ifstream in(groups);
  uint64_t least = 0;
  for (std::string line; std::getline(in, line);) {  // "0::/user.slice" or "9:memory:/user.slice"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const auto group = line.substr(second + 1);
    if (controllers == ",,")
      least = lesser(least, least_limit(mount, group, "memory.max"));
    else if (controllers.find(",memory,") != controllers.npos)
      least = lesser(least, least_limit(mount / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

int threads_here(const config::cluster_section& cluster) {
  if (cluster.threads > 0) return static_cast<int>(cluster.threads);
  int64_t most = 1;
  for (const auto& n : cluster.node) most = std::max(most, n.workers);
  if (cluster.launch == config::launch_mode::local)  // all nodes are here
    most = std::accumulate(cluster.node.begin(), cluster.node.end(), int64_t{0},
                           [](int64_t sum, const auto& n) { return sum + n.workers; });
  const int64_t cores = cluster::hardware_facts().cores;
  return static_cast<int>(std::max<int64_t>(1, cores / std::max<int64_t>(1, most)));
}

machine this_machine(const config::cluster_section& cluster) {
  machine m;
  const auto facts = cluster::hardware_facts();
  m.cores = facts.cores;
  m.memory_bytes = facts.memory_bytes;
  m.memory_whose = "this machine";
  const auto limit = control_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");
  if (limit != 0 && limit < m.memory_bytes) {
    m.memory_bytes = limit;
    m.memory_whose = "the control group of this process";
  }
  if (cluster.device == config::device_kind::host) return m;
  const auto gpus = gpu::list_cuda_devices();
  if (!gpus) m.no_gpus = gpus.error();
  if (gpus)
    for (const auto& g : *gpus) m.gpus.push_back({g.name, g.memory_bytes});
  return m;
}

}  // namespace troupe::train
