// From a job to numbers: the model, its split over stages, the options of each rank.
#include "actors/train/plan.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "actors/train/schedule_policy.hpp"
#include "gpu/model/hf_folder.hpp"
#include "gpu/model/stage_shape.hpp"
#include "io/config/load.hpp"
#include "io/data/token_file.hpp"

namespace troupe::train {

namespace {

gpu::block_form block_of(config::block_form form, gpu::block_form inherited) {
  switch (form) {
    case config::block_form::automatic:
      return inherited;
    case config::block_form::none:
      return gpu::block_form::sequential;
    case config::block_form::shared_norm:
      return gpu::block_form::shared_norm;
    case config::block_form::two_norms:
      return gpu::block_form::two_norms;
  }
  return inherited;
}

/// What the families are when nothing says otherwise.
gpu::model_config family_defaults(gpu::model_family family) {
  gpu::model_config m;
  m.family = family;
  if (family == gpu::model_family::llama) {
    m.tied = false;
    m.activation = gpu::activation_kind::swiglu;
    m.attention_bias = false;
    m.mlp_bias = false;
  }
  return m;
}

/// The keys of [model] over `m`; zero and "auto" leave it alone.
void apply(const config::model_section& section, int64_t seq_len, gpu::model_config& m) {
  auto set = [](int64_t& to, int64_t value) {
    if (value > 0) to = value;
  };
  set(m.layers, section.layers);
  set(m.hidden, section.hidden);
  set(m.heads, section.heads);
  set(m.kv_heads, section.kv_heads);
  set(m.ffn, section.ffn);
  set(m.vocab, section.vocab);
  set(m.max_positions, section.max_seq_len);
  if (section.norm_eps > 0) m.norm_eps = section.norm_eps;
  if (section.rope_theta > 0) m.rope_theta = section.rope_theta;
  if (section.tied != config::tristate::automatic) m.tied = section.tied == config::tristate::yes;
  m.block = block_of(section.parallel_block, m.block);
  if (section.sliding_window >= 0) m.sliding_window = section.sliding_window;
  m.init_std = section.init_std;
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.head_width == 0 && m.heads > 0) m.head_width = m.hidden / m.heads;
  if (m.max_positions == 0) m.max_positions = seq_len;
  if (m.ffn == 0)
    m.ffn = m.family == gpu::model_family::gpt2 ? 4 * m.hidden : (m.hidden * 8 / 3 + 63) / 64 * 64;
}

/// Activations whose bytes 64 bits cannot count are refused before they are counted.
status check_activations(const config::job& job, const gpu::model_config& m) {
  constexpr double limit = 1e17;
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double kept = real(job.train.micro_batch) * real(job.train.seq_len) *
                      real(16 * m.hidden + 2 * m.qkv_width() + 2 * m.ffn_in_width()) *
                      real(m.layers + 1) * real(job.parallel.pipeline);
  const double step = real(job.train.batch) * real(job.train.seq_len) * real(m.hidden);
  if (std::max(kept, step) <= limit) return {};
  return error{
      errc::bad_config,
      fmt::format("steps of {} x {} tokens, {} at a time through {} layers, are too large: "
                  "about {:.1g} numbers, expected at most {:.1g}",
                  job.train.batch, job.train.seq_len, job.train.micro_batch, m.layers,
                  std::max(kept, step), limit),
      "lower train.micro_batch or train.seq_len"};
}

}  // namespace

result<gpu::model_config> model_of(const config::job& job) {
  const bool llama = job.model.family == config::model_family::llama;
  auto model = family_defaults(llama ? gpu::model_family::llama : gpu::model_family::gpt2);
  if (!job.model.path.empty()) {
    TROUPE_TRY(read, gpu::read_folder_config(job.model.path));
    TROUPE_TRY(from_folder, gpu::to_model_config(read));
    if (job.model.family != config::model_family::automatic && from_folder.family != model.family)
      return error{
          errc::bad_config,
          fmt::format("model.family is {} but {} holds a {} model", gpu::to_string(model.family),
                      job.model.path, gpu::to_string(from_folder.family)),
          "leave model.family out when model.path is given"};
    model = from_folder;
  }
  apply(job.model, job.train.seq_len, model);
  TROUPE_CHECK(model.check());
  if (job.train.seq_len > model.max_positions)
    return error{errc::bad_config,
                 fmt::format("train.seq_len {} is longer than the model's {} positions",
                             job.train.seq_len, model.max_positions),
                 "lower train.seq_len, or raise model.max_seq_len"};
  TROUPE_CHECK(check_activations(job, model));
  return model;
}

