// Symptom by symptom.
#include "actors/sim/days/day_rules.hpp"

#include <algorithm>

#include "actors/sim/days/assumptions.hpp"

namespace troupe::sim {

using health::finding_name;

const symptom_rule& rule_of(std::string_view finding) {
  return *std::find_if(symptom_rules.begin(), symptom_rules.end(),
                       [&](const auto& r) { return health::facts_of(r.finding).name == finding; });
}

std::vector<std::string> not_in_the_product() {
  return {"a host whose device is sick is found so, and takes no ranks before its repair"};
}

bool day_rules::stays(const day_event& e) const {
  const double share = e.of_job() ? options_.mix.person_share : assumed::stays_share.value;
  return e.fault.stays < share;
}

bool day_rules::names_right_end(const day_event& e) const {
  return stays(e) || e.fault.verdict < assumed::right_end_share.value;
}

bool day_rules::computed_bits(const day_event& e) {
  return e.fault.verdict >= assumed::held_bits_share.value;
}

bool day_rules::seen_bits(const day_event& e) const {
  return (computed_bits(e) ? options_.health.recheck_every : options_.health.digest_every) > 0;
}

int64_t day_rules::unseen_ns(const day_event& e) const {
  if (!e.is(harm_done::bits) || options_.as != "ours") return 0;
  if (!seen_bits(e)) return times_.wrong_bits_person_ns;
  const auto longest_ns = computed_bits(e) ? times_.recheck_ns : times_.digest_ns;
  return static_cast<int64_t>(static_cast<double>(longest_ns) * e.fault.when);
}

int64_t day_rules::notice_ns(const day_event& e, bool takes_head) const {
  if (e.is(harm_done::bits) || e.is(harm_done::slow)) return 0;
  if (options_.detect_s) return ns_of(*options_.detect_s);
  const auto& p = times_.protocol;
  switch (e.rule->noticed) {
    case notice_by::closed:
      return p.notice_closed_ns;
    case notice_by::silence:
      return takes_head ? std::max(p.notice_silent_ns, times_.head_ns) : p.notice_silent_ns;
    case notice_by::failure:
      return p.notice_error_ns;
    case notice_by::stuck:
      if (by_word()) return times_.stuck_ns;
      return e.is(harm_done::device) ? times_.step_limit_ns : times_.group_limit_ns;
    default:
      return 0;
  }
}

int64_t day_rules::acting_ns(const day_event& e) const {
  if (options_.detect_s || e.rule->noticed != notice_by::stuck || !by_word()) return 0;
  return e.is(harm_done::link) ? std::max(times_.link_tests_ns, times_.stuck_acts_ns)
                               : times_.stuck_acts_ns;
}

bool day_rules::is_named_at_once(const day_event& e) const {
  switch (e.rule->harm) {
    case harm_done::device:
      return e.rule->noticed == notice_by::stuck && by_word();
    case harm_done::link:
      return false;
    case harm_done::group:
      return by_word();
    default:
      return true;
  }
}

bool day_rules::is_named_by_tests(const day_event& e) const {
  return e.is(harm_done::link) && by_word() && names_right_end(e);
}

bool day_rules::is_of_nobody(const day_event& e) const {
  if (e.rule->noticed == notice_by::stuck) return !by_word();
  return e.is(harm_done::disk) || e.is(harm_done::device);
}

finding_name day_rules::told_as(const day_event& e) {
  const bool silent = e.rule->noticed == notice_by::silence;
  switch (e.rule->harm) {
    case harm_done::process:
      return silent ? finding_name::frozen_process : finding_name::dead_process;
    case harm_done::host:
      return finding_name::lost_host;
    case harm_done::link:
    case harm_done::group:
      return finding_name::stuck_collective;
    default:
      return e.rule->finding;
  }
}

}  // namespace troupe::sim
