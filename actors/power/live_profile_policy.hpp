// What clocks cost a job, measured by its own first steps: which rank has which clock in which
// step, when that is enough, and the profile that comes out (clock_profile.hpp).
//
// A trial is some steps in which each replica of the pipeline has one clock for all its operations.
// In the first one all have their highest clock. In each later one replicas that share no machine
// have the next clocks of the ladder, one each, so that more replicas take fewer trials. What a
// rank takes and draws there is told by what the same rank took and drew in the first trial, of
// which the middle of all replicas of the stage is the row of the highest clock: devices are
// unlike, and clocks are all that may make a row differ from another.
//
// The time of an operation is the middle one of its steps. Meters say joules of a machine, and not
// of an operation: of what it uses in a trial blocking_w is taken off for the time in which its
// ranks wait, and the rest is spread evenly over the time in which they compute.
//
// Invariants
//   LPP-1  A step counts in the trial whose clocks its ranks had alone, behind those in which
//     clocks settle; one under a pace, a brake or late clocks does not, nor do joules of the time
//     between two steps that do not follow each other: a validation, a pause, a recovery.
//   LPP-2  A row has `least_steps` steps, joules of `energy_s` at least, and times whose middle
//     half lies within `uneven` of the middle one. Where a clock has no such row by the end of its
//     trial it is left out; without a row of the highest clock nothing is measured.
//   LPP-3  There is a last step: of a stage `clocks` clocks are tried at most, and a trial ends
//     behind `tried_steps` steps and `tried_s` seconds, whatever it has. Lower clocks at which
//     ranks have begun anew more than `most_cuts` times are not tried, nor any below: a step may
//     take longer there than is waited for, again and again.
//   LPP-4  Ranks on one machine have one clock of the ladder: its joules are told apart by nothing.
//     Where ranks are on other machines than in the first trial, all of it begins anew: what they
//     took there says nothing of them. Behind `most_moves` of that nothing is measured (LPP-3).
//   LPP-5  What comes out is a profile as a file may hold it (PCL-2), with each stage's highest
//     clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "actors/power/clock_profile.hpp"

namespace troupe::power {

struct live_profile_terms {
  size_t clocks = 8;       ///< of a stage, tried at most
  double lowest = 0.5;     ///< of the highest clock: lower ones are not tried
  int settling_steps = 1;  ///< in which clocks are set
  double settling_s = 0.2;
  int least_steps = 5;
  double energy_s = 3;
  double uneven = 0.1;
  int most_cuts = 2;   ///< of one trial
  int most_moves = 3;  ///< of all
  int tried_steps = 60;
  double tried_s = 60;
};

/// Those of a device's clocks that are tried, highest first: evenly among them.
std::vector<int> tried_clocks(std::vector<int> all_mhz, const live_profile_terms& terms);

/// What a rank has shown in a step.
struct rank_sample {
  size_t stage = 0, replica = 0;
  std::optional<size_t> machine = {};    ///< none: nothing says what it draws
  double forward_s = 0, backward_s = 0;  ///< of one micro-batch
  double busy_s = 0;                     ///< of the whole step
};

struct trial_step {
  uint64_t trial = 0;  ///< whose clocks it had; 0: none's
  int64_t ended_ns = 0;
  double step_s = 0;
  bool counts = true;                  ///< no pace, brake or late clock was in it
  std::span<const rank_sample> ranks;  ///< in the order of their numbers
};

class live_profile_policy {
 public:
  enum class state : uint8_t { measuring, measured, failed };
  enum class failure : uint8_t {
    none,
    no_watts,   ///< of a machine no joules were heard, or such as no device uses
    seldom,     ///< too few of them within a trial
    uneven,     ///< steps are too few, or too unlike each other
    cut_short,  ///< at lower clocks ranks began anew each time
    moved       ///< ranks came to other machines again and again
  };

  /// `ladders`: of each stage, a clock at least, highest first; one replica at least.
  live_profile_policy(std::vector<std::vector<int>> ladders, size_t replicas, double blocking_w,
                      const live_profile_terms& terms = {});

