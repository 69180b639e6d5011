// Which part of a machine's draw is whose, where several children of a power budget work on it.
//
// A meter says what a machine draws, not who makes it draw that. Two jobs that each report all of
// it would have it counted twice, and each would be taken for one that draws more than its cap. So
// what such a machine draws is divided by the processor time that each job's own processes use
// there, what it draws without work with it: nothing is left out, and nothing has to be known of
// the machine. A job that is alone on its machine has all of it, whoever else works there: the
// breaker carries that, too.
//
// Accelerators are divided alike, for want of a count of who uses them: where jobs share a machine
// with accelerators, a budget sees their sum, and only roughly whose it is.
//
// Pure: it is told loads, and who is silent.
//
// Invariants
//   SHM-1  The shares of a machine are 1 together.
//   SHM-2  Who is silent has none: it counts at its cap, and what it may still draw is with those
//     who are heard.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::power {

/// Processors that a child keeps busy, by machine; -1: not known.
using machine_loads = std::map<std::string, double>;

class shared_machines {
 public:
  explicit shared_machines(size_t children = 0) : loads_(children) {}

  /// All that it works on now.
  void hear(size_t child, machine_loads loads) { loads_[child] = std::move(loads); }
  /// Once a tick: from now on shares are those of who is heard.
  void settle(const std::function<bool(size_t child)>& is_silent);
  /// Of 0 to 1, of the child's machines that it has not alone. As of the last tick.
  std::map<std::string, double> shares_of(size_t child) const;

 private:
  struct all_of {
    size_t children = 0;
    double busy = 0;
    bool known = true;  ///< of all of them
  };
  std::vector<machine_loads> loads_;
  std::vector<machine_loads> settled_;  ///< of who was heard
  std::map<std::string, all_of> machines_;
};

}  // namespace troupe::power
