// What the test of a group of nodes says: of its sums, of what came from each to each, of its
// start. Pure.
//
// Invariants
//   GRP-1  Wrong bits are bad however busy the machines were; a group that did not come about, or
//     took long, is bad only where none of them had other work.
//   GRP-2  A group that a member had no time for says nothing of anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// What is known of it.
struct group_seen {
  bool tried = true;      ///< false: a member had no time for it
  bool finished = false;  ///< every member came to the end
  bool busy = false;      ///< one of the machines had other work
  uint64_t wrong_sums = 0, wrong_gathered = 0;  ///< elements, of all members
  double start_ms = 0, stop_ms = 0;             ///< of the slowest member
  double bytes_per_s = 0;                       ///< of the slowest member's sums
  uint64_t wrong() const { return wrong_sums + wrong_gathered; }
  std::string wrong_text = {};  ///< the first wrong element and who had it; empty: there is none
  std::string failure = {};     ///< of the first member that did not come to the end
};

/// Of all members.
group_seen seen_in(const fbs::GroupReportT& r);

/// A start of so many members takes at most so long, in milliseconds: a floor.
double wanted_start_ms(size_t members);

/// Of its bits: whether all met, and what came and was summed is right.
fbs::CheckVerdict verdict_of(const group_seen& g);
/// The same, and whether it began in time.
fbs::CheckVerdict verdict_of_start(const group_seen& g, size_t members);

/// Names with commas between them, as TestGroup has them.
std::string names_of(const std::vector<std::string>& nodes);

}  // namespace troupe::health
