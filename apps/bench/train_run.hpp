// The engine of a job's only rank trains on tokens drawn at random and is watched, without the
// actors around it: shared by `troupe bench train` and `troupe bench gpu`.
//
// GFLOP/s counts 6 x matrix parameters (with the head, without the tables) + 12*L*C*T a token: what
// the algorithm needs, not what is executed (a causal mask skips half of T*T). Shares come from
// extra steps with a stopwatch around each operation; the speed is measured without it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/ceiling.hpp"
#include "gpu/profiled_device.hpp"
#include "gpu/stopwatch.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// What is trained, on what, for how long.
struct train_plan {
  std::string model = "tiny";
  std::string dtype = "f32";  ///< or "bf16"
  std::string device = "host";
  int threads = 0;                         ///< of the host; 0: all cores
  int64_t layers = 0, batch = 0, seq = 0;  ///< 0: as the model is usually measured
  int steps = 10;                          ///< measured ones, at most
  int warmup = 2;
  bool recompute = false;
  gpu::time_kind clock = gpu::time_kind::wall;
  int64_t peak_side = 8192;  ///< of the square product that is the measured peak of a GPU
  double until_s = 1e300;    ///< on the wall's clock; no further step is begun after one of each
};

/// A model with the batch it is measured at.
struct train_shape {
  model_config model;
  int64_t batch;
  int64_t seq;
  int64_t layers_of_model = 0;  ///< where fewer are trained than the model has that it is named for
};

/// The names of the models there are.
const std::vector<std::string>& train_models();

/// The plan's model, cut and batched as it says. Its name is one of train_models().
train_shape shape_of(const train_plan& plan);

struct train_measurement {
  std::vector<double> seconds;  ///< of steps, sorted
  double peak = 0;              ///< GFLOP/s: the best of samples between steps
  double loss = 0;
  double flops_per_step = 0;
  gpu::op_profile profile;
  int profiled_steps = 0;
  std::string plan;
  std::string device;
  double sheet_flops = 0;     ///< of the maker's data sheet; 0: not known
  uint64_t memory_bytes = 0;  ///< of the device in use at the end of the steps; 0: not known

  double flops() const { return flops_per_step / 1e9; }  ///< GFLOP of a step
  double median() const { return seconds[seconds.size() / 2]; }
  /// Of the maker's data sheet, in [0, 1]; 0: not known.
  double mfu() const { return sheet_flops > 0 ? flops_per_step / median() / sheet_flops : 0; }
  double of_peak(double step_seconds) const { return share_of_peak(flops() / step_seconds, peak); }

  /// A step that stands for others.
  struct pace {
    const char* name;
    double seconds;
  };
  std::array<pace, 3> paces() const {
    return {{{"best", seconds.front()}, {"median", median()}, {"worst", seconds.back()}}};
  }
};

/// Opens the device, trains, gives everything back. Errors: no_memory, before anything is
/// allocated, where the device has less free than the stage's plan says; the device's.
result<train_measurement> measure_training(const train_shape& shape, const train_plan& plan);

/// For people: speed, memory, the share of each operation, what the memory is for.
std::string text(const train_plan& plan, const train_shape& shape, const train_measurement& m);
/// The same in two or three lines under train_heading(), for a table of several models.
std::string train_heading();
std::string row(const train_plan& plan, const train_shape& shape, const train_measurement& m);
nlohmann::ordered_json json(const train_plan& plan, const train_shape& shape,
                            const train_measurement& m);

}  // namespace troupe::apps
