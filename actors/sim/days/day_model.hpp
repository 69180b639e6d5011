// A large cluster over days: what faults cost a job, minute by minute, in seconds of computing.
//
// A simulation of events, not of messages: the real recovery_policy decides whether a recovery may
// begin, the real time_ledger_policy keeps the account, spares, evictions and replicas go by the
// product's rules (day_nodes.hpp), and between them stands a model whose times are those of
// day_times: our actors' own ones measured (protocol_times.hpp), all others from one table
// (assumptions.hpp).
//
// It does what the product does (symptoms.hpp says for each finding by what): a fault is noticed
// and, where the product can, named; the job begins a new epoch, a spare comes into the place of
// who is lost, else its process is waited for, else there are fewer replicas until there are nodes
// for more; it goes on from copies in memory or from the newest checkpoint. A host that stays sick
// comes back as the last of the spares. Where the product ends the job a person comes.
// What it does beyond that only where it is told to (`planned`).
//
// Left out: what is wrong with a spare before it has a place, a person who mends something before
// the job ends (but the daily repair of hosts), ranks that are lost together with their keepers
// other than behind a switch.
//
// Invariants
//   DAY-1  The same faults for the same seed, whoever deals with them.
//   DAY-2  The ledger sums to the simulated time (HEAL-7).
//   DAY-3  Whoever is simulated by published times loses them for each fault, one after another.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/health/time_ledger_policy.hpp"
#include "actors/sim/days/fault_schedule.hpp"
#include "actors/sim/days/protocol_times.hpp"
#include "io/config/job.hpp"

namespace troupe::sim {

inline int64_t ns_of(double s) {
  return static_cast<int64_t>(std::llround(s * 1e9));
}

struct day_options {
  double days = 1;
  int nodes = 128, workers = 8;
  uint64_t seed = 1;
  fault_mix mix;
  std::string as = "ours";          ///< or one of `published`
  std::optional<double> detect_s;   ///< of each fault, in place of what would be
  std::optional<double> restart_s;  ///< from the name to the first step, the same
  std::optional<uint64_t> steps_lost;
  uint64_t checkpoint_every = 50;  ///< steps
  int spares = 0;
  uint64_t copies = 0;  ///< steps between copies in memory; 0: none
  int heads = 1;        ///< the acting one on the host of the first node
  config::recovery_section recovery;
  config::health_section health;
  bool planned = false;  ///< with what the product does not have yet (not_in_the_product())
};

/// What `planned` adds, a sentence each.
std::vector<std::string> not_in_the_product();

/// What things take, in nanoseconds.
struct day_times {
  protocol_times protocol;
  int64_t step_ns = 0;
  int64_t blocking_ns = 0;  ///< of a save or copy
  int64_t save_ns = 0;      ///< until it is committed
  int64_t copy_ns = 0;      ///< until it is held elsewhere
  int64_t process_start_ns = 0;
  int64_t reschedule_ns = 0;  ///< until a scheduler has brought another host
  int64_t requeue_ns = 0;     ///< until a job that has ended has processes again
  int64_t groups_ns = 0;      ///< until groups of collectives are connected
  int64_t read_disk_ns = 0, read_copy_ns = 0;
  int64_t person_ns = 0;
  int64_t group_limit_ns = 0, step_limit_ns = 0;
  int64_t stuck_ns = 0;       ///< until the wait graph names who holds up the others
  int64_t stuck_acts_ns = 0;  ///< from then until its node is taken for lost
  int64_t head_ns = 0;        ///< until another head acts
  int64_t rejoin_ns = 0;      ///< that it waits for nodes before it does without them
  int64_t digest_ns = 0, recheck_ns = 0, wrong_bits_person_ns = 0;
  int64_t slow_ns = 0;      ///< until a slow node is named
  int64_t slow_out_ns = 0;  ///< and until a spare may take its place
  int64_t warned_ns = 0;    ///< until a person comes who was warned alone
  int64_t repair_ns = 0;    ///< of a host, as everyday work
  int64_t link_tests_ns = 0;
};

/// By the table of assumptions, for a cluster of this size.
day_times times_of(const day_options& options, const protocol_times& protocol);

/// A fault and what became of it. Times in nanoseconds from the begin; -1: never.
struct day_incident {
  size_t cause = 0;
  int64_t at_ns = 0;
  int64_t noticed_ns = -1, named_ns = -1, back_ns = -1;
  bool stops = false;   ///< steps stopped for it
  bool unaided = true;  ///< nobody was needed
};

struct day_outcome {
  health::time_ledger_policy ledger;
  std::vector<day_incident> incidents;
  uint64_t steps = 0;  ///< that stand
  /// Healthy nodes that lost their place, or were not let in, over a wrong verdict.
  uint64_t false_evictions = 0;
  uint64_t spares_used = 0, jobs_ended = 0;
  uint64_t fewer_replicas = 0;  ///< how often it went on with fewer
  /// Of useful time, what steps took longer with fewer replicas or a slow node; by hour, too.
  int64_t slower_ns = 0;
  std::vector<int64_t> slower_by_hour_ns;

  /// Of all time, what as many steps would have taken with all nodes, none of them slow.
  double effective() const noexcept;
};

/// `schedule` as draw_schedule() made it.
day_outcome simulate_days(const day_options& options, const day_times& times,
                          const std::vector<timed_fault>& schedule);

}  // namespace troupe::sim
