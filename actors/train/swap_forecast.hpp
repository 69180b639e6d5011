// What a step of a job that swaps moves and computes, and what that takes at the least on a machine
// whose rates are known (gpu/swap/limit_model.hpp): for `troupe plan`, and for what the log says of
// each step. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/train/swap_folder.hpp"
#include "gpu/swap/limit_model.hpp"
#include "gpu/swap/step_traffic.hpp"

namespace troupe::train {

/// What layers keep of a forward pass (gpu::activation_choice): how many of them, by choice.
struct layer_choices {
  std::array<int64_t, gpu::activation_choices> layers{};
  /// What the configuration asks of them, where it does; else as `layers`.
  std::array<int64_t, gpu::activation_choices> asked{};

  /// What is asked has no room in a stage, whose layers make their passes again instead.
  bool gives_way() const {
    constexpr auto again = static_cast<size_t>(gpu::activation_choice::recompute);
    return layers[again] > asked[again];
  }
};

/// What a job's ranks take where they are on GPUs; else 0.
struct gpu_use {
  uint64_t device_bytes = 0;    ///< of each GPU, for all of the job's ranks there
  uint64_t floor_bytes = 0;     ///< the least swap.device_bytes
  uint64_t overhead_bytes = 0;  ///< of it, beside what stages hold; the most of a rank
  uint64_t stage_bytes = 0;     ///< of a rank's stage; the most
  uint64_t twin_bytes = 0;      ///< of the host's memory, for what goes to a drive; the same
};

/// Of all ranks together, where several have a share of the model.
struct swap_forecast {
  layer_choices kept;
  gpu::update_order order = gpu::update_order::behind_backward;
  /// Of some rank gradients are on its drive, in between (residency::gradients_on_disk).
  bool gradients_on_disk = false;
  gpu::weights_choice weights = gpu::weights_choice::automatic;  ///< in float32; else as it is
  gpu::step_traffic traffic;
  gpu::step_work work;
  /// Of a step that is clipped: another one where it would have speculated.
  gpu::step_work clipped_work;
  /// Of the least that any plan with these bytes in memory moves and computes: each chunk's weights
  /// once each way, its state once, passes made once.
  gpu::phase_work least;
  uint64_t overhead_bytes = 0;  ///< of swap.host_bytes, beside what stages hold; the most of a rank
  /// The least swap.host_bytes that the job can be trained with, where no layer keeps anything.
  uint64_t floor_bytes = 0;
  gpu_use of_gpu = {};
};

/// The time that a step takes by expected_seconds(), whether anything is on disk or not, of a job
/// with a swap folder. None: swap.host_bytes is too small.
std::optional<double> step_seconds(const job_plan& plan, const gpu::machine_rates& rates);

/// Sets swap.keep_layers, spill_layers and half_layers, where the job swaps and leaves them open,
/// to what makes its steps shortest (gpu/swap/activation_plan.hpp) of what fits swap.host_bytes
/// and on the drive, and swap.rates. They stay open where nothing has.
void settle_activations(job_plan& plan, const gpu::machine_rates& rates);

/// Of a job with a swap folder, also where all of it fits into memory; else of no layer.
layer_choices layers_kept(const job_plan& plan);

/// None: the job has no swap folder, or all of it fits into memory.
std::optional<swap_forecast> forecast_swap(const job_plan& plan);

/// What of a job lives in its swap folders, each once, and what its checkpoints and the model that
/// it leaves take beside that.
struct swap_needs {
  std::vector<folder_need> folders = {};
  beside_swap beside = {};
  uint64_t bytes() const {
    uint64_t out = 0;
    for (const auto& f : folders) out += f.bytes;
    return out;
  }
};
swap_needs swap_needs_of(const job_plan& plan);

/// The time that a step takes where nothing but its phases' own limits holds it up.
double expected_seconds(const swap_forecast& f, const gpu::machine_rates& rates);

}  // namespace troupe::train
