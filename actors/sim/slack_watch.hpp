// What must hold of a simulated job that takes slack, seen from its messages and from the joules of
// its devices.
//
// Pure: it is told each fault, and sees each message.
//
// Invariants that it checks
//   SIM-39  A step has the loss that it has, whatever the clocks of its operations are: made again
//     at others it has the same. (That it is the one without slack a test compares.)
//   SIM-40  While nothing ails it no step at planned clocks is longer than the longest at the
//     highest, but for the model's tolerance: operations are uneven.
//   SIM-41  While nothing ails it steps at planned clocks take no more joules than those at the
//     highest that were as long.
//   SIM-42  A replica that holds the others up is waited for no longer than a few steps once what
//     made it slow is over: the table goes back.
//   SIM-43  No rank keeps a trial's clock for good: one trial's clocks are over within the time and
//     the steps that a trial may take.
//   SIM-44  Nobody is suspected, and no incident is told, while nothing but lower clocks has
//     befallen the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "messages/any_msg.hpp"

namespace troupe::sim {

struct slack_watch_terms {
  double uneven = 0.02;  ///< by how much steps differ by chance, a share
  /// Machines are not alike, so that somebody may be waited for all the time.
  bool unlike = false;
};

/// What was judged of each.
struct slack_counts {
  uint64_t planned = 0;  ///< steps at planned clocks
  uint64_t lengths = 0;  ///< of them, whose length was judged
  uint64_t joules = 0;   ///< of them, whose joules were
  uint64_t held = 0;     ///< steps in which others waited for a straggler at lower clocks
  uint64_t returns = 0;  ///< times that a straggler was let go
  uint64_t trials = 0;   ///< of clocks
  /// The means of what a step's operations took above waiting, of judged steps; 0: there were none.
  double highest_j = 0, planned_j = 0;
};

class slack_watch {
 public:
  static constexpr uint64_t returns_within = 6;  ///< steps
  static constexpr size_t judged_steps = 10;     ///< whose joules are a mean

  explicit slack_watch(const slack_watch_terms& terms = {}) : terms_(terms) {}

  /// Another head begins: it knows of no step.
  void begin_head();
  /// A machine or a device is slow until then.
  void slows(int64_t until_ns);
  /// Anything else befalls it: lengths, joules and names are judged no more.
  void ails() { ails_ = true; }

  /// What is violated; none: nothing is. `joules`: that all operations have taken so far.
  std::optional<std::string> see(const any_msg& m, double joules, int64_t now_ns);

  const slack_counts& counted() const { return counted_; }

 private:
  /// Of a step's RunStep, from all ranks.
  struct step_clocks {
    uint32_t epoch = 0;
    bool any = false, trial = false;
    std::vector<uint32_t> mhz = {};
  };

  bool is_calm(int64_t now_ns) const { return !ails_ && now_ns >= slow_until_ns_; }
  void begins(const any_msg& m);
  std::optional<std::string> ends(const any_msg& m, double joules, int64_t now_ns);
  std::optional<std::string> judge_loss(uint64_t step, double loss);
  std::optional<std::string> judge_trial(uint64_t step, const step_clocks& of, double s);
  std::optional<std::string> judge_held(uint64_t step, bool held, int64_t now_ns);
  std::optional<std::string> judge_planned(uint64_t step, double s, double joules);

  slack_watch_terms terms_;
  slack_counts counted_;
  bool ails_ = false, slowed_ = false;
  int64_t slow_until_ns_ = 0;
  std::map<uint64_t, double> losses_;
  // Of a head.
  std::map<uint64_t, step_clocks> begun_;
  std::pair<uint32_t, uint64_t> told_;  ///< epoch and number of the last step
  std::string state_;                   ///< of it
  double joules_ = 0;                   ///< at its end
  bool is_joules_of_step_ = false;      ///< that nothing else took them since
  double longest_s_ = 0;                ///< at the highest clocks
  double highest_j_ = 0, planned_j_ = 0;
  size_t highest_steps_ = 0, planned_steps_ = 0;
  std::vector<uint32_t> trial_mhz_;
  double trial_s_ = 0, trial_longest_s_ = 0;
  uint64_t held_since_ = 0;  ///< steps since nobody is slow any more
};

}  // namespace troupe::sim
