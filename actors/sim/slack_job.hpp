// The slack of a simulated job: what its pacer plans by, what befalls the clocks of its devices,
// and who looks (slack_watch.hpp).
//
// The planning is the real one (actors/power), on the one thread that there is: the plan lies there
// a while of virtual time later, as if it had been made beside the actors. What it is made of is
// the profile of the simulated devices themselves, or what the job measures of them in its first
// steps (job_profile.hpp).
//
// Invariants
//   SLS-3  Without simulation_options::slack_by nothing is there, and no random number drawn.
//   SLS-4  What was measured is there for the heads and launches that follow, as its file would be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "actors/job/plan.hpp"
#include "actors/power/pacer.hpp"
#include "actors/sim/environment.hpp"
#include "actors/sim/faults.hpp"
#include "actors/sim/slack_watch.hpp"
#include "messages/any_msg.hpp"

namespace troupe::sim {

struct simulation_options;

class slack_job {
 public:
  static constexpr int64_t planning_ns = 2'000'000'000;
  /// Of a step, that are planned for: some seconds of a processor.
  static constexpr int64_t operations_at_once = 1024;

  static bool can_plan(int64_t stages, int64_t micro_batches) {
    return 2 * stages * micro_batches <= operations_at_once;
  }

  slack_job(world& where, environment& room, const simulation_options& options,
            const train::job_plan& plan);
  slack_job(const slack_job&) = delete;
  slack_job& operator=(const slack_job&) = delete;

  bool any() const { return any_; }
  /// For the pacer of a head that begins.
  void begin(power::pacer_options& into);

  /// Whether that befalls what sets its clocks.
  bool takes(fault_kind kind) const { return any_ && is_of_clocks(kind); }
  /// What was done, for a person.
  std::string befall(const fault& f);
  /// Any other fault.
  void befalls_else(const fault& f);

  /// What is violated; none: nothing is.
  std::optional<std::string> see(const any_msg& m);

  const slack_counts& counted() const { return watch_.counted(); }

 private:
  power::clock_profile own_profile() const;
  void plan_by(power::clock_profile profile);

  world& where_;
  environment& room_;
  const train::job_plan& plan_;
  bool any_, measures_;
  slack_watch watch_;
  power::planned_slack_ptr planned_;
  int64_t planned_ns_ = 0;  ///< when that is there
};

}  // namespace troupe::sim
