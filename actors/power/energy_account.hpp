// The energy of devices that say only their power: between two readings the mean of both.
//
// Invariants
//   ENA-1  What a counter of energy says is left as it is.
//   ENA-2  Nothing is added for a time in which the power was not known, nor between readings much
//     farther apart than they are due: a suspended machine drew something else.
//
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/meters/readers.hpp"

namespace troupe::power {

class energy_account {
 public:
  /// Readings that are due each `interval_ns` are joined over ten intervals, and over ten seconds
  /// where that is more: a look itself takes some time.
  explicit energy_account(int64_t interval_ns)
      : joined_ns_(10 * std::max<int64_t>(interval_ns, 1'000'000'000)) {}

  /// Fills in `energy_j` where it is not known and two powers in a row are, or were.
  void add(std::vector<gpu::metered>& devices, int64_t now_ns);

 private:
  struct entry {
    std::optional<double> used_j, last_w;
  };
  const int64_t joined_ns_;
  int64_t last_ns_ = 0;
  std::map<std::string, entry> entries_;
};

}  // namespace troupe::power
