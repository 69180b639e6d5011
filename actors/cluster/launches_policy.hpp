// How often the process of a node is started again, and whose end a word tells that names no
// process.
//
// Pure: it is told what happened and handed the time.
//
// Invariants
//   LAU-1  A node that a place waits for is started at most `most_launches` times in an epoch. A
//     spare is started so often within `forgotten_ns` of the first time; then it is left alone
//     until that is over.
//   LAU-2  A process is on its way from its order until it joins or the next order is refused.
//   LAU-3  Who starts processes behind ssh cannot say which one of a node has ended. While a
//     process is on its way and the end of the one before was not told, the first such word may be
//     of either: it counts if the new one has not joined `doubt_ns` later.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::cluster {

class launches_policy {
 public:
  static constexpr int most_launches = 3;

  launches_policy(int64_t forgotten_ns, int64_t doubt_ns)
      : forgotten_ns_(forgotten_ns), doubt_ns_(doubt_ns) {}

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
  void forget(const std::string& node);

  /// The process that had joined is over. `told`: by who started it.
  void ended(const std::string& node, bool told) { counts_[node].untold = !told; }
  /// A word of an end that names no process; whether it counts now (LAU-3).
  bool ended_unnamed(const std::string& node, const std::string& how, int64_t now_ns);
  struct late_end {
    std::string node, how;
  };
  /// Those of these words that count by now, each once.
  std::vector<late_end> late_ends(int64_t now_ns);
  /// Spares that are not left alone any more, each once.
  std::vector<std::string> due(int64_t now_ns);

 private:
  struct count {
    int ordered = 0;
    int64_t since_ns = 0;  ///< the first of them
    bool on_its_way = false;
    bool alone = false;
    bool untold = false;   ///< the end of the last one that had joined
    bool doubted = false;  ///< a word came that may be of that one
    int64_t word_ns = 0;   ///< when
    std::string how;       ///< what it says
  };
  int64_t forgotten_ns_ = 0, doubt_ns_ = 0;
  std::map<std::string, count> counts_;  ///< by node
};

}  // namespace troupe::cluster
