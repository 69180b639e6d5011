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
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster {

enum class liveness : uint8_t { alive, suspect, dead };

class liveness_policy {
 public:
  liveness_policy(int64_t suspect_after_ns, int64_t dead_after_ns)
      : suspect_after_ns_(suspect_after_ns), dead_after_ns_(dead_after_ns) {}

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
  };
  int64_t suspect_after_ns_;
  int64_t dead_after_ns_;
  std::optional<int64_t> judged_ns_;
  std::map<std::string, node_state> nodes_;
};

}  // namespace troupe::cluster
