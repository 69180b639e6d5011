// `troupe bench predict`, here: how well step times of small jobs are foretold on this machine,
// each by the runs of all others.
//
// Configurations are drawn: layers, width, batch, length and replicas of small models on the host's
// processors. Each is run as a person would run it, with a cache folder of its own, in which the
// program remembers its runs as always (apps/past_steps.hpp). What a run took is then asked of the
// product's own estimate by the lines of the others, beside the FLOP at the others' median rate
// (the roofline times one constant), and the rate of the nearest other.
//
// Invariants
//   BPX-1  No way is told anything of the run that it is asked about.
//   BPX-2  All configurations are unlike each other; the same seed draws the same ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/base/result.hpp"
#include "io/perf/past_runs.hpp"

namespace troupe::apps::predict_bench {

struct here_plan {
  std::filesystem::path folder;   ///< for the jobs, marked as scratch
  std::vector<std::string> sets;  ///< KEY=VALUE, of all jobs
  int configurations = 32;
  int steps = 40;
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;  ///< a person interrupts
};

struct here_configuration {
  int layers = 1, hidden = 64, batch = 1, seq_len = 32, replicas = 1;
  auto operator<=>(const here_configuration&) const = default;
};
/// BPX-2: at most as many as there are.
std::vector<here_configuration> here_configurations(int count, uint64_t seed);

/// What each way says of a run, in seconds of a step.
struct here_foretold {
  double came_s = 0;
  std::optional<io::perf::past_estimate> ours;  ///< nothing: no other run is near enough
  double roofline_s = 0, nearest_s = 0;
};
/// BPX-1. By run; of fewer than two nothing.
std::vector<here_foretold> foretell_each(std::span<const io::perf::past_run> runs);

struct here_measurement {
  std::vector<here_configuration> configurations;
  std::vector<here_foretold> runs;
};

/// Medians of |foretold / came - 1|, in percent; a run of which nothing is said counts as wholly
/// off. What is aimed at: 8 %.
struct here_verdict {
  double ours = 0, roofline = 0, nearest = 0;
  double held = 0;  ///< percent of runs within their interval
  size_t unsaid = 0;
  bool met() const;
};
here_verdict verdict_of(const here_measurement& m);

/// Errors: unavailable where a job does not train or is not remembered; cancelled.
result<here_measurement> measure_here(const here_plan& plan);

std::string text_of(const here_measurement& m);
nlohmann::ordered_json json_of(const here_measurement& m);

}  // namespace troupe::apps::predict_bench
