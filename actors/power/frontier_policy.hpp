// The time-energy frontier of a pipeline: for every length of a step the clocks at which it costs
// least (Perseus, Chung et al., SOSP'24). Most operations of a step wait for others; made slower,
// they cost less and delay nobody.
//
// A point is a table of clocks, one for each stage, instruction and micro-batch, that a profile has
// measured. Its time is that of the schedule with the profile's times, its energy the sum of the
// profile's energies and of what devices draw while they wait (`blocking_w`). Nothing is fitted.
//
// What it finds them by: were clocks continuous, the best tables would be those of a linear
// programme over the lower convex hull of each operation's (time, energy - blocking_w x time), and
// time_cost_flow finds all of them exactly. Each is then brought down to clocks that exist
// (clock_rounding). The programme's value is a lower bound of the energy of any table: every point
// says how far it is from it at most.
//
// Equal micro-batches tie: the programme may give each of them a clock in between, which no
// rounding makes good where stages share their period. So it is also solved at prices that rise a
// little from one micro-batch to the next: then they are slowed one after the other, in all stages
// alike, and few clocks are in between. And where a hull runs far below the clocks there are, since
// two of its corners are far apart, it is solved without those behind: then others take the slack.
// Of all solutions the better points are kept; the bound is that of the first.
//
// Invariants
//   FRO-1  Of `own` both time and energy are strictly monotone: a longer step costs less. Of `held`
//     the step's own energy may rise, but that of a step which something else holds up falls.
//   FRO-2  The first point is as fast as all operations at their fastest.
//   FRO-3  No table of clocks of a step that short costs less than `bound_j`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/power/clock_profile.hpp"
#include "actors/power/clock_rounding.hpp"
#include "actors/power/pipeline_dag.hpp"
#include "actors/power/time_cost_flow.hpp"

namespace troupe::power {

/// Which row of its profile each operation runs at, by its number in the pipeline_dag.
using clock_table = std::vector<uint16_t>;

/// What a table of clocks comes to, by the profile.
struct table_cost {
  double time_s = 0;
  double energy_j = 0;      ///< of a step that ends when the pipeline does
  double above_wait_j = 0;  ///< energy_j without blocking_w of every device all the time
};

/// The cost of a table, by walking the schedule.
table_cost cost_of(const pipeline_dag& dag, const clock_profile& profile, const clock_table& clocks,
                   double blocking_w);

/// Everything at its fastest clock.
clock_table fastest_clocks(const pipeline_dag& dag, const clock_profile& profile);
/// Everything at the profile's highest clock, fast or not.
clock_table highest_clocks(const pipeline_dag& dag);

struct frontier_point {
  table_cost cost;
  double bound_j = 0;  ///< no table as short costs less
  clock_table clocks;
};

struct frontier {
  /// From the shortest step to the one of least energy.
  std::vector<frontier_point> own;
  /// Beyond it: cheaper only while something else holds the step up for longer (a straggler).
  std::vector<frontier_point> held;

  /// The point that costs least in a step which lasts `step_s` anyway; the first where none is as
  /// short.
  const frontier_point& at(double step_s) const;
};

/// Plans point by point, so that who calls can say how far it is.
class frontier_policy {
 public:
  /// Points that a frontier has about, evenly over time.
  static constexpr int points = 500;
  /// The work grows with their square: 8 stages x 96 micro-batches, 1,536, take some 15 s.
  static constexpr size_t most_operations = 1 << 13;

  /// Operations (2 x stages x micro_batches) are 2 to most_operations.
  frontier_policy(clock_profile profile, int micro_batches, double blocking_w);
  frontier_policy(const frontier_policy&) = delete;
  frontier_policy& operator=(const frontier_policy&) = delete;

  const pipeline_dag& dag() const noexcept { return dag_; }
  const clock_profile& profile() const noexcept { return profile_; }
  double blocking_w() const noexcept { return blocking_w_; }

  /// A corner of the linear programme and the points up to it; false: the frontier is whole.
  bool advance();
  /// How far it is, 0 to 1.
  double progress() const;
  /// When advance() says false.
  frontier take();

 private:
  /// The clocks of a stage's instruction, longest first, and their hull.
  struct operation {
    std::vector<clock_choice> choices;
    std::vector<clock_choice> hull;
    std::vector<time_cost_flow::corner> corners;
    std::vector<time_cost_flow::corner> shallow_corners;  ///< without what is behind a deep side
  };
  /// Of the linear programme.
  struct corner_point {
    int64_t ticks;
    double cost_j;
  };

  operation operation_of(const std::vector<clock_row>& rows) const;
  const operation& of(size_t node) const;
  /// The corners of an operation, at a pass's prices.
  std::vector<time_cost_flow::corner> corners_of(size_t node, size_t pass) const;
  /// Everything at its longest. The first pass is the programme as it is.
  void begin(size_t pass);
  std::vector<node_times> times() const;
  void note_corner(const std::vector<node_times>& times);
  /// Points no longer than `most_ticks`, from the times that the programme gives to operations.
  void realize(const std::vector<node_times>& times, int64_t most_ticks);
  double bound_at(double ticks) const;

  clock_profile profile_;
  double blocking_w_;
  pipeline_dag dag_;
  double tick_s_ = 0;
  std::vector<operation> operations_;
  size_t passes_ = 0;
  std::vector<time_cost_flow::corner> dependency_ = {{0, time_cost_flow::no_bound}};
  std::optional<clock_rounding> rounding_;
  int64_t longest_ = 0, shortest_ = 0;
  std::vector<corner_point> curve_;
  std::vector<frontier_point> found_;
  // Of a pass.
  size_t pass_ = 0;
  std::vector<std::vector<time_cost_flow::corner>> corners_;  ///< by node
  std::optional<time_cost_flow> flow_;
  int64_t realized_ = 0;
  std::vector<node_times> before_;  ///< of the corner before
};

}  // namespace troupe::power
