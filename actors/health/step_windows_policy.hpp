// Steps of a running job, gathered into windows: what a step took, and what each rank itself did of
// it. Stragglers and steps that take longer are judged by windows, not by steps.
//
// Why: single steps vary with whatever else a machine does; the medians of ten seconds do not.
//
// Pure: it is told steps and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   SWN-1  A step counts if every rank has told of it, of the same epoch. The first steps of an
//     epoch do not: kernels are chosen, memory is touched, groups make their first transfers.
//   SWN-2  A window lasts at least its time and has at least `least_steps` steps, whatever they
//     take: a handful of steps of milliseconds is none. Steps of other work than its first one,
//     or at another pace by a tenth, begin a window anew.
//   SWN-3  Bounded: `most_steps_kept` steps of a window are kept, evenly spread over it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "messages/schemas/train_generated.h"

namespace troupe::health {

/// A step, as one rank tells of it.
struct rank_step {
  uint32_t epoch = 0;
  uint64_t step = 0;
  uint64_t rank = 0;
  /// That its device computed: neither waiting for others nor moving bytes.
  double own_ms = 0;
  /// From its begin to the end of the device's last operation, without what a checkpoint, a
  /// comparison of weights or a validation took, and as it would be at full speed: what a rank
  /// waits for others includes what the pace holds these back.
  double whole_ms = 0;
  uint64_t tokens = 0;  ///< that it computed forward
  double pace = 1;      ///< the share of its speed that it had
};

/// Of what the device's compute stream did.
rank_step rank_step_in(const fbs::StepDone& done, uint32_t epoch);

struct step_window {
  uint32_t epoch = 0;
  uint64_t steps = 0;         ///< that it lasted
  uint64_t tokens = 0;        ///< of a step, of all ranks
  double pace = 1;            ///< of its first step
  double step_ms = 0;         ///< the median of what the slowest rank took
  std::vector<float> own_ms;  ///< by rank, medians
};

/// Whether steps at these paces cannot be compared: what hides behind waiting for one of them does
/// not behind the other.
bool paces_differ(double a, double b);

class step_windows_policy {
 public:
  static constexpr uint64_t first_steps = 3;  ///< of an epoch, which do not count
  static constexpr uint64_t least_steps = 3;
  static constexpr size_t most_steps_kept = 64;

  step_windows_policy() = default;
  step_windows_policy(int64_t window_ns, size_t ranks) : window_ns_(window_ns), ranks_(ranks) {}

  /// A window where the step completes one. What no rank could mean is passed over.
  std::optional<step_window> hear(const rank_step& said, int64_t now_ns);

  /// Of the steps that are gathered.
  uint32_t epoch() const noexcept { return epoch_; }
  /// Steps that are kept of the window that is being gathered.
  size_t kept() const noexcept { return kept_.size(); }

 private:
  struct whole_step {
    float whole_ms = 0;
    std::vector<float> own_ms;  ///< by rank
  };
  void begin_step(const rank_step& said);
  void begin_window(int64_t now_ns);
  void keep();
  std::optional<step_window> end_step(int64_t now_ns);
  step_window sum_up() const;

  int64_t window_ns_ = 0;
  size_t ranks_ = 0;
  uint32_t epoch_ = 0;
  uint64_t whole_steps_ = 0;  ///< of the epoch
  // The step that ranks tell of now.
  uint64_t step_ = 0;
  size_t told_ = 0;
  uint64_t tokens_ = 0;
  whole_step now_;
  // The window.
  int64_t begun_ns_ = 0;
  uint64_t steps_ = 0, window_tokens_ = 0;
  double pace_ = 1, window_pace_ = 1;
  uint64_t every_ = 1;  ///< how many steps one that is kept stands for
  std::vector<whole_step> kept_;
};

}  // namespace troupe::health
