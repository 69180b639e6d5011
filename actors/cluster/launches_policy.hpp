// How often the process of a node is started again.
//
// Pure: it is told what happened and handed the time.
//
// Invariants
//   LAU-1  A node that a place waits for is started at most `most_launches` times in an epoch. A
//     spare is started so often within `forgotten_ns` of the first time; then it is left alone
//     until that is over.
//   LAU-2  A process is on its way from its order until it joins or the next order is refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::cluster {

class launches_policy {
 public:
  static constexpr int most_launches = 3;

  explicit launches_policy(int64_t forgotten_ns) : forgotten_ns_(forgotten_ns) {}

  enum class verdict : uint8_t {
    start,    ///< it is counted
    used_up,  ///< `most_launches` came to nothing; answered once
    alone,    ///< the same, later
  };
  /// Whether a process is started (LAU-1). `needed`: a place waits for it.
  verdict order(const std::string& node, bool needed, int64_t now_ns);
  /// Nobody here starts it: it comes by itself.
  void awaits(const std::string& node) { counts_[node].on_its_way = true; }
  bool on_its_way(const std::string& node) const;
  void joined(const std::string& node);
  /// What came to nothing before counts no more: a person wants it, or an epoch needs it.
  void forget(const std::string& node) { counts_.erase(node); }

  /// Spares that are not left alone any more, each once.
  std::vector<std::string> due(int64_t now_ns);

 private:
  struct count {
    int ordered = 0;
    int64_t since_ns = 0;  ///< the first of them
    bool on_its_way = false;
    bool alone = false;
  };
  int64_t forgotten_ns_;
  std::map<std::string, count> counts_;  ///< by node
};

}  // namespace troupe::cluster
