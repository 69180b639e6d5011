// The heads of a job as its configuration names them (cluster.heads): where each listens, and who
// votes about which one acts (actors/heads).
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/config/job.hpp"

namespace troupe::config {

/// Where a head listens.
struct head_place {
  std::string host;
  uint16_t port = 0;
  bool operator==(const head_place&) const = default;
};

/// HOST:PORT in its parts; none where it is not that.
inline std::optional<head_place> head_place_of(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  if (text.find('/') != std::string_view::npos) return std::nullopt;  // it is a file's name, too
  const auto digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [rest, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (wrong != std::errc() || rest != digits.data() + digits.size() || port == 0)
    return std::nullopt;
  return head_place{std::string(text.substr(0, colon)), port};
}

/// Who votes about which head acts: all heads and, where others than the job start them, the nodes.
/// A node that the head's launcher starts ends with it, and bears witness to nothing.
inline std::vector<std::string> voters_of(const cluster_section& cluster) {
  auto out = cluster.heads;
  if (out.empty() || cluster.launch != launch_mode::external) return out;
  for (const auto& node : cluster.node) out.push_back(node.name);
  return out;
}

/// A cluster of several heads as the one at `address` (of cluster.heads) is to be reached; any
/// other address leaves it as it is.
inline cluster_section at_head(cluster_section cluster, std::string_view address) {
  const auto place = head_place_of(address);
  if (cluster.heads.empty() || !place) return cluster;
  cluster.listen = cluster.advertise = place->host;
  cluster.port = place->port;
  return cluster;
}

}  // namespace troupe::config
