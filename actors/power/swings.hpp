// What a training job's watts do to those who feed it, and what would smooth them, cheapest first.
//
// A synchronous job idles all at once when it saves, validates or stops, and works all at once
// again: megawatts within seconds, at frequencies that turbines and breakers mind (Choukse et al.,
// arXiv 2508.14318: 0.1 to 20 Hz). From a trace of watts is told how far it falls and rises within
// two seconds, its range, and the share of its variance in that band; and what each remedy makes of
// the trace and costs:
//
//   asynchronous  saves beside the steps (lazy checkpoints): the dips are not there
//   ramped        starts, stops and resumes at a bounded slope, by the pace of steps
//   phase         jobs beside each other do not dip at the same time
//   filler        devices that would idle compute nothing useful, down to a floor, falling slowly
//
// Pure.
//
// Invariants
//   SWG-1  What sampling cannot see is not said: a fall within two seconds wants samples a second
//     apart at most, the band some part of it below half the sampling rate.
//   SWG-2  Ramped watts are never above the trace's, filled ones never below. From one sample to
//     the next ramped ones change by no more than the bounded slope or the trace itself does, where
//     it works; filled ones fall by no more than the slope.
//   SWG-3  Filler is taken last, and only within its ceiling of energy.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/power/spectrum.hpp"
#include "io/base/result.hpp"

namespace troupe::power {

/// All shares are of `tdp_w`.
struct swing_rules {
  double tdp_w = 0;          ///< what the devices may draw at most
  double most_swing = 0.10;  ///< within `window_s`, up or down: what is wanted
  double ramp_per_s = 0.04;  ///< of slopes that are bounded: less than allowed, work is uneven
  double floor = 0.75;       ///< of filler
  double most_filler_cost = 0.05;  ///< energy more, of the trace's own
  double longest_save_s = 120;     ///< a longer dip is a wait of another kind, which nothing saves
  int jobs = 2;                    ///< that share a feed, of phase

  double wanted_w() const { return most_swing * tdp_w; }

  static constexpr double window_s = 2, from_hz = 0.1, to_hz = 20;
  static constexpr int most_jobs = 64;
};
/// Errors: usage.
status check(const swing_rules& rules);

/// How much a trace moves.
struct swings {
  double least_w = 0, most_w = 0, mean_w = 0;
  double ramp_w_per_s = 0;               ///< the steepest between two samples, up or down
  std::optional<double> fall_w, rise_w;  ///< the greatest within window_s (SWG-1)
  size_t beyond = 0;                     ///< how often one of them is more than what is wanted
  std::optional<band_share> band;

  /// The greater of both; nothing where they cannot be seen.
  std::optional<double> swing_w() const {
    return fall_w && rise_w ? std::optional(*fall_w > *rise_w ? *fall_w : *rise_w) : std::nullopt;
  }
};
/// `wanted_w`: what `beyond` counts by.
swings swings_of(std::span<const double> watts, double step_s, double wanted_w);

/// A stretch of samples in which a job idles: below half of the watts that it has a tenth of the
/// time or more, up to where it works again.
struct dip {
  size_t from = 0, to = 0;
  bool empty() const { return from == to; }
};
struct dips {
  std::vector<dip> inner;  ///< in the midst of work: saves, validations, waits
  dip begin, end;          ///< the trace begins, or ends, idle
  double time_share = 0;   ///< of inner ones, of the whole trace
  double median_s = 0;
};
dips dips_of(std::span<const double> watts, double step_s);

/// What the devices draw while they idle: the mean of dips, begin and end; where the trace has none
/// of them its least.
double idle_level_of(std::span<const double> watts, double step_s);

enum class remedy : uint8_t { asynchronous, ramped, phase, filler };
inline constexpr std::array<std::string_view, 4> remedy_names = {"asynchronous", "ramped", "phase",
                                                                 "filler"};

/// A trace after a remedy, and what that costs.
struct remedied {
  std::vector<double> watts;
  swings now;
  double slower = 0;       ///< time that the same work takes, over the trace's, less 1
  double more_energy = 0;  ///< of the same work, over the trace's, less 1
};
remedied apply(remedy how, std::span<const double> watts, double step_s, const swing_rules& rules);

/// What is to be done.
struct swing_plan {
  swings before;
  dips idle;
  std::array<remedied, 4> alone;  ///< by remedy
  /// Remedies in their order, until what is wanted is kept; each only if swings become fewer or the
  /// greatest becomes less.
  std::vector<remedy> wanted;
  remedied together;  ///< with those; the trace itself where nothing is to be done
  bool kept = false;  ///< whether that keeps most_swing; never where swings cannot be seen
};
swing_plan plan_swings(std::span<const double> watts, double step_s, const swing_rules& rules);

/// Energy that filler adds, over the trace's own, less 1: of a distribution of watts, as pairs of
/// a share of the time and the watts that are not exceeded in it (both rise), and its mean. Between
/// them watts rise evenly, so it is as good as the quantiles are close where the floor lies; the
/// slope of falls is left out. Never below 0.
double filler_cost(std::span<const std::pair<double, double>> quantiles, double mean_w,
                   double floor_w);

}  // namespace troupe::power
