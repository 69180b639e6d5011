// Who is lost with a fault, and with what he comes back: moves of day_nodes, as day_rules says.
#pragma once

#include <cstdint>

#include "actors/sim/days/day_nodes.hpp"
#include "actors/sim/days/day_rules.hpp"
#include "actors/sim/rng.hpp"

namespace troupe::sim {

class day_losses {
 public:
  day_losses(const day_options& o, const day_times& t, const day_rules& rules, day_nodes& nodes)
      : options_(o), times_(t), rules_(rules), nodes_(nodes), verdicts_(mix(o.seed)) {}

  /// Whoever is lost leaves his place.
  void leave(const day_event& e, int64_t now_ns);
  /// A process that did not get through a start, because of its device.
  void lose_device(int place, int64_t now_ns) { lose_process(place, sickness::device, now_ns); }
  /// By a person's word; it is repaired.
  void drain(int place, int64_t now_ns);

  /// Healthy nodes that were taken for culprits, or called sick when they joined.
  uint64_t wrong_verdicts() const noexcept { return wrong_verdicts_; }

 private:
  int64_t process_joins_ns(int64_t now_ns);
  void lose_process(int place, sickness what, int64_t now_ns);
  void lose_hosts(const day_event& e, int64_t now_ns);
  void lose_end(const day_event& e, int64_t now_ns);
  void fall_sick(int place, sickness what, int64_t now_ns);

  const day_options& options_;
  const day_times& times_;
  const day_rules& rules_;
  day_nodes& nodes_;
  rng verdicts_;
  uint64_t wrong_verdicts_ = 0;
};

}  // namespace troupe::sim
