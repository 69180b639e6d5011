// Harm by harm.
#include "actors/sim/days/day_losses.hpp"

#include <algorithm>

#include "actors/sim/days/assumptions.hpp"

namespace troupe::sim {

/// A process that joins is examined (docs/doctor.md, "At join"), and a wrong verdict ends it.
int64_t day_losses::process_joins_ns(int64_t now_ns) {
  const auto joins_ns = now_ns + times_.process_start_ns;
  const bool wrong =
      options_.health.checkup_at_join && verdicts_.chance(assumed::bad_verdict_share.value);
  wrong_verdicts_ += wrong;
  return wrong ? joins_ns + times_.process_start_ns : joins_ns;
}

void day_losses::fall_sick(int place, sickness what, int64_t now_ns) {
  nodes_.fall_sick(nodes_.node_in(place), what, now_ns + times_.repair_ns);
}

/// What is wrong with the host comes back with the next process. A spare's sick link is found then
/// (actors/health/returned_policy.hpp), as planned a sick device, too; the host is repaired first.
void day_losses::lose_process(int place, sickness what, int64_t now_ns) {
  const bool is_found = what == sickness::link && nodes_.spares(now_ns) > 0;
  if (is_found || (what != sickness::none && options_.planned)) {
    fall_sick(place, sickness::none, now_ns);
    return nodes_.lose(place, now_ns + times_.reschedule_ns, now_ns + times_.repair_ns, now_ns);
  }
  if (what != sickness::none) fall_sick(place, what, now_ns);
  const auto joins_ns = process_joins_ns(now_ns);
  nodes_.lose(place, joins_ns, joins_ns, now_ns);
}

void day_losses::lose_hosts(const day_event& e, int64_t now_ns) {
  const int hosts = e.of_switch() ? static_cast<int>(assumed::switch_nodes.value) : 1;
  for (int place = e.fault.node; place < std::min(nodes_.places(), e.fault.node + hosts); ++place)
    nodes_.lose(place, now_ns + times_.reschedule_ns, now_ns + times_.repair_ns, now_ns);
}

/// One end is taken for the culprit, and may be the sound one.
void day_losses::lose_end(const day_event& e, int64_t now_ns) {
  const auto what = rules_.stays(e) ? sickness::link : sickness::none;
  const bool right = rules_.names_right_end(e) || nodes_.places() == 1;
  if (rules_.by_word() && right) return lose_process(e.fault.node, what, now_ns);
  if (what != sickness::none) fall_sick(e.fault.node, what, now_ns);
  if (!rules_.by_word()) return;
  ++wrong_verdicts_;
  lose_process((e.fault.node + 1) % nodes_.places(), sickness::none, now_ns);
}

void day_losses::leave(const day_event& e, int64_t now_ns) {
  const int place = e.fault.node;
  if (place >= nodes_.places()) return;
  if (e.of_switch()) return lose_hosts(e, now_ns);
  const auto kept = !e.of_job() && rules_.stays(e) ? sickness::device : sickness::none;
  switch (e.rule->harm) {
    case harm_done::host:
      return lose_hosts(e, now_ns);
    case harm_done::process:
      if (!e.of_job()) lose_process(place, sickness::none, now_ns);
      return;
    case harm_done::device:
    case harm_done::bits:
      return lose_process(place, kept, now_ns);
    case harm_done::link:
      return lose_end(e, now_ns);
    case harm_done::disk:
      if (rules_.stays(e)) fall_sick(place, sickness::disk, now_ns);
      return;
    case harm_done::group:  // somebody is whom the others wait for, and is not at fault
      if (!rules_.by_word()) return;
      ++wrong_verdicts_;
      return lose_process(place, sickness::none, now_ns);
    case harm_done::slow: {  // it stays so
      const auto joins_ns = process_joins_ns(now_ns);
      return nodes_.lose(place, joins_ns, joins_ns, now_ns);
    }
    default:
      return;
  }
}

void day_losses::drain(int place, int64_t now_ns) {
  fall_sick(place, sickness::none, now_ns);
  nodes_.lose(place, now_ns + times_.repair_ns, now_ns + times_.repair_ns, now_ns);
}

}  // namespace troupe::sim
