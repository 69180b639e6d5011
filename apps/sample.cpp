// A model that goes on from texts. See sample.hpp.
#include "apps/sample.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/job/catalog.hpp"
#include "actors/job/plan.hpp"
#include "apps/ckpt/verbs.hpp"
#include "apps/growing_text.hpp"
#include "gpu/back_end.hpp"
#include "gpu/model/hf_folder.hpp"
#include "gpu/model/saved_state.hpp"
#include "gpu/model/stage_shape.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"
#include "io/formats/hf_config.hpp"
#include "io/formats/json_text.hpp"
#include "io/formats/model_folder.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_generation_config_bytes = 1 << 20;

/// The folder with the model that a name stands for.
result<fs::path> model_at(const std::string& name) {
  const fs::path named(name);
  std::error_code ignored;
  if (!fs::exists(named, ignored))
    return error{errc::not_found, fmt::format("{}: not found", name),
                 "expected a checkpoint, a folder of checkpoints, a run's folder or a Hugging Face "
                 "folder"};
  if (checkpoint::is_checkpoint(named) || fs::exists(named / "config.json", ignored)) return named;
  return ckpt::find(name);
}

/// The job that a checkpoint of ours was trained by; nothing where it does not say.
result<std::optional<config::job>> job_of(const io::checkpoint::reader& from) {
  TROUPE_TRY(text, from.read_file(std::string(checkpoint::state_file)));
  TROUPE_TRY(state, checkpoint::parse_state(text));
  if (state.config_toml.empty()) return std::optional<config::job>();
  TROUPE_TRY(job, config::parse(state.config_toml, checkpoint::state_file));
  return std::optional(std::move(job));
}

/// The folder's own, else the one that the training was configured with. Bytes are bytes: as the
/// job's word they take every prompt, valid UTF-8 or not.
result<io::tokenizer_ptr> own_tokenizer(const fs::path& folder,
                                        const std::optional<config::job>& job) {
  const bool bytes = job && job->data.tokenizer == "bytes" && !train::ready_tokens(*job);
  if (bytes) return io::make_tokenizer("bytes");
  auto own = io::make_tokenizer(folder.string());
  if (own || own.error().code != errc::not_found) return own;
  if (job) return io::make_tokenizer(job->data.tokenizer);
  return error{errc::bad_config, fmt::format("{} has no tokenizer", folder.string()),
               "name one with --tokenizer (a tokenizer.json, or bytes)"};
}

/// The named tokenizer, else the model's, with BOS as the job had it.
result<io::tokenizer_ptr> tokenizer_for(const std::string& named, const fs::path& folder,
                                        const std::optional<io::checkpoint::reader>& from) {
  std::optional<config::job> job;
  if (from) {
    TROUPE_TRY(trained_by, job_of(*from));
    job = std::move(trained_by);
  }
  auto words = named.empty() ? own_tokenizer(folder, job) : io::make_tokenizer(named);
  if (!words || !job || job->data.add_bos == config::or_auto<bool>{}) return words;
  return io::with_bos(std::move(*words), job->data.add_bos.value_or(false));
}

/// The small files of a checkpoint are used by their names: each must be as it was written. Of the
/// shards, what is read is checked as it is read (RD-1).
status check_small_files(const io::checkpoint::reader& from) {
  for (const auto& f : from.content().files)
    if (!f.shard) TROUPE_CHECK(from.read_file(f.name));
  return {};
}

/// What generation_config.json says; null without one.
result<nlohmann::json> generation_config_of(const fs::path& folder) {
  const auto path = folder / io::generation_config_file;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return nlohmann::json();
  TROUPE_TRY(text, io::read_file(path, max_generation_config_bytes));
  auto config = io::parse_json(text);
  if (!config) return config.error().within(path.string());
  if (!config->is_object())
    return error{errc::bad_data, fmt::format("{}: not an object", path.string()),
                 "expected what transformers' save_pretrained writes; without the file sampling is "
                 "plain"};
  return config;
}

