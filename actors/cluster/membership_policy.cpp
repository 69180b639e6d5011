// The conditions of joining, in the order a person would want to hear them.
#include "actors/cluster/membership_policy.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::cluster {

result<uint32_t> membership_policy::decide(const applicant& who) const {
  if (who.program_version != version_ || who.schema_hash != schema_hash_)  // MEM-2
    return other_build(who.name, who.program_version, who.schema_hash, version_, schema_hash_);
  if (who.epoch > epoch_) return from_newer_epoch(who.name, who.epoch, epoch_);
  auto it = std::find(names_.begin(), names_.end(), who.name);
  if (it == names_.end() && open_) {
    const auto free = std::find(present_.begin(), present_.end(), std::nullopt);
    if (free == present_.end())
      return error{errc::unavailable, fmt::format("no place is left for node {}", who.name),
                   "cluster.nodes says how many there are"};
    it = names_.begin() + (free - present_.begin());
  }
  if (it == names_.end())
    return node_not_named(who.name, fmt::format("{}", fmt::join(names_, ", ")));
  const auto index = static_cast<size_t>(it - names_.begin());
  if (present_[index] && *present_[index] != who.instance_id)  // MEM-1
    return node_here_already(who.name);
  for (size_t i = 0; i < present_.size(); ++i)
    if (i != index && present_[i] == who.instance_id) return process_here_already(names_[i]);
  return static_cast<uint32_t>(index);
}

result<uint32_t> membership_policy::admit(const applicant& who) {
  auto place = decide(who);
  if (place) {
    present_[*place] = who.instance_id;
    names_[*place] = who.name;
  } else {
    ++refused_;
  }
  return place;
}

void membership_policy::leave(const std::string& name) {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it != names_.end()) present_[static_cast<size_t>(it - names_.begin())].reset();
}

std::optional<uint32_t> membership_policy::index_of(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end()) return std::nullopt;
  return static_cast<uint32_t>(it - names_.begin());
}

std::vector<std::string> membership_policy::missing() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < names_.size(); ++i)
    if (!present_[i]) out.push_back(names_[i]);
  return out;
}

}  // namespace troupe::cluster
