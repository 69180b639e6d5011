// How many of the layers that spill their activations compute them again instead, from the next
// step on: a drive that keeps less than what layers were chosen by makes each of its bytes dearer,
// and products cost what they did (docs/swap.md).
//
// Pure. What may differ from step to step is what takes no other memory: a layer that spills has
// its input in memory and a frame of its own turn, and computes again in that frame. The first of
// such layers do, since what the last ones leave in frames is not read. Every choice has the same
// bits (SM-4). That a choice is quicker by the rates is held against what steps then take.
//
// Invariants
//   SRP-1  While the drive keeps all that was measured, layers do as they were chosen to.
//   SRP-2  A choice is made where by the rates kept it makes a step shorter by more than
//     `worth_it`, and `steps_between` steps after the one before, or later.
//   SRP-3  Where steps do not get shorter by it, layers do as they were chosen to again, for
//     `patience` steps at least; and where steps tell nothing of the drive any more, which then
//     does not bound them, that is tried after as many. Each time it is twice as many, up to
//     `times_as_long` times, until the drive has kept all for as long as it was at first.
//   SRP-4  A step that tells nothing to one of the ranks which choose alike counts for none of
//     them: each sees by itself what makes its own tell nothing, and they would choose apart.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/swap/kept_rates_policy.hpp"
#include "gpu/swap/limit_model.hpp"
#include "gpu/swap/step_traffic.hpp"

namespace troupe::gpu {

class replan_policy {
 public:
  static constexpr double worth_it = 0.03;  ///< of a step: rates are known by less
  static constexpr int untold_steps = 2;    ///< behind a choice: they have the writes of others
  static constexpr int steps_between = 10;
  static constexpr int patience = 100;
  static constexpr int times_as_long = 16;

  /// `work`: of a step, by how many of the layers that spill compute again; at least one.
  replan_policy(const machine_rates& measured, std::vector<step_work> work)
      : measured_(measured), work_(std::move(work)), kept_(measured) {}

  /// Layers, the first ones that spill, that compute again in the next step.
  int again() const { return again_; }

  enum class cause : uint8_t {
    rates,   ///< that the drive keeps
    slower,  ///< steps were no shorter by the choice before
    trial,   ///< nothing is known of the drive by now
  };
  struct decision {
    cause why = cause::rates;
    int before = 0, now = 0;  ///< layers that compute again
    machine_rates kept;
  };
  /// The drive saves this much of the shorter by reading and writing at once from now on. What is
  /// known of it is not of such steps.
  void set_duplex(double duplex);
  /// A step was made as again() says, if it tells anything (SRP-4). None: it goes on so.
  std::optional<decision> stepped(const step_moves& moved);

 private:
  double expected(int again, const machine_rates& rates) const;
  int best(const machine_rates& rates) const;
  bool shorter();
  decision choose(cause why, int again);

  machine_rates measured_;
  std::vector<step_work> work_;
  kept_rates_policy kept_;
  int again_ = 0;
  int since_ = steps_between;       ///< steps since the last choice
  int wait_ = steps_between;        ///< that there are at least until the next one
  int patience_ = patience;         ///< of the next trial
  std::vector<double> recent_;      ///< seconds of the last steps since then, the newest last
  std::optional<double> before_s_;  ///< that steps took before, to be compared; none: they were
};

}  // namespace troupe::gpu
