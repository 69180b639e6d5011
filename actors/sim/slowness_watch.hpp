// Which machines were made slow, and which a person is shown as slow for it: what the monitor of a
// simulated cluster finds, held against what befell.
//
// Pure: it is told each fault, and handed what the monitor answers whoever asks what is expected
// (Findings, with its parts).
//
// Invariants, of clusters with a monitor
//   SIM-36  Of slowness nobody is suspected, named or doubted whom no fault made slow, and no link
//     and no job is, whatever single steps do (PRD-2): in no step of any seed. What is slower than
//     its like from the first step on may be told of as that.
//   SIM-37  A machine that has become slower by a fourth or more while nothing else was wrong is
//     named within `named_within` steps that count, with the section of the step that is slow, and
//     with no other (PRD-3).
//   SIM-38  Where all became so at once, the job is, within as many steps, and nobody else (PRD-4).
//
// Not judged: what is told of a rank while no heartbeat has said yet which node it is on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "actors/sim/faults.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::sim {

/// What has become slower.
struct told_slowness {
  fault_kind kind{};
  std::string node;          ///< empty: all
  std::string_view section;  ///< as operations are called; empty: whatever it does
  int64_t due_ns = 0;        ///< from when on it is slower by a fourth
  int64_t until_ns = 0;
};

struct slowness_counts {
  uint64_t looks = 0;
  uint64_t named = 0;     ///< machines that were to be named, and were
  uint64_t jobs = 0;      ///< the same of all together
  uint64_t suspects = 0;  ///< of the predictor
};

class slowness_watch {
 public:
  static constexpr uint64_t named_within = 20;
  static constexpr double least_times = 1.25;

  explicit slowness_watch(size_t nodes = 0) : nodes_(nodes) {}

  /// It is slower than its like from the first step on.
  void is_slower(std::string node) { slower_.insert(std::move(node)); }
  /// Another head, which knows nothing yet.
  void begin_head() { due_.reset(), spoilt_ = false, quiet_steps_ = 0, knows_ = false; }
  void becomes(const told_slowness& s);
  /// A fault that is no slowness, but may look like one, of anybody.
  void ails() { is_blind_ = true; }
  /// What is no fault, but makes steps unlike others.
  void disturbs() { due_.reset(), spoilt_ = true; }

  /// The first thing that does not hold.
  std::optional<std::string> hear(const fbs::FindingsT& shown, int64_t now_ns);
  /// The predictor says that a part takes longer than it expected there.
  std::optional<std::string> doubted(const std::string& node);

  const slowness_counts& counted() const { return counted_; }

 private:
  std::optional<std::string> unfounded(const fbs::ExpectedPartT& part) const;
  std::optional<std::string> unfounded(const fbs::FindingT& finding) const;
  std::optional<std::string> judge_due(const fbs::FindingsT& shown, int64_t now_ns);
  bool is_touched(const std::string& node) const { return slowed_.contains(node); }
  /// So many, one by one, that it may pass for all: half of them, and no fewer than two.
  bool is_most_slowed() const {
    return 2 * slowed_.size() >= nodes_ && slowed_.size() >= std::min<size_t>(nodes_, 2);
  }

  /// What has to be named.
  struct due {
    told_slowness is;
    std::optional<uint64_t> from_steps = {};
    bool met = false;
  };
  size_t nodes_;
  std::set<std::string> slower_, slowed_;
  bool all_slowed_ = false;
  bool is_blind_ = false;
  bool spoilt_ = false;  ///< something has befallen this head's epoch
  bool knows_ = false;   ///< what is normal
  uint64_t quiet_steps_ = 0;
  std::optional<due> due_;
  slowness_counts counted_;
};

}  // namespace troupe::sim
