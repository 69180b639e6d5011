// `troupe bench power`, shared: two jobs on this machine under one power budget, which
// `troupe power serve` holds, watched from outside.
//
// What counts of the budget is the time of the jobs' own processes, by /proc. Jobs (power_pair.hpp)
// train until they have been watched for long enough, from when both have made a step: then both
// have had their first leases, and are hungry to the end.
//
// Invariants
//   BPS-1  Rounds are interleaved as those of one job are (BPL-1), and one that others disturbed is
//     shown, and not held against an aim (BPL-3).
//   BPS-4  Where the first round without a budget has too little of the machine for budgets, and
//     so has another try, it ends (other_work.hpp).
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/bench/draw_trace.hpp"
#include "apps/bench/other_work.hpp"
#include "apps/bench/power_pair.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

enum class shared_way : uint8_t {
  free,   ///< no budget is above the jobs
  equal,  ///< both are of one class
  prior,  ///< the first is of high priority, and the other has something to give
};
struct shared_way_info {
  shared_way way;
  std::string_view id, about;
  double budget_of;  ///< what both keep busy without one; 0: there is none
};
inline constexpr shared_way_info shared_ways[]{
    {shared_way::free, "free", "no budget", 0},
    {shared_way::equal, "equal", "both of low priority, under half of what they draw without one",
     0.5},
    {shared_way::prior, "prior",
     "the first of high priority, under three quarters of that: the other one gives", 0.75},
};

struct shared_plan : pair_plan {
  int rounds = 3;
  double seconds = 60;  ///< that both jobs are watched
};

/// First leases and paces are found out in so many seconds after both jobs have made a step.
inline constexpr double leases_settle_s = 20;

/// Two jobs in a way, from the start to the end.
struct shared_run {
  /// Of each job, once leases have settled: the median.
  std::array<std::optional<double>, job_count> step_ms;
  double processors = 0;  ///< that both keep busy, mean over the time they were watched
  double others = 0;      ///< that neither they nor what holds the budget kept busy, nor we
  /// As shares of the budget's processors, once leases have settled: the mean, and the most of any
  /// stretch of window_s.
  std::optional<double> mean_share, most_share;
  std::vector<busy_process> busiest = {};  ///< of the others, without a budget
  bool same_bits = true;
  bool disturbed() const;
};

/// Of a way, over all rounds.
struct shared_row {
  shared_way way;
  std::vector<shared_run> rounds;
};

struct shared_measurement {
  double free_processors = 0;    ///< what both keep busy without a budget, by the first round
  std::vector<shared_row> rows;  ///< one for each way, in their order
};

/// Errors: unavailable where the machine measures its watts, or a job or the budget ends by itself;
/// too_little_free; timeout where a job gets no watts; cancelled.
result<shared_measurement> measure_shared(const shared_plan& plan);

/// Of what `jobs` saw of both between two times, under a budget of so many processors.
void judge_shared(const draw_trace& jobs, double begin_s, double end_s, double processors,
                  shared_run& into);

}  // namespace troupe::apps::power_bench
