// `troupe bench predict`, blame: how soon who got slow is found, and how often somebody is named
// who did not (actors/health/blame_policy.hpp).
//
// Steps of a small cluster are made up, of two stages with unlike work and a node a rank, whose
// times are noisy by 2 %, without and with a tail: one part in a hundred takes half as long again.
// Once its normal is known a part of a rank takes a tenth longer, and is waited for; on clusters
// where nothing ever happens, whoever is named is a false alarm. Nothing of it is a time of this
// machine: the same seed gives the same numbers anywhere.
//
// Invariants
//   BPB-1  A case counts as right where, at the step at which anything is first found, the rank and
//     the part that got slower are named, as slow, and nothing else is. One in which nothing is
//     found, or something before there is anything to find, does not.
//   BPB-2  An alarm is counted once, when it begins, however long it lasts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace troupe::apps::predict_bench {

struct blame_plan {
  int cases = 200;                ///< of each kind of noise, in which somebody gets slow
  uint64_t node_steps = 100'000;  ///< of each kind of noise, in which nobody does
  uint64_t seed = 1;
  double slower = 0.10;  ///< by so much
  double noise = 0.02;   ///< a deviation
  double tail = 0.01;    ///< of the noise with one: parts that take half as long again
};

/// Of one kind of noise.
struct blame_row {
  double tail = 0;  ///< the share of parts that take half as long again
  int cases = 0;
  std::vector<double> steps;  ///< until somebody was named, of each case in which one was
  int right = 0;              ///< cases (BPB-1)
  uint64_t node_steps = 0;
  uint64_t alarms = 0;  ///< false ones (BPB-2)

  double right_percent() const { return cases == 0 ? 0 : 100.0 * right / cases; }
};

struct blame_measurement {
  blame_plan plan;
  std::vector<blame_row> rows;  ///< without a tail, with one
};

/// What is aimed at: whoever is a tenth slower is found within 20 steps, in each case; at most one
/// false alarm in 100,000 steps of nodes; the right one, with its part, in 99 of 100 cases.
struct blame_verdict {
  std::vector<std::string> missed;  ///< a line each; empty: all are met
  bool met() const { return missed.empty(); }
};
blame_verdict verdict_of(const blame_measurement& m);

blame_measurement measure_blame(const blame_plan& plan);

std::string text_of(const blame_measurement& m);
nlohmann::ordered_json json_of(const blame_measurement& m);

}  // namespace troupe::apps::predict_bench
