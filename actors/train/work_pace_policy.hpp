// How fast a job may work under its caps: one factor for every operation of every rank.
//
// Training is synchronous: one slow rank makes all others wait, so a cap on one machine is a pace
// for the whole job. Every operation is stretched by the same factor, and the schedule keeps its
// shape. The actuator is a gate: an operation that was ready waits until the one before has had its
// stretched time. Nobody is slowed while it runs, so no rights are needed; a watt that is drawn
// while nothing runs cannot be saved.
//
// Pure.
//
// Invariants
//   PWR-4  All ranks of a job take a pace at one step boundary, the tightest of its machines; what
//     a machine then cannot use it does not ask for.
//   WPC-1  A pace is from `least_pace` to 1; what is measured under a pace is taken back to what
//     the work draws without one, so that a paced job does not look like a small one.
//   WPC-2  Waiting earns nothing: who came late to its gate does not hurry afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace troupe::train {

/// A share of the speed, in 1/1024: whole numbers, so that all ranks stretch alike.
struct work_pace {
  static constexpr int whole = 1024;
  int of_1024 = whole;
  auto operator<=>(const work_pace&) const = default;
  constexpr double share() const { return static_cast<double>(of_1024) / whole; }
};

/// One machine's part of a job.
struct machine_draw {
  int64_t idle_mw = 0;  ///< while no operation runs
  int64_t work_mw = 0;  ///< the mean of a step without a pace
  int64_t cap_mw = 0;   ///< granted
};

class work_pace_policy {
 public:
  /// Below it a step would take longer than anything waits for: then the job pauses.
  static constexpr work_pace least_pace{work_pace::whole / 20};

  /// What a machine draws without a pace, by the mean of a step with one. None: too little of the
  /// step was work to tell.
  static std::optional<int64_t> uncapped_mw(int64_t idle_mw, int64_t drawn_mw, work_pace pace);

  /// The pace of a job from its next step on. None: a machine's cap is below what `least_pace`
  /// draws; the job must pause.
  static std::optional<work_pace> pace_of(std::span<const machine_draw> machines);

  /// What a machine draws at a pace: what it wishes to be granted, and all it can use.
  static int64_t drawn_mw(const machine_draw& m, work_pace pace);

  /// When the next operation may begin after one that ran from `began_ns` to `ended_ns`.
  static int64_t gate_ns(int64_t began_ns, int64_t ended_ns, work_pace pace);
};

}  // namespace troupe::train
