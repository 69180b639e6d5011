// The learning rate of each step: linear warmup, then constant, linear, cosine or WSD. Pure
// arithmetic.
#pragma once

#include <cstdint>

namespace troupe::gpu {

/// The shape after the warmup.
enum class lr_shape : uint8_t {
  constant,
  linear,  ///< straight down to lr * min_ratio at the last step
  cosine,  ///< half a cosine down to lr * min_ratio at the last step (Loshchilov & Hutter 2017)
  wsd,     ///< warmup, stable, decay: constant, then straight down over the last decay_steps (Hu et
           ///< al. 2024)
};

/// A schedule over `steps` optimizer steps.
struct lr_schedule {
  lr_shape shape = lr_shape::constant;
  double lr = 1e-3;
  double min_ratio = 0.1;
  int64_t warmup_steps = 0;
  int64_t steps = 1;
  int64_t decay_steps = 0;  ///< wsd; 0: a tenth of steps

  /// The rate of step t, counted from 1. Warmup: lr * t / warmup_steps for t <= warmup_steps. Past
  /// the last step the rate stays where the last step left it.
  double at(int64_t t) const;
};

}  // namespace troupe::gpu
