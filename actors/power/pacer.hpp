// The pacer: keeps a job within its power budget (power.budget_w), or what one above the job grants
// (power.parent; job_parent.hpp), whichever is less, and adds up what its machines draw. Thin: a
// policy decides (job_pace_policy.hpp). Of a machine without a job it does the same, and sets the
// pace itself (machine_hold.hpp).
//
// It takes the job's slack, too (power.slack; job_slack.hpp): StepMade from the run at each step's
// end, JobClocks to it. Where there is no profile it measures one in the first steps, by what
// heartbeats say of joules (job_profile.hpp).
//
// Messages: Heartbeat from the coordinator, which carries what meters say; PaceTaken from the run,
// at each step's begin, where steps end, where ranks are given out anew (another epoch), where a
// person sets the budget, pauses or resumes, and for a lesser pace while no step is made; JobPower
// to the run, and CheckpointNow where its work is to pause.
//
// Invariants
//   PCR-1  The run has a new JobPower within a period of whatever changes it, and at once where a
//     step has begun.
//   PCR-2  It says nothing to a run that has not spoken to it.
//   PCR-4  The brake of the budget above the job goes to the run as it comes, and is off again with
//     its lease (JLP-5). What is drawn meanwhile says nothing of the pace of the step: no pace is
//     judged by it. A step that goes on is told above by the mean of those before it, as any other.
//   PCR-3  Under a power budget above the job no step begins before that has granted watts, and
//     none at a pace that what it has granted by then forbids (PWR-3).
//   PCR-5  Where a journal is kept each decision that is another one stands there, also those that
//     no run was told (PJN-1). Without a budget, its own or one above, or a ramp, a job has none.
//   PCR-6  A dry run (power.dry_run) decides and journals as any other, and tells its run the whole
//     pace and no brake. It acknowledges no cap: all that it can draw is in force, it says above.
//   PCR-7  What the budget above holds a step back by (step_phase_policy.hpp) is told to the run
//     once, and not while no step may begin. That step judges no pace (JPP-2).
//
//   PCR-8  Of a job whose machines hang on several power budgets each rack has a pace by what its
//     own budget has granted, and by its own machines alone; the job has the least of them, and its
//     own budget's. What a rack cannot use for that it does not ask for (fed_part.hpp).
//
// Failure policy: a run with a budget, its own or one above it, ends with it, for nothing computes
// that nobody measures; one without does without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/power/fed_part.hpp"
#include "actors/power/job_pace_policy.hpp"
#include "actors/power/job_parent.hpp"
#include "actors/power/job_slack.hpp"
#include "actors/power/machine_hold.hpp"
#include "actors/power/pacer_journal.hpp"
#include "actors/power/step_phase_policy.hpp"
#include "gpu/meters/readers.hpp"
#include "messages/actors.hpp"

namespace troupe::config {
struct power_section;
}

namespace troupe::power {

/// A power budget above a part of the job, and the nodes that it feeds.
struct rack_options {
  parent_options parent;
  std::vector<std::string> nodes;
};

struct pacer_options {
  double budget_w = 0;  ///< 0: none
  uint32_t epoch = 0;
  std::optional<parent_options> parent = {};  ///< spawn it detached: processor_time reads files
  pacer_journal::sink journal = {};           ///< waits for nothing; empty: none is kept
  std::string machine = {};                   ///< of this process, as its nodes say theirs
  /// Of this process, where no node is in it, and of its machine; none: it counts for nothing.
  std::function<gpu::processor_seconds()> processor_time = {};
  /// Tells a recording what it is made of (note_spawn_record()); may be empty.
  std::function<void()> recorded = {};
  /// What may hold the pace (power_section::actuators); empty: pauses.
  std::vector<std::string> control = {};
  /// It holds that machine, under a parent, and no job; spawn it detached.
  std::optional<held_machine> held = {};
  double ramp_w_s = 0;   ///< JPP-10; 0: none
  bool dry_run = false;  ///< PCR-6; of a job
  slack_look slack = {};  ///< empty: the job takes none
  std::optional<profile_order> profiles = {};  ///< what that is planned by is measured first
  std::vector<rack_options> racks = {};        ///< instead of `parent`; spawn it detached. PCR-8
};

/// What a job's own configuration says of it; not in it is what is above the job.
pacer_options pacer_options_of(const config::power_section& said, uint32_t epoch);

/// The job as a whole is a part, under `parent` or its own budget alone.
struct pacer_state : fed_part {
  static inline const char* name = "pacer";
  std::deque<fed_part> racks;  ///< PCR-8
  double own_w = 0;            ///< power.budget_w as of now; 0: none
  uint32_t step_pace = 0;      ///< of the step that is made, or in force; 0: none is
  bool paused = false;         ///< a person wants no steps made
  bool braked = false;         ///< the run is told to hold its step
  bool moves_limits = false;   ///< by its pace: what meters say of them bounds no full speed
  bool brake_armed = false;    ///< and all its ranks can hear that
  bool dry_run = false;        ///< PCR-6
  job_pace_policy::verdict decided{};  ///< last, by all parts
  size_t binds = 0;         ///< whose that is: 0: the whole job's; else the rack of that number
  step_phase_policy phase;  ///< of its steps against those of others under its parent
  std::optional<machine_hold> held;
  std::optional<job_slack> slack;
  pacer_journal journal;
  std::string machine;
  std::function<gpu::processor_seconds()> processor_time;
  run_actor run;
  uint32_t run_epoch = 0;
  std::optional<fbs::JobPowerT> told;
  uint64_t words = 0;  ///< that the run was told; the number of the last one
};

/// Of what machines draw together.
fbs::PowerSource source_of(const job_pace_policy::totals& all);

pacer_actor::behavior_type pacer(pacer_pointer self, const pacer_options& options);

}  // namespace troupe::power
