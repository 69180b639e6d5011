// The names under which a coordinator's status counts who was turned away.
#pragma once

#include <array>
#include <string_view>

#include "actors/cluster/ingress.hpp"

namespace troupe::cluster {

inline std::string_view name_of(turned_away reason) {
  constexpr std::array<std::string_view, turned_away_count> names = {
      "no_certificate", "unknown_authority", "expired",  "bad_certificate", "not_tls", "not_ours",
      "hung_up",        "impostor",          "too_slow", "crowded_out",     "no_key"};
  return names[static_cast<size_t>(reason)];
}

}  // namespace troupe::cluster
