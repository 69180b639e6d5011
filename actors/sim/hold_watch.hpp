// Whether a simulated job that its power budget slows or holds is taken for a broken one, seen from
// its messages; and whether it goes on once it may.
//
// Why: who waits for a step waits by the pace in force (paced_patience.hpp). Where that is
// forgotten anywhere, a job that a brake holds is declared hung, recovered or given up, and nothing
// else is wrong with it. So a simulation that nothing but watts has befallen must show neither.
//
// Pure: it is handed what is there, and the time.
//
// Invariants that it checks
//   SIM-34  As long as nothing but its power budget has befallen a job, no incident is told of it,
//     whatever its pace was and however long it was held; and once a step may begin one does,
//     within `goes_on_within_ns`.
//   SIM-35  A child of a power budget that draws more than counts for it counts at what it draws
//     within `counted_within_ns`, as long as its budget lives and hears it (PWR-1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "messages/any_msg.hpp"

namespace troupe::sim {

class hold_watch {
 public:
  /// Twenty times the longest step of a random cluster, its validation and its save, and more.
  static constexpr int64_t goes_on_within_ns = 600'000'000'000;
  /// As many readings as make a child unruly, and some that were under way.
  static constexpr int64_t counted_within_ns = 8'000'000'000;

  /// Another head begins.
  void begin();
  /// Something has befallen the job that is none of its power budget's.
  void befell() { befell_ = true; }

  /// What is violated; none: nothing is. By a message that has come, and at any time.
  std::optional<std::string> see(const any_msg& m, int64_t now_ns);
  std::optional<std::string> look(int64_t now_ns) const;
  /// The same of a child that draws so much, which its budget counts so; none: no budget lives that
  /// could have heard it.
  std::optional<std::string> draws(int64_t drawn_mw, std::optional<int64_t> counted_mw,
                                   int64_t now_ns);

 private:
  bool befell_ = false;
  bool stepped_ = false;         ///< this head's run has made steps, and has not ended
  bool may_ = false;             ///< by the last word of the pacer
  bool paused_ = false;          ///< by a person
  uint64_t step_ = 0;            ///< that is made; 0: none is
  int64_t went_on_ns_ = 0;       ///< a step began, or may since then
  int64_t above_since_ns_ = -1;  ///< a child draws more than counts; -1: it does not
};

}  // namespace troupe::sim
