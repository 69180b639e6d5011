// Which nodes of a lost head the next one waits for before it does without them.
//
// Pure: it is told what happened and handed the time.
//
// Invariants
//   RET-1  A node is awaited until its process has ended, or the patience is over; nobody is in a
//     new epoch, which starts whom it misses.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace troupe::cluster {

class returns_policy {
 public:
  /// Nobody is awaited.
  returns_policy() = default;
  returns_policy(int64_t since_ns, int64_t patience_ns)
      : awaits_(true), until_ns_(since_ns + patience_ns) {}

  bool awaits(const std::string& node) const { return awaits_ && !ended_.contains(node); }
  void ended(const std::string& node) { ended_.insert(node); }
  /// Whether those who are not there now stay away; told once.
  bool stay_away(int64_t now_ns) {
    if (!awaits_ || now_ns < until_ns_) return false;
    awaits_ = false;
    return true;
  }
  void give_up() { awaits_ = false; }

 private:
  bool awaits_ = false;
  int64_t until_ns_ = 0;
  std::set<std::string> ended_;
};

}  // namespace troupe::cluster
