// `troupe generate`: text from a checkpoint, after one prompt, each line of a file, or what a
// person types.
#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "apps/sample.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

constexpr size_t max_prompts_bytes = 64 << 20;

struct generate_arguments {
  sample_options sample;
  std::string prompt, prompts, dtype = "float32";
  double temperature = 1, top_p = 1, repetition_penalty = 1;
  int64_t top_k = 0;
  bool json = false;
};

status tell(const std::string& prompt, const continuation& made) {
  const nlohmann::ordered_json out{
      {"prompt", prompt}, {"text", made.text}, {"tokens", made.tokens}};
  return print(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

/// The prompt, and what the model goes on with. A file or a pipe gets each byte of it; a terminal
/// acts on some, and a model of bytes makes any (SH-5); none gets a part of a character at the end.
status answer(text_model& model, const std::string& prompt, bool json) {
  if (json) {
    TROUPE_TRY(made, model.go_on(prompt));
    return tell(prompt, made);
  }
  const auto show = isatty(STDOUT_FILENO) != 0 ? &print : &print_unchanged;
  TROUPE_CHECK(show(prompt));
  status printed;
  TROUPE_TRY(made, model.go_on(prompt, [&](std::string_view piece) {
    if (printed) printed = show(piece);
  }));
  TROUPE_CHECK(printed);
  return print("\n");
}

/// All of stdin, as long as a file of prompts may be.
result<std::string> read_stdin() {
  std::string text;
  std::vector<char> piece(1 << 16);
  do {
    std::cin.read(piece.data(), std::ssize(piece));
    text.append(piece.data(), static_cast<size_t>(std::cin.gcount()));
  } while (std::cin && text.size() <= max_prompts_bytes);
  if (text.size() > max_prompts_bytes)
    return error{errc::bad_data,
                 fmt::format("stdin has more than {} bytes of prompts", max_prompts_bytes),
                 "part them into several calls"};
  return text;
}

/// A prompt and the number of its line.
struct numbered_prompt {
  size_t line;
  std::string text;
};

/// Lines of a file, "-": of stdin. Empty ones are no prompts.
result<std::vector<numbered_prompt>> lines_of(const std::string& file) {
  TROUPE_TRY(text, file == "-" ? read_stdin() : io::read_file(file, max_prompts_bytes));
  std::vector<numbered_prompt> out;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    auto line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) out.push_back({number, std::move(line)});
  }
  return out;
}

/// A person at a terminal: each line is a prompt of its own.
status converse(text_model& model, bool json) {
  say(fmt::format("{}: type a text to go on from; Ctrl-D ends", model.folder().string()));
  std::string line;
  for (say_as_is("> "); std::getline(std::cin, line); say_as_is("> ")) {
    if (line.empty()) continue;
    if (auto answered = answer(model, line, json); !answered) say(answered.error());
  }
  say("");
  return {};
}

result<int> generate(generate_arguments& a, bool prompt_given) {
  if (prompt_given && !a.prompts.empty())
    return error{errc::usage, "--prompt and --prompts exclude each other", "give one of them"};
  if (a.dtype == "bfloat16" || a.dtype == "bf16") a.sample.compute = gpu::dtype::bf16;
  TROUPE_TRY(model, text_model::open(a.sample));
  for (const auto& note : model->notes()) say("warning: " + note);
  if (!a.prompts.empty()) {
    TROUPE_TRY(prompts, lines_of(a.prompts));
    for (const auto& prompt : prompts)
      if (auto answered = answer(*model, prompt.text, a.json); !answered)
        return answered.error().within(fmt::format("{}: line {}", a.prompts, prompt.line));
  } else if (prompt_given) {
    TROUPE_CHECK(answer(*model, a.prompt, a.json));
  } else if (isatty(STDIN_FILENO) != 0) {
    TROUPE_CHECK(converse(*model, a.json));
  } else {
    TROUPE_TRY(prompt, read_stdin());
    if (prompt.ends_with('\n')) prompt.pop_back();  // echo's
    TROUPE_CHECK(answer(*model, prompt, a.json));
  }
  return 0;
}

}  // namespace

void add_generate(shell& sh) {
  auto* verb = sh.app.add_subcommand("generate", "Sample text from a checkpoint");
  auto a = std::make_shared<generate_arguments>();
  verb->add_option("--checkpoint", a->sample.checkpoint,
                   "A step-NNNNNNNN folder, the folder of checkpoints or of the run (the newest "
                   "counts), or a Hugging Face folder")
      ->required();
  auto* prompt = verb->add_option("--prompt", a->prompt,
                                  "Text to go on from; without it stdin, a terminal line by line");
  verb->add_option("--prompts", a->prompts, "A file with a prompt on each line; - for stdin");
  verb->add_option("--tokenizer", a->sample.tokenizer, "bytes, or a tokenizer's file or folder");
  verb->add_option("--tokens", a->sample.pick.max_tokens, "How many tokens at most")
      ->capture_default_str()
      ->positive();
  auto* temperature = verb->add_option("--temperature", a->temperature,
                                       "0: always the likeliest token; by default as the folder's "
                                       "generation_config.json says, 1 without it")
                          ->not_negative();
  auto* top_k =
      verb->add_option("--top-k", a->top_k, "Only the k likeliest tokens; 0: all; the same default")
          ->not_negative();
  auto* top_p =
      verb->add_option("--top-p", a->top_p,
                       "Only the likeliest tokens that together reach p; the same default")
          ->within(0.0, 1.0);
  auto* penalty = verb->add_option("--repetition-penalty", a->repetition_penalty,
                                   "Above 1: tokens of the prompt and of the text so far are less "
                                   "likely to come again; 1: off; the same default")
                      ->within(1e-6, 1e6);
  verb->add_option("--seed", a->sample.pick.seed, "The same seed gives the same text")
      ->capture_default_str();
  verb->add_option("--dtype", a->dtype, "What is computed in: float32 or bfloat16 (bf16)")
      ->capture_default_str()
      ->one_of({"float32", "bfloat16", "f32", "bf16"});
  verb->add_option("--device", a->sample.device, "host, cuda or cuda:N")->capture_default_str();
  verb->add_option("--threads", a->sample.threads, "Of the host; 0: all cores")
      ->capture_default_str();
  verb->add_flag("--json", a->json, "A JSON object with prompt, text and its tokens, a line each");
  verb->footer(
      "Examples:\n  troupe generate --checkpoint runs/quickstart --prompt \"The \"\n"
      "  troupe generate --checkpoint runs/quickstart/model --prompts prompts.txt --json");
  on_run(sh, verb, [a, prompt, temperature, top_k, top_p, penalty]() -> result<int> {
    if (temperature->count() > 0) a->sample.pick.temperature = a->temperature;
    if (top_k->count() > 0) a->sample.pick.top_k = a->top_k;
    if (top_p->count() > 0) a->sample.pick.top_p = a->top_p;
    if (penalty->count() > 0) a->sample.pick.repetition_penalty = a->repetition_penalty;
    return generate(*a, prompt->count() > 0);
  });
}

}  // namespace troupe::apps
