// The power budget above a job, as the job's pacer knows it: what it reports there, what it keeps
// to by what it hears, and why its steps wait. How it is reached: parent_link.hpp.
//
// Until the budget has granted something no step begins; then the lease holds
// (job_lease_policy.hpp).
//
// Messages: CheckpointNow to the run; Notice to the reporter.
//
// Invariants
//   PPL-4  A run that is to pause is asked for a checkpoint first, once each time, if it has made
//     steps: it is of the end of the step under way (PWR-2). No pause waits for it.
//   PPL-6  How long a lesser cap takes to be in force is measured, each time, and told: from when
//     the cap falls until the run follows a word of it; of a machine without a job from the command
//     until its setting was read back. A cap that rises again before says nothing of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "actors/power/job_lease_policy.hpp"
#include "actors/power/parent_link.hpp"
#include "io/base/recent_delays.hpp"

namespace troupe::power {

/// How the budget above the job is known.
struct job_parent : parent_link {
  explicit job_parent(parent_options o) : parent_link(std::move(o)), lease(options.incarnation) {}

  job_lease_policy lease;
  std::string brake_of = {};  ///< the budget whose brake is on; empty: none, or it does not say
  /// What the child needs, and what is free for it, by the last answer; -1: it did not say.
  int64_t needs_mw = -1, free_mw = -1;
  bool told_lapse = false;  ///< PPL-3
  uint16_t cap_counter = 0;  ///< the name of work of its counter; 0: it has none yet
  bool stepped = false;     ///< the run has made steps
  bool shed = false;        ///< PPL-4
  recent_delays acted = {};                    ///< PPL-6
  std::optional<int64_t> above_since_ns = {};  ///< more than the cap is in force, since then
  int64_t above_mw = 0;                        ///< so much
};

/// How the reason begins of a job whose budget hears another process of its name (JLP-4).
inline constexpr std::string_view replaced_reason = "another process works as this job";

struct pacer_state;
using pacer_pointer = traced_pointer<pacer_actor, pacer_state>;

struct fed_part;

/// From now on the part has it; `changed` is called where what is known of it has.
void begin_job_parent(pacer_pointer self, fed_part& part, const parent_options& options,
                      std::function<void()> changed);
/// The cap of now, in milliwatts; a lease that has lapsed is said.
int64_t cap_of_now(pacer_pointer self, fed_part& part);
/// PPL-6: of a job, whenever what it follows may have changed.
void note_actuation(job_parent& p, int64_t now_ns);
/// PPL-4: before the run is told to pause.
void save_if_shed(pacer_pointer self, job_parent& p);
/// Why no step may begin, a sentence; empty: steps may.
std::string why_held(const job_parent& p);

}  // namespace troupe::power