/// A number of a key, where it is there and makes sense; a file that says nonsense is told of.
template <class T>
result<std::optional<T>> number_in(const nlohmann::json& config, const char* key, T least, T most) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::optional<T>();
  if (found->is_number()) {
    const auto value = found->get<double>();
    if (value >= static_cast<double>(least) && value <= static_cast<double>(most))
      return std::optional<T>(found->get<T>());
  }
  return error{errc::bad_data,
               fmt::format("{}: \"{}\" is {}, expected a number from {} to {}",
                           io::generation_config_file, key, io::shown(found->dump()), least, most),
               "correct the file, or take it away"};
}

/// Keys that change what transformers generates, and what they are where they change nothing.
constexpr std::pair<const char*, double> not_done[] = {{"typical_p", 1},
                                                       {"min_p", 0},
                                                       {"num_beams", 1},
                                                       {"no_repeat_ngram_size", 0},
                                                       {"encoder_repetition_penalty", 1},
                                                       {"encoder_no_repeat_ngram_size", 0},
                                                       {"exponential_decay_length_penalty", 0},
                                                       {"guidance_scale", 1},
                                                       {"sequence_bias", 0},
                                                       {"min_length", 0},
                                                       {"penalty_alpha", 0},
                                                       {"epsilon_cutoff", 0},
                                                       {"eta_cutoff", 0},
                                                       {"min_new_tokens", 0},
                                                       {"suppress_tokens", 0},
                                                       {"bad_words_ids", 0},
                                                       {"begin_suppress_tokens", 0},
                                                       {"forced_bos_token_id", 0},
                                                       {"forced_eos_token_id", 0}};

/// A sentence for each that is there and would change something.
std::vector<std::string> notes_of(const nlohmann::json& config) {
  std::vector<std::string> out;
  for (const auto& [key, neutral] : not_done) {
    if (!config.is_object() || !config.contains(key)) continue;
    const auto& value = config[key];
    if (value.is_null() || (value.is_number() && value.get<double>() == neutral)) continue;
    out.push_back(fmt::format("{}: \"{}\" = {} is not supported: it is left out",
                              io::generation_config_file, key, io::shown(value.dump())));
  }
  return out;
}

/// What a person said, else what the file says: transformers samples only where do_sample is true,
/// and then with top_k 50 unless it says otherwise; repetition it penalises either way.
result<gpu::sampling_options> sampling_of(const picking& said, const nlohmann::json& file) {
  const auto config = file.is_null() ? nlohmann::json::object() : file;
  TROUPE_TRY(temperature, number_in(config, "temperature", 0.0, 1e6));
  TROUPE_TRY(top_k, number_in(config, "top_k", int64_t{0}, int64_t{1} << 31));
  TROUPE_TRY(top_p, number_in(config, "top_p", 0.0, 1.0));
  TROUPE_TRY(penalty, number_in(config, "repetition_penalty", 1e-6, 1e6));
  gpu::sampling_options out;
  out.seed = said.seed;
  if (!file.is_null()) {
    const bool samples = config.value("do_sample", nlohmann::json(false)) == true;
    out.temperature = samples ? temperature.value_or(1.0) : 0.0;
    out.top_k = top_k.value_or(50);
    out.top_p = top_p.value_or(1.0);
  }
  out.temperature = said.temperature.value_or(out.temperature);
  out.top_k = said.top_k.value_or(out.top_k);
  out.top_p = said.top_p.value_or(out.top_p);
  out.repetition_penalty = said.repetition_penalty.value_or(penalty.value_or(1.0));
  return out;
}

/// The ids that end a text (TXM-1).
result<std::vector<int32_t>> stops_of(const nlohmann::json& generation, const fs::path& folder,
                                      const io::tokenizer& words) {
  std::vector<int32_t> out;
  const auto add = [&](const nlohmann::json& id) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < uint64_t{1} << 31)
      out.push_back(id.get<int32_t>());
  };
  const auto eos =
      generation.is_null() ? nlohmann::json() : generation.value("eos_token_id", nlohmann::json());
  if (eos.is_array())
    for (const auto& id : eos) add(id);
  else
    add(eos);
  if (!out.empty()) return out;
  TROUPE_TRY(config, io::read_hf_config(folder));
  for (const int64_t id : config.eos_token_ids) out.push_back(static_cast<int32_t>(id));
  if (const auto end = words.end_of_text(); end && out.empty()) out.push_back(*end);
  return out;
}

}  // namespace

