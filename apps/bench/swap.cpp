// `troupe bench swap`: the command line.
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/bench/swap_model.hpp"
#include "apps/bench/swap_run.hpp"
#include "apps/talk.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps {

namespace swap_bench {
namespace {

constexpr int64_t most_tokens = 1 << 20;

struct arguments {
  swap_plan plan;
  std::vector<std::string> models{"tiny"}, way_names;
  std::vector<std::string> tokens{"32", "128", "512"};
  uint64_t host_mib = 0;
  bool keeps_activations = false, json = false;
  std::string dir, table;
};

std::vector<std::string> all_ways() {
  std::vector<std::string> out;
  for (int w = 0; w < ways; ++w) out.emplace_back(to_string(static_cast<way>(w)));
  return out;
}

/// Errors: usage.
result<int64_t> number_of(const std::string& text) {
  int64_t out = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (wrong != std::errc() || end != text.data() + text.size() || out < 1 || out > most_tokens)
    return error{errc::usage,
                 fmt::format("invalid --tokens: {}, expected 1 to {}", text, most_tokens)};
  return out;
}

/// Model by model, batch by batch.
result<int> bench(const arguments& args) {
  TROUPE_TRY(interrupt, interrupt_watch::start());  // before any other thread
  const std::filesystem::path parent =
      args.dir.empty() ? std::filesystem::current_path() : std::filesystem::absolute(args.dir);
  TROUPE_TRY(folder, io::scratch_folder::make(parent, "troupe-swap-"));
  auto plan = args.plan;
  plan.dir = folder.path();
  plan.stop = &interrupt->asked();
  plan.recompute = !args.keeps_activations;
  plan.host_bytes = args.host_mib << 20;
  if (!args.way_names.empty()) plan.ways.clear();
  for (int w = 0; w < ways; ++w)
    for (const auto& name : args.way_names)
      if (name == to_string(static_cast<way>(w))) plan.ways.push_back(static_cast<way>(w));
  nlohmann::ordered_json all{{"bench", "swap"}, {"rows", nlohmann::json::array()}};
  for (const auto& model : args.models)
    for (const auto& tokens : args.tokens) {
      TROUPE_TRY(number, number_of(tokens));
      plan.model = model;
      plan.tokens = number;
      TROUPE_TRY(measured, measure_swap(plan));
      if (args.json)
        all["rows"].push_back(json(measured));
      else
        TROUPE_CHECK(print(text(measured) + "\n"));
    }
  if (args.json) TROUPE_CHECK(print(all.dump() + "\n"));
  return 0;
}

result<int> check_model(const arguments& args) {
  TROUPE_TRY(told, model_check(args.table, args.json));
  TROUPE_CHECK(print(told));
  return 0;
}

}  // namespace
}  // namespace swap_bench

void add_bench_swap(shell& sh, command* bench) {
  using namespace swap_bench;
  auto* verb = bench->add_subcommand("swap", "Training whose state lives on a drive");
  verb->footer(
      "Every way makes the same steps in turn, and must come to the same losses and state.\n"
      "Examples:\n"
      "  troupe bench swap --model gpt2-124m --tokens 128 --dir /nvme\n"
      "  troupe bench swap --model-check runs.csv");
  auto args = std::make_shared<arguments>();
  verb->add_option("--model", args->models, "Of `troupe bench train`")
      ->delimiter(',')
      ->one_of(train_models());
  verb->add_option("--tokens", args->tokens, "Tokens of a step, one sequence")->delimiter(',');
  verb->add_option("--dtype", args->plan.dtype, "f32 or bf16")->one_of({"f32", "bf16"});
  verb->add_option("--layers", args->plan.layers, "So many layers of the model")
      ->within(int64_t{0}, int64_t{1} << 20);
  verb->add_option("--clip", args->plan.clip_norm, "train.clip_norm; 0: none")->within(0.0, 1e30);
  verb->add_option("--host-mib", args->host_mib,
                   "Memory of the stage, MiB; without it the least that it can be trained with");
  verb->add_option("--ways", args->way_names, "Only these, e.g. ours,sync")
      ->delimiter(',')
      ->one_of(all_ways());
  verb->add_option("--rounds", args->plan.rounds, "Interleaved rounds")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--steps", args->plan.steps, "Steps of each way in a round")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_flag("--keep-activations", args->keeps_activations, "Nothing is computed again");
  verb->add_option("--dir", args->dir,
                   "On the drive: a temporary folder is made there, and removed; without it the "
                   "working folder");
  verb->add_option("--model-check", args->table,
                   "Compare the limit model with the runs of this table (CSV), and train nothing");
  verb->add_flag("--json", args->json, "As one JSON object");
  on_run(sh, verb,
         [args] { return args->table.empty() ? swap_bench::bench(*args) : check_model(*args); });
}

}  // namespace troupe::apps
