// How fast a job may work so that what its machines draw stays within its budget.
//
// A job's draw is what its machines draw without it and a part that follows its pace
// (work_pace_policy.hpp). Both are measured, never assumed: while steps are made at one pace the
// mean of the joules that meters say is held against the budget, and the next pace is the one that
// would have met it. So it does not matter how well the idle draw is known, nor what else a step
// does: a wrong guess is put right by the next look.
//
// Pure: it is told readings and steps, and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   JPP-1  No step begins before each machine has said what it draws, nor where least_pace would
//     draw more than the budget. The first pace is the one at which machines that work at their
//     limits would keep it, where they say those; else the least one.
//   JPP-2  A pace is judged by one stretch of steps that all had it: a whole step and least_window
//     at least. From one judgement to the next it rises four times at most, and by whole steps
//     alone: one that stands, for want of data or of a peer that has died, draws less and says
//     nothing of the next. Where one has taken more than twice the median, what was drawn is taken
//     to have been drawn in the rest of the stretch: no pace rises by what it stood. One that has
//     rested is no whole step, and until the next one has been made it draws what it drew before;
//     also one that began just before it was told to rest, and is told of behind that. The same
//     holds of one whose first operations are held back (phase_policy.hpp).
//   JPP-3  A reading that is missing is never a low one: a silent machine counts as if it worked at
//     its limit, and while one is silent the pace does not rise. A machine whose nodes are silent
//     for forgotten_after is none of the job's any more.
//   JPP-4  Nodes on one machine count once.
//   JPP-5  Without a budget nothing is held back.
//   JPP-6  No step begins at a pace that what is known by then forbids: a budget that has fallen
//     and a machine that has joined slow the next step before any was judged under them. A machine
//     that was not judged since ranks were given out counts as if it worked at its limit.
//   JPP-7  While it is held no step begins, whatever the budget is.
//   JPP-8  Of a machine on which other jobs work, too, the job's part counts
//     (machine_part_policy.hpp), from when that is told: not of what was read before.
//   JPP-9  Of work that is others', and goes on whatever is decided, a step is a look. Until one
//     stretch of them was judged the pace is the one in force, and they are judged without a
//     budget, too, so that the first one finds known what is drawn. A stretch is the least window,
//     no longer: that work changes as it likes.
//   JPP-10  Where a ramp is set the pace rises no faster than that (ramp_policy.hpp), from no steps
//     at all where none are made, also where ranks are given out anew, and without a budget, too.
//     What a step that has rested goes on with is the pace that it began with, at once. Where one
//     machine at least says no limit it rises to twice the pace that was judged last at most, until
//     steps at a quarter of full speed or more were judged that drew more than none do.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "actors/power/machine_part_policy.hpp"
#include "actors/power/ramp_policy.hpp"
#include "actors/train/work_pace_policy.hpp"

namespace troupe::power {

using train::machine_draw;
using train::work_pace;
using train::work_pace_policy;

/// What a machine's meters say.
struct power_reading {
  double power_w = -1;   ///< -1: not known
  double energy_j = -1;  ///< since some moment; -1: not known
  bool modelled = false;
  int64_t read_ns = 0;
  int64_t interval_ns = 0;  ///< to the next one
  double limit_w = -1;      ///< what it can draw at most; -1: not known
  /// Processor time since the reading before, in seconds a second; -1: not known.
  double process_busy = -1;  ///< of the node's own process
  double machine_busy = -1;  ///< of all
};

class job_pace_policy {
 public:
  static constexpr int64_t least_window_ns = 3'000'000'000;
  static constexpr int64_t whole_window_ns = 30'000'000'000;
  static constexpr int64_t forgotten_after_ns = 60'000'000'000;
  /// A machine may take so long to say what it draws before a person is told that it does not, and
  /// one that never has may be silent for so long.
  static constexpr int64_t first_reading_ns = 10'000'000'000;
  /// What is aimed at, of the budget: what varies stays below it.
  static constexpr double aim = 0.985;

