// From a job to the options of its engines.
#include "actors/train/engine.hpp"

#include "actors/train/keeper_policy.hpp"
#include "actors/train/work_pace_policy.hpp"

namespace troupe::train {

schedule_of schedule_of_stage(const config::job& job, const grid_rank& at) {
  return {at.place().pipeline, at.grid.pipeline, static_cast<int>(job.micro_batches()),
          job.parallel.schedule == config::pipeline_schedule::by_layer};
}

engine_options options_of(const config::job& job, const model_config& model, const grid_rank& at,
                          layer_range layers, int threads) {
  engine_options o;
  o.at = at;
  o.model = model;
  o.shape = shape_of(job, at, layers);
  o.drills = job.inject;
  o.recheck_every = job.health.recheck_every;
  const auto schedule = schedule_of_stage(job, at);
  o.shape.slots = slots_needed(schedule);
  o.shape.by_layer = schedule.by_layer;
  o.batch = job.train.batch;
  o.seed = static_cast<uint64_t>(job.job.seed);
  o.threads = threads;
  if (job.power.is_budgeted())  // a member may do its part at the least pace
    o.group_timeout = o.group_timeout * work_pace::whole / work_pace_policy::least_pace.of_1024;
  o.control = job.power.actuators();
  o.agent_socket = job.power.agent_socket;
  o.clocks_operations = job.power.slack == config::slack_source::plan;
  o.job = job.job.name;
  o.checkpoint_folder = job.checkpoint.dir;
  o.checkpoint_slot_bytes = slot_bytes_of(job);
  o.checkpoint_ring_bytes = static_cast<uint64_t>(job.checkpoint.ring_bytes);
  if (const auto keepers = keepers_of(job); !keepers.empty()) {
    o.keeper = keepers[static_cast<size_t>(at.rank)];
    o.keeps = kept_by(keepers, at.rank);
  }
  const auto& t = job.train;
  o.optimizer.kind = t.optimizer == config::optimizer_kind::lamb
                         ? gpu::optimizer_step_args::rule::lamb
                         : gpu::optimizer_step_args::rule::adamw;
  o.optimizer.beta1 = static_cast<float>(t.beta1);
  o.optimizer.beta2 = static_cast<float>(t.beta2);
  o.optimizer.eps = static_cast<float>(t.eps);
  o.optimizer.weight_decay = static_cast<float>(t.weight_decay);
  o.optimizer.clip_norm = static_cast<float>(t.clip_norm);
  o.optimizer.trust_always = t.lamb_trust_always;
  return o;
}

}  // namespace troupe::train
