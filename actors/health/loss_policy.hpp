// Whether the loss rose far beyond what its last steps varied.
//
// A spike is a run of losses above the median of the last steps by `deviations` times what they
// scattered (1.4826 x the median of their distances from the median, which is the standard
// deviation where they are normal), and by at least 2 % of the median: a loss that hardly moves
// scatters by nearly nothing. PaLM's spikes (Chowdhery et al., 2022, section 5.1) last tens of
// steps; a single hard batch is none.
//
// Pure.
//
// Invariants
//   LSS-1  Fewer than `least_known` losses say nothing.
//   LSS-2  `in_a_row` high losses one after another are a spike, which began with the first of
//     them; it is over after as many that are not high.
//   LSS-3  High losses are no part of what others are held against, until the spike has lasted as
//     long as the window: then that is how high the loss is.
//   LSS-4  Steps that are made again are judged as if they had not been made before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace troupe::health {

class loss_policy {
 public:
  static constexpr size_t window = 100, least_known = 20, in_a_row = 3;

  /// What a loss was held against.
  struct spike {
    uint64_t first_step = 0;
    double loss = 0;      ///< now
    double usual = 0;     ///< the median of the last steps
    double at_most = 0;   ///< from here on it is high
    size_t steps = 0;     ///< that it is held against
  };

  loss_policy() = default;
  /// 0: nothing is a spike.
  explicit loss_policy(double deviations) : deviations_(deviations) {}

  /// The finite loss of the next step; the spike that stands with it.
  std::optional<spike> judge(uint64_t step, double loss);
  /// The job is at that step again (LSS-4).
  void go_back(uint64_t step);

 private:
  struct told {
    uint64_t step = 0;
    double loss = 0;
    bool high = false;
  };
  /// The last `window` that were not high.
  std::deque<double> usual_losses() const;

  double deviations_ = 0;
  std::deque<told> told_;            ///< 2 x window at most
  std::optional<uint64_t> since_;    ///< of the spike that stands
};

}  // namespace troupe::health
