// What it costs a head to hold each part of each rank's step against what it was
// (actors/health/blame_policy.hpp), and to learn what they take
// (actors/predict/learning_policy.hpp), for `troupe sim --scale` and `troupe bench predict`.
//
// Clusters of `troupe sim --scale` have neither monitor nor predictor, which others have by options
// of theirs. So steps of as many ranks are made up here, of a rank in the middle of a pipeline with
// replicas, and given to the policies as their actors give them, from the message on: to learn
// from, no more ranks of a step than a run tells of. Making up and sending them is not counted.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "io/base/rank_grid.hpp"

namespace troupe::apps {

/// Of all steps, and of one rank.
struct expecting_cost {
  double cpu_s = 0;
  uint64_t bytes_per_rank = 0;  ///< at most, of the heap; 0: it does not say (a sanitizer's)
  bool operator==(const expecting_cost&) const = default;
};

expecting_cost cost_of_expecting(const rank_grid& grid, uint64_t steps);

/// Of all steps, and of one rank; what is learned of a step is of some ranks in turn.
struct learning_cost {
  double hear_s = 0, fit_s = 0;  ///< processor time
  uint64_t samples = 0, fits = 0;
  uint64_t bytes_per_rank = 0;  ///< as of expecting_cost
  bool operator==(const learning_cost&) const = default;

  double cpu_s() const { return hear_s + fit_s; }
};

/// A model that is due is fitted after a step, as the predictor does it.
learning_cost cost_of_learning(const rank_grid& grid, uint64_t steps);

/// `without_s`: processor time of all else.
std::string expecting_text(const expecting_cost& cost, double without_s);
nlohmann::ordered_json expecting_json(const expecting_cost& cost, double without_s);
std::string learning_text(const learning_cost& cost, double without_s);
nlohmann::ordered_json learning_json(const learning_cost& cost, double without_s);

}  // namespace troupe::apps