  state now() const noexcept { return state_; }
  failure why() const noexcept { return failure_; }
  /// Which trial is made, from 1; each time that one begins again it is another one.
  uint64_t trial() const noexcept { return trial_; }
  /// Whether some replica has another clock than its highest in it.
  bool is_lowered() const noexcept { return state_ == state::measuring && !is_first(); }
  /// In MHz.
  int clock_of(size_t stage, size_t replica) const;

  /// A machine has used so much since some beginning.
  void hear(size_t machine, double energy_j, bool modelled, int64_t at_ns);
  void step(const trial_step& step);
  /// Ranks have begun anew: so does the trial that was made. `at_its_clocks`: they had its clocks,
  /// or were to have them. LPP-3
  void begin_again(bool at_its_clocks = true);

  /// Steps of all trials that are behind it, and how many there will be, as far as that is known.
  size_t steps_made() const;
  size_t steps_in_all() const { return trials() * steps_of_trial(); }
  /// Once it is measured. LPP-5
  const clock_profile& profile() const { return profile_; }
  /// Whether what was heard of a machine was calculated.
  bool is_modelled() const noexcept { return modelled_; }

 private:
  struct reading {
    int64_t at_ns = 0;
    double energy_j = 0;
  };
  struct used_energy {
    double s = 0, j = 0;
  };
  struct machine_use {
    std::optional<reading> latest, first, last;  ///< the last two: of the piece that is measured
    used_energy before;                          ///< in the pieces before
  };
  struct rank_series {
    rank_sample who;
    std::vector<double> forward_s, backward_s, busy_s;
  };
  struct found_cost {
    double forward_s = 0, backward_s = 0, watts = 0;
  };
  struct rank_place {
    size_t stage = 0, replica = 0;
    std::optional<size_t> machine;
    bool operator==(const rank_place&) const = default;
  };

  size_t levels() const;
  size_t trials() const { return 1 + (levels() - 1 + lanes_ - 1) / lanes_; }
  size_t steps_of_trial() const;
  size_t level_of(size_t replica) const;
  bool is_first() const noexcept { return of_ladder_ == 0; }
  bool are_placed_as_first(std::span<const rank_sample> ranks) const;
  void begin_trial();
  void begin_anew();
  bool settles(const trial_step& step);
  void open_piece(const trial_step& step);
  void close_piece();
  void add(const trial_step& step, double with_gap_s);
  used_energy use_of(size_t machine) const;
  bool is_heard_seldom(size_t machine) const;
  std::map<size_t, double> watts() const;
  bool is_even(std::vector<double> times) const;
  std::optional<found_cost> cost_of(const rank_series& r,
                                    const std::map<size_t, double>& watts) const;
  bool is_looked_at();
  bool is_whole() const;
  void end_trial();
  void keep_highest(const std::vector<std::optional<found_cost>>& costs);
  void keep_rows(const std::vector<std::optional<found_cost>>& costs);
  void divide_into_lanes();
  void finish();
  void put_rows(size_t stage);
  void fail();
  void fail(failure why);

  const std::vector<std::vector<int>> ladders_;
  const size_t replicas_;
  const double blocking_w_;
  const live_profile_terms terms_;
  state state_ = state::measuring;
  failure failure_ = failure::none;
  uint64_t trial_ = 1;
  size_t of_ladder_ = 0;         ///< which trial of all it is; 0: at the highest clocks
  std::vector<size_t> lane_of_;  ///< of replicas; those of one share machines. LPP-4
  size_t lanes_ = 1;
  bool modelled_ = false;
  // Of the trial.
  int settled_ = 0, tried_ = 0, cuts_ = 0;
  size_t next_look_ = 0;                        ///< at so many steps that count
  std::optional<int64_t> begun_ns_, ended_ns_;  ///< of the last step that counts
  double step_s_ = 0, counted_s_ = 0;
  bool is_open_ = false;  ///< a piece is measured
  int64_t piece_ns_ = 0;
  std::vector<rank_series> ranks_;
  std::map<size_t, machine_use> machines_;
  // Of all.
  int moves_ = 0;
  std::vector<rank_place> places_;                          ///< of each rank, in the first trial
  std::vector<found_cost> highest_;                         ///< of each rank
  std::vector<std::vector<std::vector<found_cost>>> rows_;  ///< by stage and level
  clock_profile profile_;
};

/// For a person.
std::string_view in_words(live_profile_policy::failure why);

}  // namespace troupe::power
