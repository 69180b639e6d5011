// Which findings stand: a condition that holds becomes one, and goes when the condition has gone.
//
// Pure: it is told what holds and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   FDG-1  A subject (all its fields) has one finding. Its `since` is when its condition
//     began to hold, and stays while it stands, whatever else of it changes.
//   FDG-2  Hysteresis: a condition must hold without a break for its `raise_after` to be raised,
//     and be gone without a break for its `clear_after` to be cleared.
//     What has happened and is over is raised at once, and stands for its `clear_after`.
//   FDG-3  At most `most_findings` are kept. One more takes the place of a lesser one, or is left
//     out and counted.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/base/findings.hpp"

namespace troupe::health {

/// What is wrong with whom.
struct subject {
  finding_name name{};
  std::string node = {};  ///< empty: none in particular
  int rank = -1;          ///< -1: all of the node
  int peer = -1;          ///< of a pair the other rank
  std::string rule = {};  ///< of a line of a log the rule that it fits; empty: it is of no log
  auto operator<=>(const subject&) const = default;
};

/// What shows it.
struct evidence {
  double seen = 0, wanted = 0;
  std::string unit;  ///< of both
  std::string text;  ///< one sentence without a full stop
  bool operator==(const evidence&) const = default;
};

struct finding {
  subject who;
  evidence shown;
  int64_t since_ns = 0;
  severity matters() const { return facts_of(who.name).matters; }
};

class findings_policy {
 public:
  static constexpr size_t most_findings = 256;

  /// How long a condition must hold to be a finding, and be gone to be none (FDG-2).
  struct patience {
    int64_t raise_after_ns = 0, clear_after_ns = 0;
  };
  static patience patience_for(finding_name name);
  /// What a log says is an event, whatever it is about.
  static patience patience_for(const subject& who);

  /// The condition holds now.
  void holds(const subject& who, evidence shown, int64_t now_ns);
  /// It has happened, and is over.
  void happened(const subject& who, evidence shown, int64_t now_ns);
  /// It does not.
  void gone(const subject& who, int64_t now_ns);
  /// None of this name does, but of those that `still` says.
  template <class Still>
  void gone_but(finding_name name, Still still, int64_t now_ns) {
    for (auto& [who, f] : kept_)
      if (who.name == name && !still(who)) forget(f, now_ns);
  }

  /// What became a finding, and what ceased to be one, up to now.
  struct changes {
    std::vector<finding> raised, cleared;
  };
  changes judge(int64_t now_ns);

  /// Those that stand: what matters most first, then the oldest.
  std::vector<finding> standing() const;
  bool stands(const subject& who) const;
  /// Findings so far; left out so far (FDG-3).
  uint64_t raised() const noexcept { return raised_; }
  uint64_t left_out() const noexcept { return left_out_; }

 private:
  struct kept {
    evidence shown;
    int64_t since_ns = 0;  ///< the condition began to hold
    int64_t gone_ns = -1;  ///< it has been gone since; -1: it holds
    bool raised = false;
    bool event = false;  ///< it need not hold to be raised
  };
  kept* keep(const subject& who, evidence shown, int64_t now_ns);
  static void forget(kept& f, int64_t now_ns) {
    if (f.gone_ns < 0) f.gone_ns = now_ns;
  }
  bool make_room(severity matters);

  std::map<subject, kept> kept_;
  uint64_t raised_ = 0, left_out_ = 0;
};

}  // namespace troupe::health