  /// 0: none.
  void set_budget(double budget_w) { budget_w_ = budget_w; }
  /// A step takes the inverse of its pace, as by pauses, or by a clock or a limit of watts the root
  /// of that (setting_policy.hpp).
  void slows_by_root(bool by_root) { by_root_ = by_root; }
  /// The work is others' (machine_hold.hpp). JPP-9
  void watches_others(bool watches) { watches_ = watches; }
  /// By how much what is drawn may rise, in watts a second; 0: at once. JPP-10
  void set_ramp(double w_s) { ramp_.set_slope(w_s); }
  /// No step may begin, and why; empty: it is not held.
  void hold(std::string why) { held_ = std::move(why); }
  /// A node's heartbeat. `its_machine` empty: nothing says what its machine draws.
  void hear(const std::string& node, const std::string& its_machine, const power_reading& said,
            int64_t now_ns);
  /// Processor time since some moment of the job's head, which is no node's process, and of its
  /// machine; below 0: not known. JPP-8
  void hear_head(const std::string& its_machine, double process_s, double machine_s,
                 int64_t now_ns);
  /// How many jobs work on a machine, this one among them, of those that others work on. Whoever
  /// says so may have begun a moment ago: what is not named is kept for forgotten_after. JPP-8
  void set_shared(const std::map<std::string, uint32_t>& jobs, int64_t now_ns);
  /// Ranks were given out anew: who rested may work now.
  void ranks_changed(int64_t now_ns);
  /// A step begins at that pace, or still goes on at it; step 0: ranks are at none.
  void steps(uint64_t step, work_pace pace, int64_t now_ns);
  /// The first operations of the step that was told of last are held back: what is drawn meanwhile
  /// says nothing of its pace. JPP-2
  void begins_late();
  /// Ranks rest within their step, or may go on with it: what is drawn meanwhile says nothing of
  /// its pace. JPP-2
  void rest(bool rests, int64_t now_ns);

  struct verdict {
    work_pace pace;        ///< of the next step
    bool holds = false;    ///< no step may begin
    std::string why = {};  ///< that is; empty where it is only not known yet
    /// To which the pace rises by and by; none: it is what it is to be, or no step may begin.
    std::optional<work_pace> ramps_to = {};
    std::optional<int64_t> ramp_ns = {};  ///< how long that takes at least; none: it is not known
  };
  verdict decide(int64_t now_ns);

  /// Of all machines together.
  struct totals {
    double power_w = -1;    ///< -1: of one at least it is not known
    double mean_w = -1;  ///< the same of the time by which the next pace is judged, if it is known
    double energy_j = -1;   ///< since it was first told; -1: of one at least it is not known
    bool modelled = false;  ///< a part of it at least
    double idle_w = -1;     ///< the least that was seen
    double full_w = -1;     ///< at full speed, as far as is known; -1: none was judged yet
    double limit_w = -1;    ///< at most; -1: one at least says none
    int machines = 0;
    bool is_stale = false;  ///< of one at least nothing says what it draws now
  };
  totals sum(int64_t now_ns) const;
  /// Those that are known by more than a node's name.
  std::set<std::string> machines() const;
  double budget_w() const noexcept { return budget_w_; }
  /// What changed the pace last, and how, in a sentence; empty: nothing yet.
  const std::string& decided() const noexcept { return ramping_.empty() ? decided_ : ramping_; }

