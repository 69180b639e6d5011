// What a simulated device draws and how warm it gets, from what it is given to do.
//
// Power follows the operation: so many watts while it computes, so many while it waits; a meter
// shows the mean since it was last read, as the drivers of real ones do. Heat follows power, late.
//
// Invariants
//   DRW-1  The energy that readings add up to is that of the operations, but for the noise.
//   DRW-2  The same operations, times and seed give the same readings.
//   DRW-3  While its actuator sticks it draws so much at least, whatever it is given to do.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "actors/sim/rng.hpp"
#include "actors/sim/watts_trace.hpp"

namespace troupe::sim {

/// What a device draws by what it does. Those of an H100 of 700 W: idle and busy as measured by
/// users of nvidia-smi, the rest in between.
struct power_model_options {
  double idle_w = 75;
  double forward_w = 590;
  double backward_w = 640;
  double update_w = 330;  ///< memory's work
  double other_w = 180;   ///< building, loading, saving
  double limit_w = 700;
  double noise = 0.02;  ///< of a reading, up to this share more or less
  double room_c = 30;   ///< what it cools down to
  double c_per_w = 0.06;
  double lag_s = 20;  ///< the time in which it gets 63 % nearer to where its power takes it
};

class power_model {
 public:
  /// `trace` is told what it draws, and outlives it; none: nobody is.
  power_model(const power_model_options& options, rng chance, watts_trace* trace = nullptr)
      : options_(options), chance_(chance), trace_(trace), temperature_c_(options.room_c) {}

  /// It will draw `watts` from one time to another; the times do not go back, and no reading was
  /// taken behind `from_ns`.
  void works(int64_t from_ns, int64_t until_ns, double watts);

  /// It stops what it does and would have done: its user has gone.
  void stops(int64_t now_ns);

  struct reading {
    double power_w = 0;
    double temperature_c = 0;
    double busy_percent = 0;
  };
  /// Over the time since the last reading; times do not go back.
  reading read(int64_t now_ns);

  /// Its actuator sticks: readings show so much at least, until it sticks no more. Told each time
  /// that it begins to, and ends.
  void sticks(double watts) { stuck_at_w_.push_back(watts); }
  void follows_again(double watts);
  /// By the last reading; idle before the first.
  double last_w() const { return last_w_; }

 private:
  struct job {
    int64_t from_ns, until_ns;
    double watts;
  };

  power_model_options options_;
  rng chance_;
  watts_trace* trace_;
  std::deque<job> jobs_;
  std::vector<double> stuck_at_w_ = {};  ///< for each reason
  double last_w_ = options_.idle_w;
  int64_t read_ns_ = 0;
  double temperature_c_;
};

}  // namespace troupe::sim
