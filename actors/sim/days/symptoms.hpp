// What becomes of a fault in the day simulation, by the finding that it would be, as the product
// is: what is gone, by what it is noticed, and whether a person is needed. Each row names what does
// it in the product: the code, or the test that shows it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "actors/sim/days/fault_mix.hpp"
#include "io/base/findings.hpp"

namespace troupe::sim {

/// What a fault does.
enum class harm_done : uint8_t {
  none,     ///< steps go on, and it is told
  slow,     ///< steps go on and take longer
  process,  ///< a process is gone, its host is sound
  host,     ///< a host is gone
  device,   ///< operations fail or hang: a passing fault, or one that stays with the host
  link,     ///< a pair of nodes: transfers between them stand still
  disk,     ///< reads fail
  group,    ///< a collective stands still, and no host is at fault
  bits,     ///< steps go on and are wrong
  loss,     ///< the loss is not finite: the job ends, as recovery.on_spike = tell wants
  head,     ///< the head's process is gone
};

/// By what a fault is noticed.
enum class notice_by : uint8_t {
  closed,   ///< a connection breaks
  silence,  ///< cluster.dead_after_ms
  failure,  ///< an operation's error
  stuck,    ///< no rank's counter moves (health.stuck_after_s), then recovery.stuck_after_s
  digest,   ///< replicas compare their weights (health.digest_every), or a person sees it
  windows,  ///< steps are gathered and compared (health.window_s)
  at_once,
};

struct symptom_rule {
  health::finding_name finding;
  harm_done harm;
  notice_by noticed;
  bool needs_person = false;  ///< it is told, and nothing else is done about it
};

/// One for each finding, in their order.
inline constexpr auto symptom_rules = [] {
  using enum health::finding_name;
  return std::array{
      // apps/up/watch.cpp, coordinator.cpp: down. recovery_test "a node of replicas that is killed"
      symptom_rule{dead_process, harm_done::process, notice_by::closed},
      // LIV-1, CRD-11. recovery_test "a spare stands in for a killed node"
      symptom_rule{lost_host, harm_done::host, notice_by::silence},
      // LIV-1. recovery_test "a node that stands still for longer than the dead time is replaced"
      symptom_rule{frozen_process, harm_done::process, notice_by::silence},
      // The wait graph finds the pair (culprit_policy_test "a deadlock is a pair"), tests of pairs
      // its sick end (MON-7, link_policy_test), and that end's node is replaced.
      symptom_rule{half_open_link, harm_done::link, notice_by::stuck},
      symptom_rule{cut_pair, harm_done::link, notice_by::stuck},
      // STK-1, CUL-1, MON-1: whom the others wait for is replaced. drills_test "a device that
      // hangs"
      symptom_rule{stuck_collective, harm_done::group, notice_by::stuck},
      symptom_rule{stuck_device, harm_done::device, notice_by::stuck},
      // A step fails, of nobody (job_recovery.cpp: await_word); NOD-4: who has lost its device ends
      // when it is to end its ranks, and CRD-10, CRD-11 replace it. CHK-4.
      symptom_rule{lost_device, harm_done::device, notice_by::failure},
      // JOB-4: the job ends.
      symptom_rule{bad_loss, harm_done::loss, notice_by::at_once},
      // loss_policy.hpp: told, training goes on.
      symptom_rule{loss_spike, harm_done::none, notice_by::at_once},
      // DGS-2, JOB-13: wrong_bits_test "whom two replicas outvote". RCK-2, JOB-20: of what is
      // computed wrongly, by computing it again (docs/health.md, "Wrong bits").
      symptom_rule{wrong_bits, harm_done::bits, notice_by::digest},
      // regression_policy.hpp: told, of nobody.
      symptom_rule{step_regression, harm_done::none, notice_by::windows, true},
      // SLW-2: named and told; SEV-1: replaced where recovery.evict_slow says so. stragglers_test
      symptom_rule{straggler, harm_done::slow, notice_by::windows, true},
      // machine_policy.hpp: told; saves fail, training goes on (job_policy.cpp: save_ended).
      symptom_rule{disk_full, harm_done::none, notice_by::at_once, true},
      symptom_rule{disk_slow, harm_done::none, notice_by::at_once, true},
      // A log rule tells it with its node, and nobody acts on the word of a log (MON-1). What reads
      // from that disk fails (can_mend: io) of nobody, so all ranks begin anew on the same hosts.
      symptom_rule{disk_failing, harm_done::disk, notice_by::failure},
      // The kernel kills the process: as dead_process.
      symptom_rule{memory_pressure, harm_done::process, notice_by::closed},
      // It gets no time: as frozen_process.
      symptom_rule{cpu_starved, harm_done::process, notice_by::silence},
      // Told alone; nothing need be done.
      symptom_rule{clock_jump, harm_done::none, notice_by::at_once},
      symptom_rule{log_rule, harm_done::none, notice_by::at_once},
      symptom_rule{device_hot, harm_done::none, notice_by::at_once},
      symptom_rule{checkpoint_behind, harm_done::none, notice_by::at_once},
      // head_test "killed, it is started again"; of several another one acts (standby_test).
      symptom_rule{head_lost, harm_done::head, notice_by::closed},
      // MON-10: told, with its rank; what it costs all others is the straggler's.
      symptom_rule{slow_part, harm_done::none, notice_by::windows, true},
  };
}();
static_assert([] {
  for (size_t i = 0; i < symptom_rules.size(); ++i)
    if (symptom_rules[i].finding != static_cast<health::finding_name>(i)) return false;
  return symptom_rules.size() == health::finding_table.size();
}());

/// The rule of a finding's name; each name has one.
const symptom_rule& rule_of(std::string_view finding);

}  // namespace troupe::sim
