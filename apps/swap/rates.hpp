// How fast this machine does what a job's steps consist of when they swap: measured in some
// seconds, for `troupe plan` and for what `troupe up` says of each step.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "actors/job/plan.hpp"
#include "actors/train/layer_paces.hpp"
#include "actors/train/swap_forecast.hpp"
#include "gpu/swap/limit_model.hpp"
#include "io/base/result.hpp"
#include "io/machine/facts.hpp"

namespace troupe::apps::swap {

using train::measure_paces;
using train::pace_measuring;
using train::paces;

/// Of the same layer what is more of `now` and of what was kept, which is kept from then on: that
/// others have the processors for a moment is no limit of the machine's.
paces best_so_far(const paces& now, const io::fact_store& store = {});

/// The drive under swap.dir (or the folder that it will be made in; kept, io/disk/calibrate.hpp),
/// one layer of the model forward and backward, its update, and sums, in the job's type and with
/// the threads that a worker has here, or what those reached before. Only of the host's processors.
/// Errors: io, no_memory, unavailable.
result<gpu::machine_rates> measure_rates(const train::job_plan& plan);

/// "read 2.4 GB/s, write 2.4 GB/s, at once saves 0.81 of the shorter; products 214 GFLOP/s; updates
/// 1.4 G/s; sums 90 GB/s", of which the last is of all processors.
std::string rates_text(const gpu::machine_rates& rates);

/// "of 12 layers 2 keep their activations, 4 their input and x + attention; 6 compute them again".
std::string activations_text(const train::layer_choices& of_layers);

/// That what the configuration asks layers to keep has no room, and what they do instead, as a
/// warning; empty: it has, or is left open. `on_gpus`: the ranks' memory is theirs.
std::string no_room_text(const train::layer_choices& of_layers, const config::swap_section& swap,
                         bool on_gpus);

/// How a job's steps are clipped: "hold, on the drive" where gradients that are kept for that, or
/// some of them, are there.
std::string clip_text(const train::swap_forecast& f);
/// Why a job's steps are clipped in this way; `on_disk`: gradients are on the drive in between.
std::string_view clip_reason(gpu::update_order order, const config::job& job, bool on_disk = false);

/// "stored", "derived"; empty where they are the masters: in float32. And why.
std::string_view weights_text(const train::swap_forecast& f);
std::string_view weights_reason(const train::swap_forecast& f, const config::job& job);

/// How many steps swap.rated_tbw lasts; none where that is not said.
std::optional<double> rated_steps(const train::swap_forecast& f, const config::swap_section& swap);

/// The budget that a job keeps its stages in, "swap.host_bytes = 1.0 GiB", and the least of it:
/// of ranks on GPUs swap.device_bytes.
std::string budgets_text(const train::job_plan& plan);
std::string floors_text(const train::job_plan& plan);

/// What ranks on GPUs take of both memories, a line; empty where the host computes.
std::string gpu_text(const train::swap_forecast& f);

/// What a step moves, and how long it takes at least: some lines, each with its end.
std::string forecast_text(const train::swap_forecast& f, const config::job& job);
std::string limit_text(const train::swap_forecast& f, const gpu::machine_rates& rates);

/// What the least times of steps are made of.
struct step_limits {
  gpu::machine_rates rates;  ///< measured at the start
  gpu::phase_work once;      ///< of a step whose passes are made once, or as the plan says
  gpu::phase_work twice;     ///< of one whose passes are made twice, since it is clipped

  const gpu::phase_work& of(int passes) const { return passes > 1 ? twice : once; }
};

/// That the drive keeps other rates than before, and how long a step takes at least by them.
std::string kept_text(const gpu::machine_rates& measured, const gpu::machine_rates& kept,
                      double limit_s);

/// As train::settle_activations of what layers keep; it stays open where this machine has no memory
/// for the choice.
void settle_layers_here(train::job_plan& plan, const gpu::machine_rates& rates);

/// Those of a job whose nodes are on this machine, measured and said; none: it does not swap, or
/// that cannot be measured. By the same rates it is settled what layers keep, where that is open.
/// `remark`: told what a person should know later on, too, as no_room_text.
std::optional<step_limits> settle_by_rates(train::job_plan& plan,
                                           const std::function<void(const std::string&)>& remark);

}  // namespace troupe::apps::swap
