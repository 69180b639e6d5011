// On which machines several children of a power budget work.
//
// A meter says what a machine draws, not who makes it draw that. Two jobs that each report all of
// it would have it counted twice, and each would be taken for one that draws more than its cap. So
// each is told how many share a machine, and reports its own part (machine_part_policy.hpp).
//
// Pure: it is told who works where.
//
// Invariants
//   SHM-1  A child counts on a machine from when it says so until it says otherwise, however silent
//     it is: what it holds counts as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe::power {

class shared_machines {
 public:
  explicit shared_machines(size_t children = 0) : machines_(children) {}

  /// All that it works on now.
  void hear(size_t child, std::set<std::string> machines);
  /// How many work on each of the child's machines that it has not alone.
  std::map<std::string, uint32_t> shared_by(size_t child) const;

 private:
  std::vector<std::set<std::string>> machines_;
  std::map<std::string, uint32_t> children_;  ///< by machine
};

}  // namespace troupe::power