struct text_model::parts {
  fs::path folder;
  sample_options options;
  io::tokenizer_ptr words;
  model_config model;
  std::unique_ptr<gpu::device> device;
  std::unique_ptr<gpu::parameter_store> store;
  gpu::generate_options generate;
  std::vector<std::string> notes;

  bool wanted() const { return !options.wanted || options.wanted(); }
};

text_model::text_model(std::unique_ptr<parts> made) : parts_(std::move(made)) {}
text_model::~text_model() = default;

const fs::path& text_model::folder() const {
  return parts_->folder;
}

const std::vector<std::string>& text_model::notes() const {
  return parts_->notes;
}

result<std::unique_ptr<text_model>> text_model::open(const sample_options& options) {
  auto made = std::make_unique<parts>();
  made->options = options;
  TROUPE_TRY(folder, model_at(options.checkpoint));
  made->folder = folder;
  std::optional<io::checkpoint::reader> from;
  std::optional<io::checkpoint::reading> held;  // a job may go on, and give it up
  if (checkpoint::is_checkpoint(folder)) {
    TROUPE_TRY(reads, io::checkpoint::reading::begin(folder));
    held.emplace(std::move(reads));
    TROUPE_TRY(opened, io::checkpoint::reader::open(folder));
    from.emplace(std::move(opened));
    TROUPE_CHECK(check_small_files(*from));
  }
  TROUPE_TRY(words, tokenizer_for(options.tokenizer, folder, from));
  made->words = words;
  TROUPE_TRY(generation, generation_config_of(folder));
  TROUPE_TRY(sampling, sampling_of(options.pick, generation));
  made->notes = notes_of(generation);
  TROUPE_TRY(stops, stops_of(generation, folder, *words));
  made->generate = {options.pick.max_tokens, sampling, std::move(stops), words->vocab_size()};
  const error cancelled{errc::cancelled, "interrupted"};
  if (!made->wanted()) return cancelled;
  TROUPE_TRY(model, gpu::read_folder_model(folder));
  made->model = model;
  TROUPE_TRY(device, gpu::open_device(options.device, options.threads));
  made->device = std::move(device);
  auto shape = gpu::whole_model(model, 1, model.max_positions, options.compute);
  shape.training = false;
  TROUPE_TRY(store, gpu::parameter_store::make(*made->device, gpu::stage_chunks(model, shape),
                                               {options.compute, false}));
  made->store = std::move(store);
  if (from)
    TROUPE_CHECK(gpu::restore_state(*made->store, *from, gpu::restored::weights));
  else
    TROUPE_CHECK(gpu::load_weights(*made->store, model, folder));
  if (!made->wanted()) return cancelled;
  return std::unique_ptr<text_model>(new text_model(std::move(made)));
}

result<continuation> text_model::go_on(const std::string& prompt,
                                       const std::function<void(std::string_view)>& on_text) {
  auto& p = *parts_;
  std::vector<int32_t> ids = p.words->frame().first;
  TROUPE_TRY(text_ids, p.words->encode(prompt));
  ids.insert(ids.end(), text_ids.begin(), text_ids.end());
  if (ids.empty()) return error{errc::usage, "the prompt is empty", "give --prompt some text"};
  const int64_t more = std::min(p.options.pick.max_tokens, p.model.max_positions);
  const int64_t needed = std::ssize(ids) + more;
  TROUPE_TRY(generator,
             gpu::generator::make(*p.store, p.model, std::min(needed, p.model.max_positions),
                                  p.options.threads));
  std::vector<int32_t> sofar;
  growing_text shown(on_text);
  const auto on_token = [&](int32_t id) {
    sofar.push_back(id);
    if (!on_text) return p.wanted();
    if (auto text = p.words->decode(sofar)) shown.is_now(*text);
    return p.wanted();
  };
  TROUPE_TRY(made, generator->run(ids, p.generate, on_token));
  if (!p.wanted()) return error{errc::cancelled, "interrupted"};
  TROUPE_TRY(text, p.words->decode(made));
  shown.is_whole(text);
  text.resize(text.size() - cut_character_bytes(text));
  return continuation{std::move(text), std::move(made)};
}

}  // namespace troupe::apps
