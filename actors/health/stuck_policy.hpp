// Whether the training stands still, from the counters of its ranks, and which nodes are silent.
//
// Stuck is: no rank's counter of finished operations has moved for as long as what goes on may
// take. That is judged by counters and times alone. An event that somebody forgot to take back ("a
// checkpoint is being written", DLRover #1749: it made healthy jobs be killed every half hour) is
// no evidence: it neither makes a job stuck nor excuses it.
//
// Pure: it is told what nodes said and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   STK-1  One counter that moves, of any rank, and nobody is stuck.
//   STK-2  While steps are made, operations may take `stuck_after`, or 5 times the median of those
//     that are under way (10 minutes at most, or what an operation may take), whichever is more.
//     The first step of an epoch, a validation, and waiting for copies of a checkpoint have budgets
//     of their own; what else a job does (its start, a pause, its end, a recovery) has timeouts of
//     its own and is never judged here.
//   STK-3  What comes late, of an epoch that has ended or behind a newer heartbeat, changes
//     nothing.
//   STK-4  Who has not judged for a second was not running: that time is its own (compare LIV-3).
//   STK-5  While a rank says that the brake of its power budget holds it, nobody is stuck: others
//     may wait for it. It says so with each heartbeat, and the brake ends with the lease by which
//     it came (actors/power/job_lease_policy.hpp): nothing of it can be forgotten.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::health {

/// Of what a rank says in a heartbeat, what it is judged by.
struct rank_progress {
  int rank = 0;
  uint64_t finished = 0;       ///< operations; a counter
  double median_ms = 0;        ///< of the operation under way; 0: not known
  bool awaits_copies = false;  ///< its device waits until a checkpoint's copies are taken
  bool braked = false;         ///< its power budget's brake holds it
};

class stuck_policy {
 public:
  /// The phase of a run that makes steps.
  static constexpr std::string_view stepping = "training";

  stuck_policy() = default;
  /// `longest_ns`: no operation is allowed more, whatever a rank says of its median.
  stuck_policy(int64_t stuck_after_ns, int64_t silent_after_ns, int64_t longest_ns = usual_longest)
      : stuck_after_ns_(stuck_after_ns),
        silent_after_ns_(silent_after_ns),
        longest_ns_(std::max(usual_longest, longest_ns)) {}

  /// A heartbeat. `sequence` counts those of a process.
  void hear(const std::string& node, uint32_t epoch, uint64_t sequence,
            const std::vector<rank_progress>& ranks, int64_t now_ns);
  /// A rank has finished a step.
  void step_done(uint32_t epoch, int64_t now_ns);
  /// What the run is at, and the last step that it finished.
  void run_is(std::string_view phase, uint64_t step, int64_t now_ns);

  struct verdict {
    bool stuck = false;
    int64_t still_ns = 0;    ///< since a counter moved last
    int64_t allowed_ns = 0;  ///< how long that may be; 0: unlimited
  };
  verdict judge(int64_t now_ns);
  /// Since a counter moved last.
  int64_t still_ns(int64_t now_ns) const { return std::max<int64_t>(0, now_ns - moved_ns_); }

  struct silence {
    std::string node;
    int64_t silent_ns = 0;
  };
  /// Nodes that have been heard and are silent for too long; none once the run is over.
  std::vector<silence> silent(int64_t now_ns) const;

 private:
  struct node_state {
    uint32_t epoch = 0;
    uint64_t sequence = 0;
    int64_t heard_ns = 0;
    std::map<int, rank_progress> ranks;
  };
  std::optional<int64_t> allowed_ns() const;
  void enter(uint32_t epoch, int64_t now_ns);
  void move(int64_t now_ns) { moved_ns_ = now_ns; }

  static constexpr int64_t usual_longest = 600'000'000'000;
  int64_t allowed_for(double median_ms) const;

  int64_t stuck_after_ns_ = 0, silent_after_ns_ = 0, longest_ns_ = usual_longest;
  std::map<std::string, node_state> nodes_;
  uint32_t epoch_ = 0;
  std::string phase_;
  uint64_t step_ = 0;
  bool stepped_ = false;  ///< a step of this epoch was finished
  int64_t moved_ns_ = 0;
  std::optional<int64_t> judged_ns_;
};

}  // namespace troupe::health
