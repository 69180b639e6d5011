// What a job will need on each pipeline stage, before anything starts: memory, work, traffic; and
// which changes would make it fit.
//
// Pure: a function of the plan. The bytes are the ones a stage allocates (gpu::plan_stage lays out
// the same arena); a back end's scratch comes on top.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/job/plan.hpp"
#include "gpu/model/stage_shape.hpp"

namespace troupe::train {

struct engine_options;

/// Of the products of a rank's step, forward and backward, each made once.
double step_flops(const engine_options& options);

/// One pipeline stage; every replica of it needs the same, having an equal share of the optimizer.
struct planned_stage {
  int64_t pipeline_rank = 0;
  layer_range layers{0, 0};
  std::vector<int64_t> ranks;   ///< its replicas
  int64_t parameters = 0;       ///< tensors of this stage, a tied copy counted
  int64_t matrix_elements = 0;  ///< of them, those in matrix products (the head's included)
  gpu::stage_plan bytes;        ///< of the device
  uint64_t twin_bytes = 0;      ///< of the host's memory, for what goes between a GPU and a drive
  uint64_t share_bytes = 0;     ///< of a rank's state in a checkpoint
  uint64_t ring_bytes = 0;      ///< checkpoint ring in the host's memory, at most
  double step_flops = 0;        ///< of one replica and step, forward and backward
  uint64_t reduced_bytes = 0;   ///< gradients the replicas sum in a step, as often as they do
  uint64_t gathered_bytes = 0;  ///< weights they gather in it, as often as they do
  uint64_t boundary_bytes = 0;  ///< to the next stage in a step, as many back; 0 for the last
};

/// Every stage in order.
std::vector<planned_stage> plan_stages(const job_plan& plan);

/// What a worker takes for its stage: forward and backward of one micro-batch, and its share of the
/// update.
struct stage_seconds {
  double forward = 0, backward = 0, update = 0;
};
/// At so much work a second, and parameters of the optimizer's rule. A third of a step's work is
/// forward; who keeps no activations makes that again.
stage_seconds seconds_of(const planned_stage& s, const job_plan& plan, double flops_s,
                         double updates_s);

/// Bytes of the device on the stage that needs most.
uint64_t largest_stage_bytes(const std::vector<planned_stage>& stages);

/// The share of a step that stages stand idle in 1F1B: (p - 1) / (m + p - 1).
double pipeline_bubble(const job_plan& plan);

/// One change of the configuration.
struct memory_change {
  std::string setting;      ///< "model.recompute=true"
  uint64_t bytes = 0;       ///< of the largest stage, with it
  bool same_result = true;  ///< the losses stay what they are, but for rounding
};

/// Of a process that has joined and does nothing yet, about: its own pages, without libraries.
inline constexpr uint64_t idle_process_bytes = uint64_t{16} << 20;

/// What copies in memory take of each node's process, at most: two generations of its ranks' shares
/// and of those that they keep. All 0 where none are taken.
std::vector<uint64_t> copies_of_nodes(const job_plan& plan,
                                      const std::vector<planned_stage>& stages);

/// What a job takes of the memory of one machine that all its processes run on.
struct machine_share {
  uint64_t stages = 0;     ///< of all ranks, where they compute on the host
  uint64_t twins = 0;      ///< through which GPUs reach drives
  uint64_t rings = 0;      ///< through which checkpoints go to the disk
  uint64_t copies = 0;     ///< of the state in memory, two generations
  uint64_t batches = 0;    ///< the loader's slots
  uint64_t processes = 0;  ///< what every process has before all that
  uint64_t total() const { return stages + twins + rings + copies + batches + processes; }
};
machine_share share_of_machine(const job_plan& plan, const std::vector<planned_stage>& stages,
                               bool on_host);

/// Changes after which the largest stage needs at most `limit` bytes: one alone where that is
/// enough, mildest first, else the fewest together. Empty: none that is known.
std::vector<memory_change> ways_to_fit(const job_plan& plan, uint64_t limit);

}  // namespace troupe::train
