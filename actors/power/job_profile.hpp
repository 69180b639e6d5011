// The profile that a job measures of itself where power.profile does not exist yet: what its run
// tells of steps and heartbeats of joules, as live_profile_policy takes them; its clocks, as tables
// for ranks. A part of the pacer, before there is a plan (job_slack.hpp).
//
// Invariants
//   JPR-1  A run is told of a trial's clocks in the epoch whose steps have shown its shape, of
//     lower ones behind `warming_steps` of it: who judges ranks knows then what they take at the
//     highest. Rows of trials that were through stay for the next epoch where the shape is the
//     same.
//   JPR-2  Where what holds the pace saves no energy, a rank cannot set clocks, or one was refused,
//     nothing is measured: all have the highest clocks, and that is said once.
//   JPR-3  What ranks say they took is foreign: a step with a time that is none is none.
//   JPR-4  Of a machine the meter of one node counts in an epoch: each counts joules from a moment
//     of its own.
//   JPR-5  Behind a step that a budget paces a run is told of no clocks, and that none are tried:
//     no step at lower clocks is said to be one of usual ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/power/live_profile_policy.hpp"
#include "actors/power/slack_policy.hpp"
#include "messages/schemas/power_generated.h"

namespace troupe::power {

struct live_profile {
  clock_profile profile;
  bool modelled = false;  ///< no meter said the joules of all machines
};

/// What the log of steps says of one at clocks that are tried.
inline constexpr std::string_view profiling_state = "profiling";

/// How a job measures, and who takes what comes of it.
struct profile_order {
  double blocking_w = 0;
  std::function<void(const live_profile&)> take;  ///< waits for nothing
  live_profile_terms terms = {};
};

class job_profile {
 public:
  /// Of an epoch, without those under a pace: kernels are chosen, memory is touched.
  static constexpr int warming_steps = 3;

  explicit job_profile(profile_order order) : order_(std::move(order)) {}

  /// What a node's heartbeat says of its machine's meters.
  void hear(const std::string& node, const std::string& machine, double energy_j, bool modelled,
            int64_t at_ns);
  /// A step of an epoch has ended. None: nothing has changed by it.
  std::optional<fbs::JobClocksT> made(const fbs::StepMadeT& step, uint32_t epoch, int64_t now_ns);
  /// "profiling", "off: paced", "off: unmeasured".
  std::string state() const;
  /// For a person: "measures clocks: step 12 of 40".
  std::string words() const;

 private:
  struct metered_machine {
    size_t number = 0;
    std::string node;  ///< whose meter counts; empty: the next that is heard. JPR-4
  };

  bool is_measuring() const;
  bool is_told_clocks() const;
  void begin(const fbs::StepMadeT& step, uint32_t epoch);
  bool fits(const fbs::StepMadeT& step) const;
  void count(const fbs::StepMadeT& step, int64_t now_ns);
  fbs::JobClocksT clocks() const;
  std::string notice() const;

  profile_order order_;
  std::optional<live_profile_policy> policy_;
  std::vector<std::vector<int>> ladders_;  ///< of the policy
  size_t replicas_ = 0;
  uint32_t micro_batches_ = 0;
  uint32_t epoch_ = 0;
  uint64_t told_trial_ = 0;
  int steps_ = 0;       ///< of the epoch that nothing paced, up to warming_steps
  bool paced_ = false;  ///< the last one
  slack_reason off_ = slack_reason::no_plan;
  std::string told_state_, noticed_;
  bool taken_ = false;
  std::map<std::string, metered_machine> machines_;  ///< by boot
  std::map<std::string, size_t> nodes_;              ///< the machine of each
};

}  // namespace troupe::power
