// `troupe bench power`, live: a job on this machine under a power budget, watched from outside.
//
// The job is two ranks of a thread each. Where a machine's watts are modelled a budget is one of
// busy processors, which are counted here beside the job (draw_trace.hpp): of the whole machine,
// since a budget is for the breaker, whoever draws. A machine that measures its watts is left out.
//
// Invariants
//   BPL-1  Rounds are interleaved: each does every way, each beginning with another one, so that
//     neither what a machine becomes nor what ran before hits one of them alone.
//   BPL-2  Losses are compared as doubles, each of them, with those of the first run without a
//     budget. Timing decides nothing but rows.
//   BPL-3  A round in which others took more than most_others of a processor is told, and not held
//     against the aims: a budget is for the machine, and nobody foresees what others begin.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/draw_trace.hpp"
#include "apps/bench/power_job.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

enum class budget_way : uint8_t {
  none,   ///< the job has no budget
  wide,   ///< one that never binds
  tight,  ///< one that binds all the time
  cut,    ///< a wide one, which a person makes a tight one while steps are made
};
struct budget_way_info {
  budget_way way;
  std::string_view id, about;
};
inline constexpr budget_way_info budget_ways[]{
    {budget_way::none, "none", "no budget"},
    {budget_way::wide, "wide", "a budget that never binds: what it costs to have one"},
    {budget_way::tight, "tight",
     "half of what the job draws beyond the idle machine, from the start"},
    {budget_way::cut, "cut", "a wide one, made a tight one at the console in the midst of steps"},
};

struct live_plan {
  std::filesystem::path folder;   ///< for the job, marked as scratch
  std::vector<std::string> sets;  ///< KEY=VALUE, of all jobs
  int rounds = 3;
  int steps = 150;
  std::vector<std::string> ways;            ///< only these, and `none`; empty: all
  const std::atomic<bool>* stop = nullptr;  ///< a person interrupts
};

/// BPL-3.
inline constexpr double most_others = 0.03;

/// One job from its start to its end.
struct live_run {
  std::vector<double> step_ms;  ///< without the first, which warms up
  live_losses losses;
  double processors = 0;  ///< busy, mean over its steps
  double others = 0;      ///< of them those of other work than the job's
  bool disturbed() const { return others > most_others; }
  /// As shares of the budget's processors: of tight once its pace has settled (settling_s), of cut
  /// once the draw is kept.
  std::optional<double> mean_share, most_share;
  /// Of cut: from the command on, until a stretch of window_s begins that is kept.
  std::optional<double> held_after_s;
};

/// Of a way, over all rounds.
struct live_row {
  budget_way way;
  std::vector<live_run> rounds;
  /// Rounds whose every loss is that of the job without a budget.
  int same_bits = 0;
};

struct live_measurement {
  double budget_processors = 0;  ///< what tight may keep busy
  std::vector<live_row> rows;    ///< one for each way
};

/// The pace is found out in the first seconds; a stretch of so many seconds is held to the budget.
inline constexpr double settling_s = 12, window_s = 10;
/// What is still kept: the bar of every stretch.
inline constexpr double most_share = 1.02;

/// Errors: unavailable where a tight budget is to be judged and the machine measures its watts,
/// where the job does not train, or where there are too few steps to judge a stretch; cancelled.
result<live_measurement> measure_live(const live_plan& plan);

/// Whether so many seconds under a tight budget are enough to judge it. Errors: unavailable.
status check_length(budget_way way, int steps, double seconds);

/// Of what `seen` saw between `begin_s` and `end_s` of a job that may keep `processors` busy.
void judge_tight(const draw_trace& seen, double begin_s, double end_s, double processors,
                 live_run& into);
/// The same of one that was told so at `cut_s`.
void judge_cut(const draw_trace& seen, double cut_s, double end_s, double processors,
               live_run& into);

}  // namespace troupe::apps::power_bench
