// From a job to numbers: the model, its split over stages, the options of each rank.
#include "actors/job/plan.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "gpu/model/hf_folder.hpp"
#include "gpu/model/state_saver.hpp"
#include "gpu/swap/activation_plan.hpp"
#include "io/config/load.hpp"
#include "io/data/data_files.hpp"
#include "io/formats/hf_config.hpp"

namespace troupe::train {

namespace {

/// Activations whose bytes 64 bits cannot count are refused before they are counted.
status check_activations(const config::job& job, const model_config& m) {
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

/// What is not there, by the key that names it.
error missing(std::string_view key, const error& why) {
  return why.code == errc::not_found ? not_fetched(why).within(key) : why;
}

/// Whoever takes a folder's weights means to train as it says; what it says of dropout is not done.
status check_dropout(const config::model_section& model) {
  if (model.dropout == 0) return {};
  TROUPE_TRY(said, io::read_hf_config(model.path));
  if (said.dropout == 0) return {};
  return io::hf_dropout(said.dropout_key, said.dropout).within(model.path);
}

}  // namespace

error not_fetched(error why) {
  if (why.code == errc::not_found && why.hint.empty())
    why.hint = "name a file or folder of this machine: nothing is fetched from a hub";
  return why;
}

result<model_config> model_of(const config::job& job) {
  auto base = model_config::of(job.model.family.value_or(model_family::gpt2));
  if (!job.model.path.empty()) {
    const auto read = gpu::read_folder_model(job.model.path);
    if (!read) return missing("model.path", read.error());
    const auto& from_folder = *read;
    TROUPE_CHECK(check_dropout(job.model));
    if (job.model.family.value_or(from_folder.family) != from_folder.family)
      return error{errc::bad_config,
                   fmt::format("model.family is {} but {} holds a {} model", to_string(base.family),
                               job.model.path, to_string(from_folder.family)),
                   "leave model.family out when model.path is given"};
    base = from_folder;
  }
  const auto model = job.model.over(base, job.train.seq_len);
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
  using config::data_format;
  const auto format = job.data.format;
  if (format == data_format::text || format == data_format::json) return false;
  if (format != data_format::automatic) return true;
  const auto sources = job.data.sources();
  return std::all_of(sources.begin(), sources.end(), [](const config::source_spec& s) {
    return std::all_of(s.path.begin(), s.path.end(),
                       [](const std::string& p) { return io::names_tokens(p); });
  });
}

bool is_models_tokenizer(const config::job& job) {
  if (job.model.path.empty()) return false;
  if (job.data.tokenizer == "bytes") return ready_tokens(job);
  const std::filesystem::path named(job.data.tokenizer), folder(job.model.path);
  std::error_code ignored;
  return std::filesystem::equivalent(named, folder, ignored) ||
         std::filesystem::equivalent(named.parent_path(), folder, ignored);
}

result<io::tokenizer_ptr> tokenizer_of(const config::job& job) {
  if (ready_tokens(job) && job.data.tokenizer == "bytes") return io::tokenizer_ptr{};
  auto words = io::make_tokenizer(job.data.tokenizer);
  if (!words) return not_fetched(words.error());
  if (job.data.add_bos == config::or_auto<bool>{}) return words;
  return io::with_bos(std::move(*words), job.data.add_bos.value_or(false));
}

result<std::optional<int32_t>> document_end_of(const config::job& job, int64_t vocab) {
  const auto& data = job.data;
  if (!data.reset_attention) return std::optional<int32_t>();
  if (data.document_end >= vocab) return document_end_beyond(data.document_end, vocab);
  if (data.document_end >= 0) return std::optional(static_cast<int32_t>(data.document_end));
  // Ready tokens that come without a tokenizer were made by that of the model which they train.
  const bool of_model = data.tokenizer == "bytes" && is_models_tokenizer(job);
  const auto words = of_model ? io::make_tokenizer(job.model.path) : tokenizer_of(job);
  if (!words) return words.error().within("what ends a document (data.document_end)");
  const auto id = *words ? (*words)->end_of_text() : std::nullopt;
  if (!id)
    return document_end_unknown(of_model            ? job.model.path
                                : ready_tokens(job) ? "a file of tokens"
                                                    : fmt::format("\"{}\"", data.tokenizer));
  if (*id >= vocab) return end_of_text_beyond(*id, vocab);
  return id;
}

result<job_plan> make_plan(const config::job& job) {
  job_plan plan;
  plan.job = job;
  if (!is_models_tokenizer(job)) {
    auto tokens = tokenizer_of(job);
    const bool needed = job.model.vocab == 0 && job.model.path.empty();
    if (needed && !tokens) return missing("data.tokenizer", tokens.error());
    if (needed && !*tokens)
      return error{errc::bad_config, "the size of the vocabulary is not known",
                   "set model.vocab: a .bin file does not say which tokenizer made it"};
    if (needed) plan.job.model.vocab = (*tokens)->vocab_size();
    if (tokens && *tokens) {
      plan.bos_token = (*tokens)->frame().bos;
      plan.eos_token = (*tokens)->end_of_text();
    }
  }
  TROUPE_TRY(model, model_of(plan.job));
  plan.model = model;
  TROUPE_TRY(document_end, document_end_of(job, model.vocab));
  if (document_end) plan.job.data.document_end = *document_end;
  plan.micro_batches = job.micro_batches();
  if (job.parallel.pipeline > model.layers)
    return error{errc::bad_config,
                 fmt::format("{} layers cannot fill {} pipeline stages", model.layers,
                             job.parallel.pipeline),
                 "every stage needs a layer: lower parallel.pipeline"};
  TROUPE_CHECK(place_stages(plan));
  return plan;
}

status place_stages(job_plan& plan) {
  const auto& job = plan.job;
  const auto& asked = job.parallel;
  auto layers = asked.stage_layers();
  if (!asked.layers.empty()) {
    if (!layers) layers.emplace();
    const auto sum = std::accumulate(layers->begin(), layers->end(), int64_t{0});
    if (std::ssize(*layers) != asked.pipeline || sum != plan.model.layers)
      return stage_layers_unfit(asked.layers, asked.pipeline, plan.model.layers, layers->size(),
                                sum);
  }
  cluster_shape shape;
  for (const auto& node : job.cluster.node)
    if (!node.spare) shape.workers.push_back(node.workers);
  shape.grid = job.grid();
  for (const auto& s : layers ? gpu::cut_stages(*layers)
                              : gpu::split_stages(plan.model, asked.pipeline, job.train.seq_len))
    shape.stages.push_back({s.first_layer, s.last_layer});
  TROUPE_TRY(ranks, place_ranks(shape));
  plan.ranks = std::move(ranks);
  return {};
}

bool is_split_open(const config::job& job) {
  const auto& p = job.parallel;
  return p.placement == config::stage_placement::measured && p.pipeline > 1 && p.layers.empty();
}

status settle_layers(job_plan& plan, const std::string& layers, const std::string& nodes) {
  auto settled = plan;
  if (!nodes.empty()) settled.job.parallel.nodes = nodes;
  if (!settled.job.order_nodes()) return node_order_unfit(settled.job.parallel.nodes);
  settled.job.parallel.layers = layers;
  settled.job.parallel.placement = config::stage_placement::even;
  TROUPE_CHECK(place_stages(settled));
  plan = std::move(settled);
  return {};
}

std::string stage_layers_text(const job_plan& plan) {
  std::string out;
  for (const auto& r : plan.ranks)
    if (r.at.place().data == 0)
      out += fmt::format("{}{}", out.empty() ? "" : ",", r.layers.last - r.layers.first);
  return out;
}

config::job recorded_job(const job_plan& plan) {
  auto job = plan.job;
  if (job.parallel.pipeline > 1 && !is_split_open(job))
    job.parallel.layers = stage_layers_text(plan);
  return job;
}

gpu::stage_shape shape_of(const config::job& job, const grid_rank& at, layer_range layers) {
  gpu::stage_shape s;
  s.first_layer = layers.first;
  s.last_layer = layers.last;
  s.has_embedding = at.first();
  s.has_head = at.last();
  s.micro_batch = job.train.micro_batch;
  s.seq = job.train.seq_len;
  s.compute = job.model.dtype == config::compute_dtype::bf16 ? gpu::dtype::bf16 : gpu::dtype::f32;
  s.documents = job.data.reset_attention;
  s.recompute = job.model.recompute;
  if (!job.swap.dir.empty() && job.swap.keep_layers >= 0)
    s.activations = gpu::choices_by_layer(
        {job.swap.keep_layers, job.swap.half_layers, std::max<int64_t>(0, job.swap.spill_layers)},
        s.layers());
  s.replica = {at.place().data, at.grid.data};
  if (job.train.stochastic_rounding) s.rounding_seed = static_cast<uint64_t>(job.job.seed);
  s.decay = job.train.decay == config::decay_scope::all ? gpu::decay_scope::all
                                                        : gpu::decay_scope::matrices;
  return s;
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
