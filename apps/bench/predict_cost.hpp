// `troupe bench predict`, cost: what the predictor takes of a run, and of a head of many ranks.
//
// A small job is run with `predict.enabled` and without it, in turn, and the times of its steps are
// held against each other. And made-up steps of 12,288 ranks are given to what holds each part
// against what it was, and to what learns of them (apps/sim_expecting.hpp): processor time of a
// step, memory of a rank.
//
// Invariants
//   BPC-1  Rounds are interleaved: each runs the job both ways, and the next begins with the other.
//     A ratio is of a round's two medians.
//   BPC-2  Losses are compared as doubles, each of them, with and without: all are to be the same.
//     Timing decides nothing but rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/power_job.hpp"
#include "apps/sim_expecting.hpp"
#include "io/base/rank_grid.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::predict_bench {

struct cost_plan {
  std::filesystem::path folder;   ///< for the job, marked as scratch
  std::vector<std::string> sets;  ///< KEY=VALUE, of all jobs
  int steps = 60;
  int rounds = 5;
  int ranks = 12'288;                       ///< of the head's job, a sixteenth of them a stage
  int head_steps = 100;                     ///< that are held against what was
  int learned_steps = 400;                  ///< that are learned from: some ranks of each
  const std::atomic<bool>* stop = nullptr;  ///< a person interrupts
};

struct cost_run {
  std::vector<double> step_ms;  ///< without the first ones, which warm up
  power_bench::live_losses losses;
};

struct cost_measurement {
  std::vector<cost_run> with, without;  ///< by round
  rank_grid grid;
  uint64_t head_steps = 0, learned_steps = 0;
  expecting_cost expecting;
  learning_cost learning;
};

/// What is aimed at: steps 1.005 times as long as without, at most (the median of rounds); 4 KiB a
/// rank for both together. Losses that differ are no aim missed, but a fault.
struct cost_verdict {
  double ratio = 0;
  bool same_bits = true;
  std::vector<std::string> missed;
  bool met() const { return missed.empty() && same_bits; }
};
cost_verdict verdict_of(const cost_measurement& m);

/// Errors: usage for too few steps; unavailable where a job does not train; cancelled.
result<cost_measurement> measure_cost(const cost_plan& plan);

std::string text_of(const cost_measurement& m);
nlohmann::ordered_json json_of(const cost_measurement& m);

}  // namespace troupe::apps::predict_bench
