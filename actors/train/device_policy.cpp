// Handing out GPUs, machine by machine.
#include "actors/train/device_policy.hpp"

#include <map>

#include <fmt/format.h>

namespace troupe::train {

result<device_choice> choose_devices(config::device_kind wanted,
                                     std::span<const node_devices> nodes,
                                     std::span<const int64_t> node_of) {
  device_choice host{std::vector<std::string>(node_of.size(), "host"), false};
  if (wanted == config::device_kind::host) return host;
  const bool must = wanted == config::device_kind::cuda;
  device_choice out;
  std::map<std::string, int64_t> taken;
  for (const int64_t n : node_of) {
    const auto& node = nodes[static_cast<size_t>(n)];
    const int64_t number = taken[node.machine]++;
    if (node.gpus == 0 && must) return no_gpu(node.name);
    if (number >= node.gpus && !must) return host;
    out.shared |= number >= node.gpus;
    out.names.push_back(fmt::format("cuda:{}", number % node.gpus));
  }
  return out;
}

}  // namespace troupe::train
