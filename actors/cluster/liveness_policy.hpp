// Which nodes are alive, judged by their heartbeats.
//
// Pure: it is handed times, it reads no clock. Times are nanoseconds of one monotonic clock.
//
// Invariants
//   LIV-1  A node is dead once `dead_after` has passed since it was last heard, or when its link
//     broke; dead is final within an epoch.
//   LIV-2  A node never heard of is not judged.
//   LIV-3  Who has not judged for longer than `suspect_after` was not running (Ctrl-Z, a debugger,
//     a machine without time for it): that silence is its own, not that of those it did not hear.
//   LIV-4  With the detector "phi" (Hayashibara et al., "The phi accrual failure detector", 2004) a
//     silence is held against the node's own heartbeats: it is suspect once it would keep silent
//     for so long by chance in one of 10^8 cases, dead in one of 10^12; and dead neither before
//     `dead_after` nor later than three times that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/config/job.hpp"

namespace troupe::cluster {

/// The times between the last heartbeats of a node.
class arrival_times {
 public:
  void add(int64_t interval_ns);
  /// How unlikely a silence is, as -log10 of its chance, if heartbeats come as they did (by a
  /// normal distribution, whose deviation is taken for at least a quarter of its mean). None: too
  /// few have come.
  std::optional<double> phi(int64_t silent_ns) const;

 private:
  std::array<int64_t, 64> last_ns_{};
  size_t count_ = 0;
};

enum class liveness : uint8_t { alive, suspect, dead };

class liveness_policy {
 public:
  liveness_policy(int64_t suspect_after_ns, int64_t dead_after_ns,
                  config::liveness_detector detector = config::liveness_detector::fixed)
      : suspect_after_ns_(suspect_after_ns), dead_after_ns_(dead_after_ns), detector_(detector) {}

  /// A heartbeat, or anything else that proves life. Ignored for the dead (LIV-1).
  void heard(const std::string& node, int64_t now_ns);

  /// The connection to the node broke.
  void link_lost(const std::string& node);

  /// The node left in order: no longer judged.
  void left(const std::string& node) { nodes_.erase(node); }

  /// One change of state since the last call.
  struct change {
    std::string node;
    liveness state;
    int64_t silent_ns;  ///< how long it has been silent; 0 for a lost link
  };

  /// The changes up to `now_ns`, in the order of names.
  std::vector<change> judge(int64_t now_ns);

 private:
  struct node_state {
    int64_t heard_ns = 0;
    liveness state = liveness::alive;
    liveness reported = liveness::alive;
    bool heard = false;
    arrival_times came;
  };
  liveness judged(const node_state& n, int64_t silent_ns) const;

  int64_t suspect_after_ns_;
  int64_t dead_after_ns_;
  config::liveness_detector detector_;
  std::optional<int64_t> judged_ns_;
  std::map<std::string, node_state> nodes_;
};

}  // namespace troupe::cluster
