// On which machines several children of a power budget work.
//
// A meter says what a machine draws, not who makes it draw that. Two jobs that each report all of
// it would have it counted twice, and each would be taken for one that draws more than its cap. So
// each is told how many share a machine, and reports its own part (machine_part_policy.hpp).
//
// A budget below another one tells that of all machines of its children. Where others share one
// there, too, its children are told of its own and of one for each of those: what works there may
// be more, and is never taken for less than is known.
//
// Pure: it is told who works where.
//
// Invariants
//   SHM-1  A child counts on a machine from when it says so until it says otherwise, however silent
//     it is: what it holds counts as long.
//   SHM-2  At most `most_names` of all children together are kept: of a child whose machines would
//     be more none are, and it reports all that they draw, until it names fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe::power {

/// How many work on a machine, by machine.
using machine_counts = std::map<std::string, uint32_t>;

class shared_machines {
 public:
  /// A name takes some 200 bytes, in both ways in which it is kept.
  static constexpr size_t most_names = 64 << 10;

  explicit shared_machines(size_t children = 0) : machines_(children) {}

  /// All that it works on now; whether they are counted (SHM-2).
  bool hear(size_t child, std::set<std::string> machines);
  /// How many work on each of the child's machines that it has not alone. `above`: how many the
  /// budget above counts, this one among them, where it counts several.
  machine_counts shared_by(size_t child, const machine_counts& above = {}) const;
  /// On which any child works.
  const machine_counts& all() const { return children_; }

 private:
  std::vector<std::set<std::string>> machines_;
  machine_counts children_;
  size_t names_ = 0;  ///< of all children
};

}  // namespace troupe::power
