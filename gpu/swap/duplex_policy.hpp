// Whether a drive reads and writes at once in the next step, or takes turns: which of them is
// quicker is the drive's affair, and no measurement of it alone tells (docs/swap.md).
//
// Pure. Now and then some steps are made in either way, two at a time, since what one leaves to be
// written is written in the next: the second of them counts. The choice changes no bit.
//
// Invariants
//   DPX-1  A trial is of `samples` pairs in each way, in turn, and `pause` steps lie between two.
//   DPX-2  Turns are taken where the median of their steps is shorter by more than `worth`.
//   DPX-3  A step whose time tells nothing is made again in the same way, `untold_steps` times in a
//          trial; then it ends, and what was taken before it is.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "io/base/median.hpp"

namespace troupe::gpu {

class duplex_policy {
 public:
  static constexpr size_t samples = 3;
  static constexpr int first = 2;  ///< steps before the first trial: moments are not read yet
  static constexpr int pause = 200;
  static constexpr int untold_steps = 12;
  static constexpr double worth = 1.02;

  /// Of the next step.
  bool mixes() const { return trial_ ? way() : mixes_; }

  /// The step last begun, or the next one, is made to compare ways.
  bool tries() const { return trial_; }

  /// It was made so. None: it was made otherwise than others, or beside something else.
  void made(std::optional<double> seconds) {
    if (!trial_) {
      if (--wait_ <= 0) begin();
      return;
    }
    if (!seconds) {
      half_ = 0;
      if (++untold_ > untold_steps) end();
      return;
    }
    if (half_++ == 0) return;
    half_ = 0;
    times_[way()].push_back(*seconds);
    if (++pairs_ < 2 * samples) return;
    const double turns = upper_median(times_[false]), mixed = upper_median(times_[true]);
    mixes_ = turns * worth >= mixed;
    end();
    decided_ = decision{mixed, turns};
  }

  /// Steps are made otherwise from now on: what was measured tells nothing of them.
  void changed() {
    trial_ = false;
    wait_ = first;
  }

  /// What the last trial has come to, once: medians of a step, seconds.
  struct decision {
    double mixed = 0, turns = 0;
  };
  std::optional<decision> decided() { return std::exchange(decided_, std::nullopt); }

 private:
  bool way() const { return pairs_ % 2 == 0 ? mixes_ : !mixes_; }
  void end() {
    trial_ = false;
    wait_ = pause;
  }
  void begin() {
    trial_ = true;
    pairs_ = 0;
    half_ = untold_ = 0;
    for (auto& t : times_) t.clear();
  }

  bool mixes_ = true, trial_ = false;
  int wait_ = first;
  size_t pairs_ = 0;
  int half_ = 0;                              ///< steps of the pair that were made
  int untold_ = 0;                            ///< steps of the trial whose time told nothing
  std::array<std::vector<double>, 2> times_;  ///< by whether it mixes
  std::optional<decision> decided_;
};

}  // namespace troupe::gpu
