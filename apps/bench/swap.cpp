// `troupe bench swap`: the command line.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/job/plan.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/swap_folder.hpp"
#include "apps/bench/bench.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/bench/leftovers.hpp"
#include "apps/bench/swap_aims.hpp"
#include "apps/bench/swap_largest.hpp"
#include "apps/bench/swap_model.hpp"
#include "apps/bench/swap_run.hpp"
#include "apps/job_arguments.hpp"
#include "apps/talk.hpp"
#include "gpu/back_end.hpp"

namespace troupe::apps {

namespace swap_bench {
namespace {

constexpr int64_t most_tokens = 1 << 20;
constexpr int64_t most_host_mib = int64_t{1} << 30;

struct arguments {
  swap_plan plan;
  std::vector<std::string> models, way_names;
  std::vector<std::string> tokens{"32", "128", "512"}, host_mib;
  bool keeps_activations = false, checkpoints = false, largest = false, json = false;
  std::string dir, table, config, sweep;
  /// Of what a job says, too: by their names.
  std::vector<std::pair<std::string, const argument*>> of_job;
};

std::vector<std::string> all_ways() {
  std::vector<std::string> out;
  for (int w = 0; w < ways; ++w) out.emplace_back(to_string(static_cast<way>(w)));
  return out;
}

/// Errors: usage.
result<int64_t> number_of(std::string_view option, const std::string& text, int64_t most) {
  int64_t out = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (wrong != std::errc() || end != text.data() + text.size() || out < 1 || out > most)
    return error{errc::usage, fmt::format("invalid {}: {}, expected 1 to {}", option, text, most)};
  return out;
}

/// Those named, in the order of the others; without names all but that with checkpoints and that
/// without files for weights, or those that are swept.
std::vector<way> ways_of(const arguments& args) {
  std::vector<way> out;
  for (int w = 0; w < ways; ++w) {
    const auto one = static_cast<way>(w);
    const bool extra = one == way::saving || one == way::derived;
    const bool usual = args.sweep.empty() ? !extra && !is_swept(one) : is_swept(one);
    bool wanted = args.way_names.empty() && usual;
    for (const auto& name : args.way_names) wanted = wanted || name == to_string(one);
    if (wanted || (one == way::saving && args.checkpoints)) out.push_back(one);
  }
  return out;
}

/// The model of a job, and how it trains it. Errors: as of loading and planning it; usage where it
/// is given beside --model, or has several ranks.
status take_job(const arguments& args, swap_plan& plan) {
  for (const auto& [name, option] : args.of_job)
    if (option->count() > 0)
      return error{errc::usage, fmt::format("{} is given, and --config says it, too", name),
                   "leave one of them out"};
  const job_arguments from{args.config, {}};
  TROUPE_TRY(loaded, config::load(from.sources()));
  TROUPE_TRY(planned, train::make_plan(loaded.value));
  if (planned.ranks.size() != 1)
    return error{
        errc::usage,
        fmt::format("{} has {} ranks, and this measures one", args.config, planned.ranks.size()),
        "parallel.data = 1 and parallel.pipeline = 1"};
  auto& job = planned.job;
  if (job.train.optimizer != config::optimizer_kind::adamw)
    return error{errc::usage, "this measures AdamW, and the job has another optimizer",
                 "train.optimizer = \"adamw\""};
  plan.model = job.job.name;
  plan.of_job = planned.model;
  plan.dtype = job.model.dtype == config::compute_dtype::bf16 ? "bf16" : "f32";
  plan.recompute = job.model.recompute;
  plan.clip_norm = job.train.clip_norm;
  if (job.swap.dir.empty()) return {};
  train::settle_host_bytes(job, train::this_machine(job.cluster).memory_bytes);
  const auto& rank = planned.ranks.front();
  const auto o =
      train::options_of(job, planned.model, rank.at, rank.layers, train::threads_here(job.cluster));
  plan.host_bytes = train::swap_budget_bytes(job, o);
  return {};
}

/// What is measured of each model and number of tokens.
result<swap_plan> base_of(const arguments& args, const std::filesystem::path& dir,
                          const std::atomic<bool>& stop) {
  auto plan = args.plan;
  plan.dir = dir;
  plan.stop = &stop;
  plan.recompute = !args.keeps_activations;
  plan.ways = ways_of(args);
  if (!args.config.empty()) TROUPE_CHECK(take_job(args, plan));
  if (args.host_mib.size() > 1 && !args.largest)
    return error{errc::usage, "several --host-mib are for --largest"};
  if (args.host_mib.size() == 1) {
    TROUPE_TRY(mib, number_of("--host-mib", args.host_mib.front(), most_host_mib));
    plan.host_bytes = static_cast<uint64_t>(mib) << 20;
  }
  const bool sweeps = std::any_of(plan.ways.begin(), plan.ways.end(), is_swept);
  if (sweeps && plan.host_bytes == 0 && !args.largest)
    return error{errc::usage, "what layers keep is compared in the same memory",
                 "give it with --host-mib, or with a --config that has swap.host_bytes"};
  return plan;
}

std::vector<std::string> models_of(const arguments& args, const swap_plan& plan) {
  if (plan.of_job) return {plan.model};
  return args.models.empty() ? std::vector<std::string>{"tiny"} : args.models;
}

result<std::vector<int64_t>> tokens_of(const arguments& args) {
  std::vector<int64_t> out;
  for (const auto& text : args.tokens) {
    TROUPE_TRY(number, number_of("--tokens", text, most_tokens));
    out.push_back(number);
  }
  return out;
}

/// Model by model, batch by batch.
status run_grid(const arguments& args, swap_plan plan, const std::vector<int64_t>& tokens) {
  nlohmann::ordered_json all{{"bench", "swap"}, {"rows", nlohmann::json::array()}};
  std::vector<swap_measurement> rows;
  for (const auto& model : models_of(args, plan))
    for (const auto number : tokens) {
      plan.model = model;
      plan.tokens = number;
      TROUPE_TRY(measured, measure_swap(plan));
      if (args.json)
        all["rows"].push_back(json(measured));
      else
        TROUPE_CHECK(print(text(measured) + "\n"));
      rows.push_back(std::move(measured));
    }
  const auto aims = aims_of(rows);
  if (!args.json) return print(text(aims));
  all["aims"] = json(aims);
  return print(all.dump() + "\n");
}

/// Budget by budget, of one model and number of tokens.
status run_largest(const arguments& args, swap_plan plan, const std::vector<int64_t>& tokens) {
  const auto models = models_of(args, plan);
  if (args.host_mib.empty() || models.size() != 1 || tokens.size() != 1)
    return error{errc::usage,
                 "--largest is of one model and one number of tokens, and of the "
                 "budgets that --host-mib gives"};
  plan.model = models.front();
  plan.tokens = tokens.front();
  std::vector<largest_row> rows;
  for (const auto& budget : args.host_mib) {
    TROUPE_TRY(mib, number_of("--host-mib", budget, most_host_mib));
    plan.host_bytes = static_cast<uint64_t>(mib) << 20;
    TROUPE_TRY(row, measure_largest(plan));
    rows.push_back(row);
  }
  return print(args.json ? json(rows, plan).dump() + "\n" : text(rows, plan));
}

result<int> bench(const arguments& args) {
  TROUPE_TRY(interrupt, interrupt_watch::start());  // before any other thread
  const std::filesystem::path parent =
      args.dir.empty() ? std::filesystem::current_path() : std::filesystem::absolute(args.dir);
  TROUPE_TRY(tokens, tokens_of(args));
  if (args.plan.device != "host")  // before anything is written
    TROUPE_CHECK(gpu::open_device(args.plan.device));
  TROUPE_TRY(folder, io::held_scratch::make(parent, "troupe-swap-"));
  say_removed(folder);
  TROUPE_TRY(plan, base_of(args, folder.path(), interrupt->asked()));
  TROUPE_CHECK(args.largest ? run_largest(args, plan, tokens) : run_grid(args, plan, tokens));
  return 0;
}

result<int> check_model(const arguments& args) {
  TROUPE_TRY(told, model_check(args.table, args.json));
  TROUPE_CHECK(print(told));
  return 0;
}

void add_what(command* verb, arguments& args) {
  const auto of_job = [&args](std::string name, argument* option) {
    args.of_job.emplace_back(std::move(name), option);
    return option;
  };
  of_job("--model",
         verb->add_option("--model", args.models, "Of `troupe bench train`; without it tiny"))
      ->delimiter(',')
      ->one_of(train_models());
  verb->add_option("--config", args.config,
                   "In place of --model: the model, type, recomputation, clipping and memory of "
                   "this job");
  verb->add_option("--tokens", args.tokens, "Tokens of a step, one sequence")->delimiter(',');
  of_job("--dtype", verb->add_option("--dtype", args.plan.dtype, "f32 or bf16"))->number_type();
  verb->add_option("--layers", args.plan.layers, "So many layers of the model")
      ->within(int64_t{0}, int64_t{1} << 20);
  of_job("--clip", verb->add_option("--clip", args.plan.clip_norm, "train.clip_norm; 0: none"))
      ->within(0.0, 1e30);
  verb->add_option("--host-mib", args.host_mib,
                   "Memory of the stage, MiB; without it the least that it can be trained with")
      ->delimiter(',');
  verb->add_option("--device", args.plan.device, "host, cuda, cuda:1 ...")->capture_default_str();
  of_job("--keep-activations",
         verb->add_flag("--keep-activations", args.keeps_activations, "Nothing is computed again"));
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
      "  troupe bench swap --model tiny --sweep activations --host-mib 64 --dir /nvme\n"
      "  troupe bench swap --model tiny --tokens 128 --largest --host-mib 64,128 --dir /nvme\n"
      "  troupe bench swap --model-check runs.csv");
  auto args = std::make_shared<arguments>();
  add_what(verb, *args);
  verb->add_option("--ways", args->way_names, "Only these, e.g. ours,sync")
      ->delimiter(',')
      ->one_of(all_ways());
  verb->add_flag("--checkpoints", args->checkpoints, "With the way that saves each step, too");
  verb->add_option("--sweep", args->sweep,
                   "In place of the ways: each choice of what layers keep, and the planner's")
      ->one_of({"activations"});
  verb->add_flag("--largest", args->largest,
                 "In place of that: the most parameters that finish two steps, by budget");
  verb->add_option("--rounds", args->plan.rounds, "Interleaved rounds")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--steps", args->plan.steps, "Steps of each way in a round")
      ->within(1, 1000)
      ->capture_default_str();
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
