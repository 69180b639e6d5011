// What a launch told, added to what came of the simulation.
#include <algorithm>

#include "actors/sim/simulation.hpp"

namespace troupe::sim {

void add_told(const told& heard, simulation_outcome& into) {
  into.steps += heard.steps.size();
  if (into.first_step_ns < 0) into.first_step_ns = heard.first_step_ns;
  if (heard.last_step_ns >= 0) into.last_step_ns = heard.last_step_ns;
  for (const auto step : heard.steps) into.last_step = std::max(into.last_step, step);
  into.losses.insert(into.losses.end(), heard.losses.begin(), heard.losses.end());
  into.recoveries.insert(into.recoveries.end(), heard.incidents.begin(), heard.incidents.end());
  for (const auto& e : heard.ends) {
    into.checkpoints += e.checkpoints;
    into.skipped_checkpoints += e.skipped_checkpoints;
    into.checkpoint_wait_ms += e.checkpoint_wait_ms;
  }
}

}  // namespace troupe::sim
