// The arithmetic of the schedules.
#include "gpu/optim/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::gpu {

double lr_schedule::at(int64_t t) const {
  if (t <= warmup_steps && warmup_steps > 0)
    return lr * static_cast<double>(std::max<int64_t>(t, 0)) / static_cast<double>(warmup_steps);
  int64_t start = warmup_steps;  // the last step at the full rate
  if (shape == lr_shape::wsd) {
    const int64_t length = decay_steps > 0 ? decay_steps : std::max<int64_t>(1, steps / 10);
    start = std::max(warmup_steps, steps - length);
  }
  if (shape == lr_shape::constant || t <= start || steps <= start) return lr;
  const double progress =
      std::min(1.0, static_cast<double>(t - start) / static_cast<double>(steps - start));
  const double share =
      shape == lr_shape::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * progress)) : 1 - progress;
  return lr * (min_ratio + (1 - min_ratio) * share);
}

}  // namespace troupe::gpu
