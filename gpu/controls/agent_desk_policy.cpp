// Claims, by client; see agent_desk_policy.hpp.
#include "gpu/controls/agent_desk_policy.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe::gpu::controls {

std::optional<agent_desk_policy::tenant> agent_desk_policy::take(uint64_t client,
                                                                 const std::string& device,
                                                                 const tenant& of) {
  assert(!claims_.contains(client));
  for (const auto& [other, c] : claims_)
    if (c.device == device && c.of != of) return c.of;
  claims_.insert_or_assign(client, claim{device, of, whole_pace});
  return std::nullopt;
}

bool agent_desk_policy::set(uint64_t client, int pace_of_1024) {
  const auto found = claims_.find(client);
  if (found == claims_.end()) return false;
  found->second.pace_of_1024 = std::clamp(pace_of_1024, 0, whole_pace);
  return true;
}

std::optional<std::string> agent_desk_policy::let_go(uint64_t client) {
  const auto found = claims_.find(client);
  if (found == claims_.end()) return std::nullopt;
  auto out = std::move(found->second.device);
  claims_.erase(found);
  return out;
}

bool agent_desk_policy::has_alone(uint64_t client) const {
  const auto found = claims_.find(client);
  if (found == claims_.end()) return false;
  return std::ranges::count_if(claims_, [&](const auto& entry) {
           return entry.second.device == found->second.device;
         }) == 1;
}

int agent_desk_policy::wish_of(const std::string& device) const {
  int out = whole_pace;
  for (const auto& [client, c] : claims_)
    if (c.device == device) out = std::min(out, c.pace_of_1024);
  return out;
}

}  // namespace troupe::gpu::controls
