// The profile that a job measures of itself where power.profile does not exist yet: what its run
// tells of steps and heartbeats of joules, as live_profile_policy takes them; its clocks, as tables
// for ranks. A part of the pacer, before there is a plan (job_slack.hpp).
//
// Invariants
//   JPR-1  A run is told of a trial's clocks in the epoch whose steps have shown its shape. Rows of
//     trials that were through stay for the next epoch where that is the same.
//   JPR-2  Where what holds the pace saves no energy, a rank cannot set clocks, or one was refused,
//     nothing is measured: all have the highest clocks, and that is said once.
//   JPR-3  What ranks say they took is foreign: a step with a time that is none is none.
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

/// How a job measures, and who takes what comes of it.
struct profile_order {
  double blocking_w = 0;
  std::function<void(const live_profile&)> take;  ///< waits for nothing
  live_profile_terms terms = {};
};

class job_profile {
 public:
  explicit job_profile(profile_order order) : order_(std::move(order)) {}

  /// What a node's heartbeat says of its machine's meters.
  void hear(const std::string& node, const std::string& machine, double energy_j, bool modelled,
            int64_t at_ns);
  /// A step of an epoch has ended. None: nothing has changed by it.
  std::optional<fbs::JobClocksT> made(const fbs::StepMadeT& step, uint32_t epoch, int64_t now_ns);
  /// "profiling", "off: unmeasured".
  std::string state() const;
  /// For a person: "measures clocks: step 12 of 40".
  std::string words() const;

 private:
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
  slack_reason off_ = slack_reason::no_plan;
  std::string told_state_, noticed_;
  bool taken_ = false;
  std::map<std::string, size_t> machines_;  ///< by boot
  std::map<std::string, size_t> nodes_;     ///< the machine of each
};

}  // namespace troupe::power