 private:
  struct machine {
    std::string node;  ///< whose meter is believed
    int64_t since_ns = 0, heard_ns = 0;
    std::optional<power_reading> last;  ///< whose power is known; the job's part
    double whole_w = 0, own = 1;        ///< what the machine drew then, and the job's work of all
    machine_part_policy part;
    int64_t shared_ns = std::numeric_limits<int64_t>::min() / 2;  ///< when it was last said to be
    double used_j = 0;  ///< by the job
    std::optional<double> counter_j;
    int64_t counter_ns = 0;
    std::optional<power_reading> first;  ///< of the window
    std::optional<double> drew_w;        ///< by the last judgement, as of the pace in force
    std::optional<double> rested_w;      ///< the same of the step that rests
    std::optional<double> judged_w;      ///< that it draws at full speed, by the last judgement
    bool worked = false;                 ///< and that was while it had the ranks it has
  };
  /// What one is taken to draw at full speed.
  enum class guess : uint8_t {
    most,   ///< for a pace: no less than it does
    least,  ///< for a hold: no step is made that could tell
  };
  enum class moment : uint8_t { step_begins, any };
  double own_part(const std::string& its_machine, int64_t read_ns) const;
  void add_energy(machine& m, const power_reading& said, double own) const;
  bool is_stale(const machine& m, int64_t now_ns) const;
  void forget(int64_t now_ns);
  bool is_judged(const machine& m, int64_t now_ns) const;
  int64_t window_ns(int64_t now_ns) const;
  static double mean_w(const machine& m);
  double drawn_w(const machine& m, bool is_window, int64_t now_ns) const;
  void judge_machines(moment when, int64_t now_ns);
  std::optional<double> full_w(guess how, int64_t now_ns) const;
  std::optional<work_pace> most_pace(int64_t now_ns) const;
  std::string what_counts(int64_t now_ns) const;
  bool is_work_known(const totals& all) const;
  std::optional<double> work_w(int64_t now_ns) const;
  work_pace most_of_ramp(int64_t now_ns) const;
  void ramp(verdict& wanted, int64_t now_ns);
  verdict wanted(int64_t now_ns);
  std::string cannot_be_kept() const;
  verdict at(work_pace next, const std::string& why, int64_t now_ns);
  verdict held_or_at(work_pace next, int64_t now_ns);
  void begin_window(int64_t now_ns);
  void begin_pace(work_pace now, int64_t now_ns);
  static void scale(machine& m, std::optional<double>& drew_w, work_pace from, work_pace to);
  void rest_in(uint64_t step, work_pace pace);
  double speed() const;
  void note_step(uint64_t next_step, int64_t now_ns);
  double at_work_w(const machine& m) const;
  void judge(moment when, int64_t now_ns);
  void change_to(work_pace next, int64_t now_ns);
  std::string silent(int64_t now_ns) const;
  std::string fresh() const;
  work_pace first_pace() const;
  work_pace next_pace() const;
  std::string unknown(int64_t now_ns) const;

  double budget_w_ = 0;
  bool by_root_ = false, watches_ = false;
  std::string held_;
  std::map<std::string, machine> machines_;
  /// By node that has said its machine.
  struct node_machine {
    std::string name;
    double own = 1;  ///< its part of the processor time
    int64_t read_ns = 0;
  };
  std::map<std::string, node_machine> machine_of_;
  node_machine head_{{}, 0, 0};
  double head_process_s_ = -1, head_machine_s_ = -1;  ///< when it was looked at last
  int64_t head_looked_ns_ = std::numeric_limits<int64_t>::min() / 2;
  work_pace judged_at_{0};         ///< by the last judgement; 0: there was none
  std::optional<work_pace> pace_;  ///< of the next step; none: none was judged yet
  work_pace told_{0};              ///< by the last verdict
  std::string decided_;
  ramp_policy ramp_;
  std::string ramping_;    ///< in words, while it does
  work_pace in_force_{0};  ///< 0: no steps are made
  uint64_t step_ = 0;      ///< that was begun last
  bool rests_ = false;
  std::optional<work_pace> rested_;  ///< of the step that rests, if one does
  uint64_t partial_ = 0;     ///< the step that goes on after a rest, or began late; 0: none does
  bool began_late_ = false;  ///< that one did, and what is drawn in it is of no window
  uint64_t begun_ = 0;     ///< steps of the window
  int64_t step_begun_ns_ = 0;
  std::deque<double> took_s_;  ///< the last steps, as if at full speed
  double stood_s_ = 0;         ///< of the window: what long steps took above the median
  int64_t window_begun_ns_ = 0;
  double gone_j_ = 0;                         ///< of machines that are forgotten
  std::optional<int64_t> held_since_ns_;      ///< since the slowest steps want too much
  int64_t tried_again_ns_ = 600'000'000'000;  ///< after which such a step is made once more
};

}  // namespace troupe::power
