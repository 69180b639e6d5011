// Slow machines in a simulated cluster, and who looks for them: the real monitor and the real
// predictor beside each head, where the options want them, with the gateway that the monitor asks,
// an onlooker who asks the monitor after each step what a person may ask, and the faults of pace
// (pace_model.hpp). What has to hold of the answers is in slowness_watch.hpp.
//
// PRD-1, of seeds: a predictor that works, hangs with its first message or is killed costs no
// launch anything: all that is judged of a launch is judged the same.
#pragma once

#include <optional>
#include <string>

#include "actors/job/spawn_record.hpp"
#include "actors/sim/blame_watch.hpp"
#include "actors/sim/environment.hpp"
#include "actors/sim/faults.hpp"
#include "actors/sim/slowness_watch.hpp"
#include "actors/sim/world.hpp"
#include "messages/any_msg.hpp"

namespace troupe::sim {

struct simulation_options;

class slowness {
 public:
  slowness(world& where, environment& room, const simulation_options& options);
  slowness(const slowness&) = delete;
  slowness& operator=(const slowness&) = delete;

  /// What is beside a head that begins.
  void begin(train::spawn_record& head);
  /// How long whoever hears this is at it: a predictor that hangs, for ever.
  int64_t hangs_ns(const any_msg& m) const;

  static bool takes(fault_kind kind) { return is_of_pace(kind); }
  /// What was done, for a person; none: no such node lives.
  std::optional<std::string> befall(const fault& f, int node, const std::string& name,
                                    blame_watch& blame);
  /// A device of a node has become twice as slow, or more. Empty: nobody knows whose.
  void device_slows(const fault& f, const std::string& node);
  /// Any other fault.
  void befalls_else(fault_kind kind);

  /// So many steps have been told: what is violated; none: nothing is.
  std::optional<std::string> look(size_t steps);
  /// The same, by a message that has come.
  std::optional<std::string> see(const any_msg& m);

  const slowness_counts& counted() const { return watch_.counted(); }

 private:
  world& where_;
  environment& room_;
  const simulation_options& options_;
  slowness_watch watch_;
  caf::actor onlooker_;
  size_t steps_ = 0;  ///< told of this head
  std::optional<std::string> violated_;
};

}  // namespace troupe::sim
