// `troupe generate`: text from a checkpoint.
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/job/catalog.hpp"
#include "apps/commands.hpp"
#include "apps/sample.hpp"
#include "gpu/model/hf_folder.hpp"
#include "gpu/model/saved_state.hpp"
#include "gpu/model/stage_shape.hpp"
#include "io/config/load.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::apps {

namespace {

/// The named tokenizer; else one in the folder; else the one the training was configured with.
result<io::tokenizer_ptr> tokenizer_for(const sample_options& options,
                                        const std::optional<io::checkpoint::reader>& from) {
  if (!options.tokenizer.empty()) return io::make_tokenizer(options.tokenizer);
  if (auto own = io::make_tokenizer(options.checkpoint)) return own;
  const error none{errc::bad_config, fmt::format("{} has no tokenizer", options.checkpoint),
                   "name one with --tokenizer (a tokenizer.json, or bytes)"};
  if (!from) return none;
  TROUPE_TRY(text, from->read_file(std::string(checkpoint::state_file)));
  TROUPE_TRY(state, checkpoint::parse_state(text));
  if (state.config_toml.empty()) return none;
  TROUPE_TRY(job, config::parse(state.config_toml, checkpoint::state_file));
  return io::make_tokenizer(job.data.tokenizer);
}

/// The small files of a checkpoint are used by their names: each must be as it was written. Of the
/// shards, what is read is checked as it is read (RD-1).
status check_small_files(const io::checkpoint::reader& from) {
  for (const auto& f : from.content().files)
    if (!f.shard) TROUPE_CHECK(from.read_file(f.name));
  return {};
}

}  // namespace

result<std::string> sample(const sample_options& options,
                           const std::function<void(std::string_view)>& on_text) {
  std::optional<io::checkpoint::reader> from;
  if (checkpoint::is_checkpoint(options.checkpoint)) {
    TROUPE_TRY(opened, io::checkpoint::reader::open(options.checkpoint));
    from.emplace(std::move(opened));
    TROUPE_CHECK(check_small_files(*from));
  }
  TROUPE_TRY(words, tokenizer_for(options, from));
  const error cancelled{errc::cancelled, "interrupted"};
  auto wanted = [&] { return !options.wanted || options.wanted(); };
  if (!wanted()) return cancelled;
  TROUPE_TRY(model, gpu::read_folder_model(options.checkpoint));
  auto device = gpu::make_host_device(options.threads);
  auto shape = gpu::whole_model(model, 1, model.max_positions, gpu::dtype::f32);
  TROUPE_TRY(store, gpu::parameter_store::make(*device, gpu::stage_chunks(model, shape),
                                               {gpu::dtype::f32, false}));
  if (from)
    TROUPE_CHECK(gpu::restore_state(*store, *from, gpu::restored::weights));
  else
    TROUPE_CHECK(gpu::load_weights(*store, model, std::filesystem::path(options.checkpoint)));
  TROUPE_TRY(prompt, words->encode(options.prompt));
  if (prompt.empty()) return error{errc::usage, "the prompt is empty", "give --prompt some text"};
  TROUPE_TRY(generator, gpu::generator::make(*store, model, 0, options.threads));
  auto generate = options.generate;
  if (auto end = words->end_of_text()) generate.stop_tokens.push_back(*end);
  std::vector<int32_t> sofar;
  size_t shown = 0;
  auto on_token = [&](int32_t id) {
    sofar.push_back(id);
    if (auto text = words->decode(sofar); text && on_text) {
      on_text(std::string_view(*text).substr(std::min(shown, text->size())));
      shown = text->size();
    }
    return wanted();
  };
  if (!wanted()) return cancelled;
  TROUPE_TRY(ids, generator->run(prompt, generate, on_token));
  if (!wanted()) return cancelled;
  return words->decode(ids);
}

void add_generate(shell& sh) {
  auto* verb = sh.app.add_subcommand("generate", "Sample text from a checkpoint");
  auto o = std::make_shared<sample_options>();
  auto json = std::make_shared<bool>(false);
  verb->add_option("--checkpoint", o->checkpoint,
                   "A step-NNNNNNNN folder, or a Hugging Face folder")
      ->required();
  verb->add_option("--prompt", o->prompt, "Text to go on from")->required();
  verb->add_option("--tokenizer", o->tokenizer, "bytes, or a tokenizer's file or folder");
  verb->add_option("--tokens", o->generate.max_tokens, "How many tokens at most")->positive();
  auto& s = o->generate.sampling;
  verb->add_option("--temperature", s.temperature, "0: always the likeliest token")->not_negative();
  verb->add_option("--top-k", s.top_k, "Only the k likeliest tokens; 0: all")->not_negative();
  verb->add_option("--top-p", s.top_p, "Only the likeliest tokens that together reach p")
      ->within(0.0, 1.0);
  verb->add_option("--seed", s.seed, "The same seed gives the same text");
  verb->add_option("--threads", o->threads, "0: all cores");
  verb->add_flag("--json", *json, "One JSON object with prompt and text");
  verb->footer(
      "Example:\n  troupe generate --checkpoint runs/quickstart/checkpoints/step-00000300 --prompt "
      "\"The \"");
  on_run(sh, verb, [o, json]() -> result<int> {
    if (*json) {
      TROUPE_TRY(text, sample(*o));
      nlohmann::ordered_json out{{"prompt", o->prompt}, {"text", text}};
      TROUPE_CHECK(
          print(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
      return 0;
    }
    TROUPE_CHECK(print_unchanged(o->prompt));
    TROUPE_TRY(text, sample(*o, [](std::string_view piece) {
                 static_cast<void>(print_unchanged(piece));
               }));
    TROUPE_CHECK(print("\n"));
    return 0;
  });
}

}  // namespace troupe::apps