bool ready_tokens(const config::job& job) {
  if (job.data.format == config::data_format::text) return false;
  if (job.data.format != config::data_format::automatic) return true;
  return std::all_of(job.data.path.begin(), job.data.path.end(), [](const std::string& p) {
    return io::looks_like_token_file(p) || std::filesystem::path(p).extension() == ".bin";
  });
}

result<io::tokenizer_ptr> tokenizer_of(const config::job& job) {
  if (ready_tokens(job) && job.data.tokenizer == "bytes") return io::tokenizer_ptr{};
  return io::make_tokenizer(job.data.tokenizer);
}

result<job_plan> make_plan(const config::job& job) {
  job_plan plan;
  plan.job = job;
  if (job.model.vocab == 0 && job.model.path.empty()) {
    TROUPE_TRY(tokens, tokenizer_of(job));
    if (!tokens)
      return error{errc::bad_config, "the size of the vocabulary is not known",
                   "set model.vocab: a .bin file does not say which tokenizer made it"};
    plan.job.model.vocab = tokens->vocab_size();
  }
  TROUPE_TRY(model, model_of(plan.job));
  plan.model = model;
  plan.micro_batches = job.micro_batches();
  if (job.parallel.pipeline > model.layers)
    return error{errc::bad_config,
                 fmt::format("{} layers cannot fill {} pipeline stages", model.layers,
                             job.parallel.pipeline),
                 "every stage needs a layer: lower parallel.pipeline"};
  cluster_shape shape;
  for (const auto& node : job.cluster.node) shape.workers.push_back(node.workers);
  shape.grid = job.grid();
  for (const auto& s : gpu::split_stages(model, job.parallel.pipeline, job.train.seq_len))
    shape.stages.push_back({s.first_layer, s.last_layer});
  TROUPE_TRY(ranks, place_ranks(shape));
  plan.ranks = std::move(ranks);
  return plan;
}

engine_options options_of(const config::job& job, const gpu::model_config& model,
                          const grid_rank& at, layer_range layers, int threads) {
  engine_options o;
  o.at = at;
  o.model = model;
  o.batch = job.train.batch;
  o.seed = static_cast<uint64_t>(job.job.seed);
  o.threads = threads;
  o.job = job.job.name;
  o.checkpoint_folder = job.checkpoint.dir;
  o.checkpoint_slot_bytes = slot_bytes_of(job);
  o.checkpoint_ring_bytes = static_cast<uint64_t>(job.checkpoint.ring_bytes);
  auto& s = o.shape;
  s.first_layer = layers.first;
  s.last_layer = layers.last;
  s.has_embedding = at.first();
  s.has_head = at.last();
  s.micro_batch = job.train.micro_batch;
  s.seq = job.train.seq_len;
  const auto place = at.place();
  s.slots = slots_needed(place.pipeline, at.grid.pipeline, static_cast<int>(job.micro_batches()));
  s.compute = job.model.dtype == config::compute_dtype::bf16 ? gpu::dtype::bf16 : gpu::dtype::f32;
  s.recompute = job.model.recompute;
  s.replica = {place.data, at.grid.data};
  if (job.train.stochastic_rounding) s.rounding_seed = o.seed;
  s.decay = job.train.decay == config::decay_scope::all ? gpu::decay_scope::all
                                                        : gpu::decay_scope::matrices;
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

uint32_t slot_bytes_of(const config::job& job) {
  const auto asked = job.checkpoint.slot_bytes;
  return asked > 0 ? static_cast<uint32_t>(asked) : gpu::saver_slot_bytes;
}

gpu::lr_schedule lr_of(const config::train_section& t) {
  gpu::lr_schedule s;
  s.lr = t.lr;
  s.min_ratio = t.min_lr_ratio;
  s.warmup_steps = t.warmup_steps;
  s.steps = t.steps;
  s.decay_steps = t.decay_steps;
  switch (t.schedule) {
    case config::lr_schedule::constant:
      s.shape = gpu::lr_shape::constant;
      break;
    case config::lr_schedule::linear:
      s.shape = gpu::lr_shape::linear;
      break;
    case config::lr_schedule::cosine:
      s.shape = gpu::lr_shape::cosine;
      break;
    case config::lr_schedule::wsd:
      s.shape = gpu::lr_shape::wsd;
      break;
  }
  return s;
}

}  // namespace troupe::train
