// What becomes of a fault in the day simulation, by the finding that it would be: what is gone, and
// by what it is noticed, today and once the monitor, the doctor and the ladder are there.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "actors/sim/days/fault_mix.hpp"

namespace troupe::sim {

/// What a fault does.
enum class harm_done : uint8_t {
  none,     ///< steps go on; a person, or nobody, looks after it
  process,  ///< a process is gone, its host is sound
  host,     ///< a host is gone
  device,   ///< operations fail or hang: a passing fault, or one that stays with the host
  group,    ///< a collective stands still, and no host is at fault
  bits,     ///< steps go on and are wrong
  loss,     ///< the loss is not finite: the job ends, as train.on_spike = tell wants
};

/// By what a fault is noticed.
enum class notice_by : uint8_t {
  closed,       ///< a connection breaks
  silence,      ///< cluster.dead_after_ms
  failure,      ///< an operation's error
  group_limit,  ///< a collective's time limit
  step_limit,   ///< timeouts.operation_s
  stuck,        ///< no rank's counter moves
  nic,          ///< an inspection of network cards
  digest,       ///< replicas compare their weights
  person,
  at_once,
};

struct symptom_rule {
  std::string_view finding;
  harm_done harm;
  notice_by today, planned;
  bool needs_pair_test = false;  ///< to be named, by the doctor
};

/// One for each finding.
inline constexpr std::array symptom_rules = {
    symptom_rule{"dead_process", harm_done::process, notice_by::closed, notice_by::closed},
    symptom_rule{"lost_host", harm_done::host, notice_by::silence, notice_by::silence},
    symptom_rule{"frozen_process", harm_done::process, notice_by::silence, notice_by::silence},
    symptom_rule{"half_open_link", harm_done::device, notice_by::group_limit, notice_by::nic, true},
    symptom_rule{"cut_pair", harm_done::device, notice_by::group_limit, notice_by::nic, true},
    symptom_rule{"stuck_collective", harm_done::group, notice_by::group_limit, notice_by::stuck,
                 true},
    symptom_rule{"stuck_device", harm_done::device, notice_by::step_limit, notice_by::stuck},
    symptom_rule{"lost_device", harm_done::device, notice_by::failure, notice_by::failure},
    symptom_rule{"bad_loss", harm_done::loss, notice_by::at_once, notice_by::at_once},
    symptom_rule{"loss_spike", harm_done::none, notice_by::person, notice_by::at_once},
    symptom_rule{"wrong_bits", harm_done::bits, notice_by::person, notice_by::digest},
    symptom_rule{"step_regression", harm_done::none, notice_by::person, notice_by::at_once},
    symptom_rule{"straggler", harm_done::none, notice_by::person, notice_by::at_once},
    symptom_rule{"disk_full", harm_done::none, notice_by::at_once, notice_by::at_once},
    symptom_rule{"disk_slow", harm_done::none, notice_by::person, notice_by::at_once},
    symptom_rule{"disk_failing", harm_done::device, notice_by::failure, notice_by::failure},
    symptom_rule{"memory_pressure", harm_done::process, notice_by::closed, notice_by::closed},
    symptom_rule{"cpu_starved", harm_done::process, notice_by::silence, notice_by::silence},
    symptom_rule{"clock_jump", harm_done::none, notice_by::person, notice_by::at_once},
    symptom_rule{"log_rule", harm_done::none, notice_by::person, notice_by::at_once},
    symptom_rule{"device_hot", harm_done::none, notice_by::person, notice_by::at_once},
    symptom_rule{"checkpoint_behind", harm_done::none, notice_by::at_once, notice_by::at_once},
    symptom_rule{"head_lost", harm_done::process, notice_by::closed, notice_by::closed},
};
static_assert(symptom_rules.size() == finding_names.size());

/// The rule of a finding's name; each name has one.
const symptom_rule& rule_of(std::string_view finding);

}  // namespace troupe::sim
