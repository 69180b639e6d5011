// How fast a worker does what most of a step consists of: one layer of the model, forward and
// backward, its update, and sums of what goes to a drive, measured in a second or so. Nothing of it
// lasts: the layer, its gradients and its moments are made for that and go with it. No CAF; blocks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "actors/train/engine.hpp"
#include "gpu/device.hpp"
#include "gpu/swap/limit_model.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// How fast the host's processors compute.
struct paces {
  double flops_s = 0;    ///< products of a layer, forward and backward
  double updates_s = 0;  ///< parameters of the optimizer's rule
  std::string of = {};   ///< the layer, its type, threads and instructions
  double spread = 1;     ///< of the layer's tries: the mean's time over the quickest's
  double sum_bytes_s = 0;  ///< whose CRC32C one thread makes, of an array that it has just had
};

/// Of some tries of the same, in seconds. The quickest counts as what the machine can do: what else
/// it does makes it slower only. What it does in the long run is the mean: where a machine stands
/// again and again for about as long as a try, the median is that of one that never does.
struct tried {
  double best = 0, mean = 0;
};
/// Of one try and more.
tried summed_up(std::span<const double> seconds);

/// How they are measured.
struct pace_measuring {
  int update_threads = 1;  ///< as a swapper has
  int tries = 4;           ///< of a layer, and of an update
  double enough_s = 60;    ///< no further try is begun where they have taken so long
  bool sums = true;        ///< them as well
};

/// Of one layer of a rank's model, in its type and with its threads. Errors: no_memory.
result<paces> measure_paces(const engine_options& options, const pace_measuring& how = {});
/// The same on a device that is there.
result<paces> measure_paces(const engine_options& options, gpu::device& device,
                            const pace_measuring& how = {});

/// Workers that make a step together on the processors of one machine.
struct worker_cores {
  double workers = 1;  ///< at once, as far as there are cores for them
  int threads = 1;     ///< of each, for its products; streams of a swapper have one each besides
  double cores = 1;    ///< of the machine, that its processes may use
};
/// Sets what processors do of these rates: each part alone, and all processors together, where
/// threads beyond the cores are none. One thread's updates, or sums, are as quick as a core can be
/// with them, so all cores together are quicker by no more than they are many: memory that is too
/// slow for all of them makes the shared bound too short, and never too long.
void set_paces(gpu::machine_rates& of, const paces& measured, const worker_cores& on);

/// What is measured of a rank's options in passing: as much of a layer, and of a micro-batch, as
/// has so many FLOP, or hardly more.
engine_options measured_part(engine_options options, double flops);

/// FLOP of one try where a small one was so quick: a fraction of a second's work, and two seconds'
/// at most of a core so slow that it would take longer, as one that emulates bfloat16.
double flops_of_try(double flops_s);

/// Of measured_part(), by so many workers at once: cores share what feeds them, and what others
/// left of them. Of ranks that wait for each other the slowest counts. Errors: unavailable where it
/// is not the host's processors that compute, or a layer is too large; no_memory.
result<paces> measure_workers(const engine_options& options, int64_t workers);

/// FLOP per second of a layer's products as workers of a job typically have them. Errors: as above,
/// and of model_of.
result<double> measure_layer_of(const config::job& job, const std::string& device, int threads,
                                int64_t workers);

}  // namespace troupe::train
