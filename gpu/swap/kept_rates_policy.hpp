// What a drive keeps of the rates that were measured of it, by what steps have moved since: one
// that others use, or whose cache is full, gives a part of them for minutes or hours, and a limit
// that is made of its best rates says nothing then (docs/swap.md).
//
// Pure. Of each step it is known how many bytes were read and written, and how long the streams
// that did so were busy. Both share the drive: of a time T that it needs for all of a step by the
// measured rates, reads and writes that go on all the while take T each. So what they take longer
// is what the drive has lost, and what they take less tells nothing.
//
// Invariants
//   KRT-1  The rates are never above those that were measured.
//   KRT-2  By the rates that a step shows the drive needs no longer than its streams were busy, so
//     a limit made of them is none that the step went below. One made of rates in use is longer
//     than the slowest of the last steps took by less than `worth_it`, if at all.
//   KRT-3  Rates change where the last `steps_in_a_row` steps differ from those in use by more than
//     `worth_it`, all in the same direction; to what is nearest to them of these steps. A rise
//     above which no step could show so much more goes to all that was measured.
//   KRT-4  Steps that the drive does not bound, by the rates in use, tell nothing of it; unless it
//     is known to have been busy for `all_the_while` of the step, whatever it should have needed.
#pragma once

#include <optional>
#include <vector>

#include "gpu/swap/limit_model.hpp"

namespace troupe::gpu {

/// What a step moved, and for how long: of several ranks that share drives all bytes, and a rank's
/// mean time. Nothing but doubles, which ranks sum up as they are.
struct step_moves {
  double read_bytes = 0, written_bytes = 0;
  double read_s = 0, write_s = 0;  ///< that operations of one kind took, which took the longest
  double step_s = 0;
  double busy_s = 0;  ///< that any of its operations was under way; 0: not known
  double untold = 0;  ///< ranks to which the step tells nothing of their drives

  step_moves& operator+=(const step_moves& other);
  /// What so many ranks summed up becomes theirs.
  void settle_sum(int ranks);
};

class kept_rates_policy {
 public:
  static constexpr size_t steps_in_a_row = 3;
  static constexpr double worth_it = 1.0 / 3;  ///< of the rate in use
  static constexpr double all_the_while = 0.9;

  explicit kept_rates_policy(const machine_rates& measured) : measured_(measured) {}

  /// In use: those measured, with what the drive keeps of its own.
  machine_rates rates() const;
  bool keeps_all() const { return kept_.read == 1 && kept_.write == 1; }

  /// A step was made, which does `work`. True: other rates are in use from now on.
  bool stepped(const phase_work& work, const step_moves& moved);

 private:
  /// Of the measured rates, 0 to 1.
  struct shares {
    double read = 1, write = 1;
  };

  bool bounds(const phase_work& work, const step_moves& moved) const;
  shares shown_by(const step_moves& moved) const;
  double next(double shares::*of) const;

  machine_rates measured_;
  shares kept_;
  std::vector<shares> last_;  ///< of the last steps that count, the newest last
};

}  // namespace troupe::gpu
