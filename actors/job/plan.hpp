// What a job becomes on a cluster before anything starts: the model's numbers, the stages, the
// ranks, the micro-batches. Every process derives its part by the same functions from the same
// resolved job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/job/placement_policy.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/optim/lr_schedule.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/model_config.hpp"
#include "io/config/job.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::train {

/// What is not there, with what to do. Most often it is a model's name at a hub.
error not_fetched(error why);

/// The model a job describes: model.path's config.json where given, the job's own keys over it.
/// bad_config for numbers that do not fit together or contradict the folder.
result<model_config> model_of(const config::job& job);

/// A GPU that ranks of a job compute on.
struct gpu_place {
  uint64_t bytes = 0;  ///< of its memory; 0: they compute on the host, or it is not known
  int64_t ranks = 1;   ///< of the job on it, at most
};

/// The plan of a whole job.
struct job_plan {
  /// Settled: the model's shape and vocabulary, and what ends a document, are filled in.
  config::job job;
  model_config model;
  std::vector<rank_place> ranks;
  int64_t micro_batches = 1;  ///< per step and data rank
  /// Ids that begin and end texts, where the tokenizer is not model.path's own.
  std::optional<int32_t> bos_token = {}, eos_token = {};
  /// The smallest that any rank will be on, as far as this machine can tell (place_on_gpus).
  gpu_place gpu_at = {};
};

/// Of the whole job.
inline double flops_of_step(const job_plan& plan) {
  return plan.model.flops_per_token(plan.job.train.seq_len) *
         static_cast<double>(plan.job.tokens_per_step());
}

/// parallel.layers that are not a model's: the key's text, the stages and layers expected, and
/// those found.
inline constexpr error_kind<std::string_view, int64_t, int64_t, size_t, int64_t> stage_layers_unfit{
    "stage_layers_unfit", errc::bad_config,
    "invalid parallel.layers \"{}\", expected {} stages with the model's {} "
    "layers in all, found {} with {}",
    "each stage has at least one layer; leave it out for a split by itself"};

/// The ranks of a plan and the layers of each: as parallel.layers says, or so that the slowest
/// stage is as quick as can be (gpu::split_stages). Errors: bad_config, stage_layers_unfit.
status place_stages(job_plan& plan);

/// The layers of each stage as parallel.layers has them: "8,4".
std::string stage_layers_text(const job_plan& plan);

/// Whether the layers of its stages are settled only once its nodes have measured what a layer
/// takes (parallel.placement).
bool is_split_open(const config::job& job);

/// A plan's job with the layers of its stages in it, as checkpoints record it (RSM-6); without them
/// where nodes measure them later.
config::job recorded_job(const job_plan& plan);

/// parallel.nodes that are no order of a plan's nodes.
inline constexpr error_kind<std::string_view> node_order_unfit{
    "node_order_unfit", errc::bad_config,
    "invalid parallel.nodes \"{}\", expected nodes that are no spares, each once",
    "leave it out: nodes are in the order of [[cluster.node]] then"};

/// The same plan with these layers, "8,4", by which its split is settled, and, unless it is empty,
/// with its nodes in that order, "b,a". Errors: node_order_unfit, and as of place_stages; the plan
/// stays as it was.
status settle_layers(job_plan& plan, const std::string& layers, const std::string& nodes = {});

/// Reads what the job names (model folder, tokenizer) and plans it. Fails with bad_config or
/// bad_data.
result<job_plan> make_plan(const config::job& job);

/// What one rank holds of the model and how it computes, all but its activation slots: those are
/// the schedule's.
gpu::stage_shape shape_of(const config::job& job, const grid_rank& at, layer_range layers);

/// Bytes of a slot of this job's checkpoints: the same on all ranks.
uint32_t slot_bytes_of(const config::job& job);

/// The learning rate of each step.
gpu::lr_schedule lr_of(const config::train_section& train);

/// The tokenizer of the job's data; null for files of ready tokens without one.
result<io::tokenizer_ptr> tokenizer_of(const config::job& job);

/// Whether the tokenizer of the data is that of the folder that the model begins from: that folder,
/// a file in it, or, of ready tokens, what made them.
bool is_models_tokenizer(const config::job& job);

/// Whether what is trained on are ready tokens rather than text.
bool ready_tokens(const config::job& job);

/// data.reset_attention without knowing what ends a document.
inline constexpr error_kind<std::string> document_end_unknown{
    "document_end_unknown", errc::bad_config,
    "the token that ends a document is not known: {} has none",
    "set data.document_end to its id, or data.tokenizer to a tokenizer with an end-of-text token"};
inline constexpr error_kind<int64_t, int64_t> document_end_beyond{
    "document_end_beyond", errc::bad_config,
    "invalid data.document_end {}, expected less than {}, the size of the vocabulary"};
inline constexpr error_kind<int32_t, int64_t> end_of_text_beyond{
    "end_of_text_beyond", errc::bad_config,
    "the tokenizer's end-of-text token {} is not one of the model's {} tokens",
    "set data.document_end to the token that ends a document in this data"};

/// The token that ends a document, where attention begins anew behind it (data.reset_attention);
/// `vocab`: of the model. A planned job has it in data.document_end, so that whoever reads data has
/// the same and needs no tokenizer for it. Errors: those above, and the tokenizer's.
result<std::optional<int32_t>> document_end_of(const config::job& job, int64_t vocab);

}  // namespace troupe::train
