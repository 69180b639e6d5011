// The slack of a job that trains: what slack_policy makes of the steps that its run tells of, as
// tables of clocks for its ranks. A part of the pacer, beside the budget's pace.
//
// The plan is made beside the actors, before or while the first steps are made (slack_look): it
// takes some seconds.
//
// Invariants
//   JSL-1  A run is told of tables that fit its stages and micro-batches, in the epoch whose steps
//     they were decided by; in another one it begins anew.
//   JSL-2  Where a rank cannot set clocks, cannot any more, or what holds its pace saves no energy,
//     all have the highest clocks, and that is said once.
//   JSL-3  A run is told when a table changes or the state does, and not of each step.
//   JSL-4  What slack does to a replica's times is told with its table (StageClocks.times), so that
//     who judges ranks by what they take can put it right: of the highest clocks, which steps have
//     before there is a plan and between two, so that what is normal for a rank stays so.
//   JSL-6  Until there is a plan the job measures its profile, where it has none (job_profile.hpp).
//     Where no plan can be made of that, all have the highest clocks, and why is said once.
//   JSL-7  While clocks of some ranks are given back to others who compute on their devices
//     (SGV-10), words() says at how many, since which step, and to how many processes; of all ranks
//     it says that first, for nothing of what is planned is taken.
//   JSL-5  What ranks say they took is foreign: a step of no finite time is none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/power/frontier_policy.hpp"
#include "actors/power/job_profile.hpp"
#include "actors/power/slack_plan.hpp"
#include "actors/power/slack_policy.hpp"
#include "io/base/result.hpp"
#include "messages/schemas/power_generated.h"

namespace troupe::power {

/// What setting a clock is taken to take: drivers need some 5 to 20 ms.
inline constexpr double usual_set_s = 0.02;

/// What is judged by of steps on real devices, which are less even than simulated ones.
slack_terms live_slack_terms();

/// A plan, and what it was made of.
struct planned_slack {
  std::unique_ptr<frontier_policy> policy;  ///< null: none can be made, and `note` says why
  slack_plan plan;
  double set_s = usual_set_s;
  std::string note = {};  ///< what a person should know of its profile, one sentence
  bool warns = false;     ///< that is a warning
};
using planned_slack_ptr = std::shared_ptr<const planned_slack>;

/// The plan; null: it is being made. Waits for nothing.
using slack_look = std::function<planned_slack_ptr()>;

class job_slack {
 public:
  /// `order`: where its profile is to be measured first. JSL-6
  explicit job_slack(slack_look look, std::optional<profile_order> order = {})
      : look_(std::move(look)) {
    if (order) profile_.emplace(*std::move(order));
  }

  /// What a node's heartbeat says of its machine's meters.
  void hear(const std::string& node, const std::string& machine, double energy_j, bool modelled,
            int64_t at_ns) {
    if (profile_ && !plan_) profile_->hear(node, machine, energy_j, modelled, at_ns);
  }
  /// A step of an epoch has ended. None: nothing has changed by it. JSL-3
  std::optional<fbs::JobClocksT> made(const fbs::StepMadeT& step, uint32_t epoch, int64_t now_ns);
  /// "planned", "off: paced".
  std::string state() const;
  /// For a person, with how long a step is to be, and the one at whose end that began. JSL-7
  std::string words() const;

 private:
  bool fits(const fbs::StepMadeT& step) const;
  void begin(const fbs::StepMadeT& step, uint32_t epoch);
  std::optional<fbs::JobClocksT> unplanned(uint32_t epoch);
  void put_notice(fbs::JobClocksT& into);
  void put_tables(fbs::JobClocksT& into) const;
  std::unique_ptr<fbs::ReplicaClocksT> clocks_at(size_t point) const;
  void note_given_back(const fbs::StepMadeT& step);
  bool has_clocks() const;
  std::string taken_words() const;

  slack_look look_;
  std::optional<job_profile> profile_;
  planned_slack_ptr plan_;
  std::optional<slack_policy> policy_;
  uint32_t epoch_ = 0;
  size_t replicas_ = 0;
  bool saves_energy_ = true;
  bool is_note_told_ = false;
  std::vector<std::optional<size_t>> points_;  ///< of replicas, as the run knows them
  std::string told_state_, noticed_;
  uint64_t since_step_ = 0;  ///< at whose end that state began
  // JSL-7: of the last step.
  uint32_t ranks_ = 0, given_back_ = 0, given_back_to_ = 0;
  uint64_t given_back_since_ = 0;  ///< the step at whose end that was first told
};

}  // namespace troupe::power
