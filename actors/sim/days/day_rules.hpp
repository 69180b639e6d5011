// What becomes of each fault, as far as that hangs on nothing but the fault and the configuration:
// when it is noticed and acted on, whether somebody is named, whether it stays. Pure.
#pragma once

#include <cstdint>

#include "actors/sim/days/day_model.hpp"
#include "actors/sim/days/fault_schedule.hpp"
#include "actors/sim/days/symptoms.hpp"

namespace troupe::sim {

/// A fault, by when it begins to be noticed: wrong bits are for a while not.
struct day_event {
  int64_t seen_ns = 0;
  timed_fault fault;
  const fault_cause* cause = nullptr;
  const symptom_rule* rule = nullptr;
  size_t incident = 0;

  bool of_job() const noexcept { return cause->scope == fault_scope::job; }
  bool of_switch() const noexcept { return cause->scope == fault_scope::at_switch; }
  bool is(harm_done harm) const noexcept { return rule->harm == harm; }
  /// Steps go on.
  bool is_told() const noexcept { return is(harm_done::none) || is(harm_done::slow); }
};

class day_rules {
 public:
  day_rules(const day_options& o, const day_times& t) : options_(o), times_(t) {}

  /// A device, a disk or a link that is broken for good, or a program that is.
  bool stays(const day_event& e) const;
  /// Tests of pairs see what stays; of anything else the wait graph names either end.
  bool names_right_end(const day_event& e) const;
  /// Wrong bits that replicas see, and of them those that a device computes so.
  bool seen_bits(const day_event& e) const;
  static bool computed_bits(const day_event& e);
  /// Whom the others wait for is taken for lost (MON-1).
  bool by_word() const { return options_.recovery.stuck_after_s > 0; }

  /// How long steps go on and are wrong.
  int64_t unseen_ns(const day_event& e) const;
  /// From then until it is noticed. `takes_head`: the acting head goes with it.
  int64_t notice_ns(const day_event& e, bool takes_head) const;
  /// From the notice until the job acts on it.
  int64_t acting_ns(const day_event& e) const;
  /// Somebody is named with the notice: of a device's error nobody is yet (NOD-4).
  bool is_named_at_once(const day_event& e) const;
  /// Tests of pairs name it while the job stands still (MON-7).
  bool is_named_by_tests(const day_event& e) const;
  /// Nobody is named when a recovery is decided about.
  bool is_of_nobody(const day_event& e) const;
  /// The finding that the job is told of: one that has a rule.
  static health::finding_name told_as(const day_event& e);

 private:
  const day_options& options_;
  const day_times& times_;
};

}  // namespace troupe::sim
