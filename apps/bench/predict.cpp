// `troupe bench predict`: how well what is learned foretells, against what others reach, what that
// takes, how soon it finds who got slow, and what layers by measured nodes are worth.
#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/bench/leftovers.hpp"
#include "apps/bench/predict_accuracy.hpp"
#include "apps/bench/predict_blame.hpp"
#include "apps/bench/predict_cost.hpp"
#include "apps/bench/predict_here.hpp"
#include "apps/bench/predict_placement.hpp"
#include "apps/bench/predict_speed.hpp"
#include "apps/bench/predict_steps_report.hpp"
#include "apps/talk.hpp"

namespace troupe::apps {

namespace {

using predict_bench::placement_plan;
using predict_bench::steps_plan;

/// In the order they run in: those that start processes come first.
const std::vector<std::string> predict_parts{"speed", "cost",     "here", "placement",
                                             "blame", "accuracy", "steps"};
constexpr std::array process_parts{"speed", "cost", "here", "placement"};

bool starts_processes(std::string_view part) {
  return std::ranges::find(process_parts, part) != process_parts.end();
}

struct predict_bench_arguments {
  steps_plan steps;
  placement_plan placement;
  predict_bench::accuracy_plan accuracy;
  predict_bench::blame_plan blame;
  predict_bench::cost_plan cost;
  predict_bench::here_plan here;
  predict_bench::speed_plan speed;
  std::string data;
  std::string dir;
  std::string kept;               ///< of accuracy
  std::vector<std::string> only;  ///< parts; empty: steps
  int rounds = 0, job_steps = 0;  ///< 0: as each part has them
  bool json = false;

  bool wants(std::string_view part) const {
    return only.empty() ? part == "steps" : std::find(only.begin(), only.end(), part) != only.end();
  }
  /// Whether a part starts processes: then a person's interrupt is told to it.
  bool starts_any() const {
    return std::ranges::any_of(process_parts, [this](const char* part) { return wants(part); });
  }
};

using told_part = nlohmann::ordered_json;

told_part skipped_part(std::string_view part, std::string_view missing) {
  const auto why = fmt::format(
      "no {}; give --data FOLDER, that of the public sets as docs/predict.md names them", missing);
  say(fmt::format("left out: {}: {}", part, why));
  return {{"skipped", why}};
}

template <class Measurement>
result<told_part> told_of(const predict_bench_arguments& arguments, const Measurement& m) {
  if (!arguments.json) TROUPE_CHECK(print(predict_bench::text_of(m)));
  return predict_bench::json_of(m);
}

/// Step times that others measured; where their tables are not there, why nothing is.
result<told_part> run_steps(const predict_bench_arguments& arguments) {
  auto plan = arguments.steps;
  if (!arguments.data.empty()) plan.data = arguments.data;
  if (const auto missing = predict_bench::missing_of(plan))
    return skipped_part("steps", missing->string());
  TROUPE_TRY(m, predict_bench::measure_steps(plan));
  return told_of(arguments, m);
}

/// Where a part's folder is made, and who interrupts it.
struct bench_room {
  const std::atomic<bool>* stop = nullptr;
  std::filesystem::path parent;

  result<io::held_scratch> make() const {
    TROUPE_TRY(folder, io::held_scratch::make(parent, "troupe-predict-"));
    say_removed(folder);
    return folder;
  }
};

result<told_part> run_accuracy(const predict_bench_arguments& arguments, const bench_room& room) {
  auto plan = arguments.accuracy;
  if (!arguments.data.empty()) plan.data = arguments.data;
  if (const auto missing = predict_bench::missing_of(plan))
    return skipped_part("accuracy", missing->string());
  std::optional<io::held_scratch> folder;
  plan.kept = arguments.kept;
  if (plan.kept.empty()) {
    TROUPE_TRY(made, room.make());
    plan.kept = made.path();
    folder.emplace(std::move(made));
  }
  TROUPE_TRY(m, predict_bench::measure_accuracy(plan));
  return told_of(arguments, m);
}

result<told_part> run_speed(const predict_bench_arguments& arguments, const bench_room& room) {
  auto plan = arguments.speed;
  if (!arguments.data.empty()) plan.data = arguments.data;
  if (const auto missing = predict_bench::missing_of(plan)) return skipped_part("speed", *missing);
  TROUPE_TRY(folder, room.make());
  plan.folder = folder.path();
  plan.stop = room.stop;
  plan.passes = arguments.accuracy.passes;
  if (arguments.rounds > 0) plan.rounds = arguments.rounds;
  TROUPE_TRY(m, predict_bench::measure_speed(plan));
  return told_of(arguments, m);
}

/// A part that runs jobs on this machine: its plan with a folder and what the person said of jobs.
template <class Plan>
Plan plan_of_jobs(Plan plan, const predict_bench_arguments& arguments, const bench_room& room,
                  const io::held_scratch& folder) {
  plan.folder = folder.path();
  plan.stop = room.stop;
  plan.sets = arguments.placement.sets;
  if (arguments.job_steps > 0) plan.steps = arguments.job_steps;
  return plan;
}

/// `same_bits` becomes false where losses are not what they are to be.
result<told_part> run_placement(const predict_bench_arguments& arguments, const bench_room& room,
                                bool& same_bits) {
  TROUPE_TRY(folder, room.make());
  auto plan = plan_of_jobs(arguments.placement, arguments, room, folder);
  if (arguments.rounds > 0) plan.rounds = arguments.rounds;
  TROUPE_TRY(m, measure_placement(plan));
  same_bits = same_bits && predict_bench::verdict_of(m).same_bits;
  return told_of(arguments, m);
}

result<told_part> run_cost(const predict_bench_arguments& arguments, const bench_room& room,
                           bool& same_bits) {
  TROUPE_TRY(folder, room.make());
  auto plan = plan_of_jobs(arguments.cost, arguments, room, folder);
  if (arguments.rounds > 0) plan.rounds = arguments.rounds;
  TROUPE_TRY(m, measure_cost(plan));
  same_bits = same_bits && predict_bench::verdict_of(m).same_bits;
  return told_of(arguments, m);
}

result<told_part> run_here(const predict_bench_arguments& arguments, const bench_room& room) {
  TROUPE_TRY(folder, room.make());
  auto plan = plan_of_jobs(arguments.here, arguments, room, folder);
  plan.seed = arguments.steps.seed;
  TROUPE_TRY(m, measure_here(plan));
  return told_of(arguments, m);
}

result<told_part> run_blame(const predict_bench_arguments& arguments) {
  auto plan = arguments.blame;
  plan.seed = arguments.steps.seed;
  return told_of(arguments, predict_bench::measure_blame(plan));
}

result<told_part> run_predict_part(const predict_bench_arguments& arguments, std::string_view part,
                                   const bench_room& room, bool& same_bits) {
  if (part == "speed") return run_speed(arguments, room);
  if (part == "cost") return run_cost(arguments, room, same_bits);
  if (part == "here") return run_here(arguments, room);
  if (part == "placement") return run_placement(arguments, room, same_bits);
  if (part == "blame") return run_blame(arguments);
  if (part == "accuracy") return run_accuracy(arguments, room);
  return run_steps(arguments);
}

result<int> run_predict_bench(const predict_bench_arguments& arguments) {
  std::unique_ptr<interrupt_watch> interrupt;
  bench_room room;
  room.parent = arguments.dir.empty() ? std::filesystem::temp_directory_path()
                                      : std::filesystem::absolute(arguments.dir);
  if (arguments.starts_any()) {
    TROUPE_TRY(watch, interrupt_watch::start());
    interrupt = std::move(watch);
    room.stop = &interrupt->asked();
  }
  const error interrupted{errc::cancelled, "interrupted"};
  nlohmann::ordered_json out{{"bench", "predict"}};
  bool same_bits = true, measured = false;
  for (const auto& part : predict_parts) {
    if (!arguments.wants(part)) continue;
    if (room.stop != nullptr && *room.stop) return interrupted;
    if (interrupt && !starts_processes(part)) {  // nothing of it is left running, nor to be undone
      room.stop = nullptr;
      if (interrupt->give_back()) return interrupted;
      interrupt.reset();
    }
    TROUPE_TRY(told, run_predict_part(arguments, part, room, same_bits));
    measured = measured || !told.contains("skipped");
    out[part] = std::move(told);
  }
  if (!measured) say("of what needs no data there is: --only blame,cost,here,placement");
  if (arguments.json) TROUPE_CHECK(print(out.dump() + "\n"));
  return same_bits ? 0 : 1;
}

}  // namespace

namespace {

void add_options_of_data(command* verb, predict_bench_arguments& a) {
  verb->add_option("--data", a.data,
                   "Folder with the public sets (default ../shared/data/perfcast)");
  verb->add_option("--orders", a.steps.orders, "In which rows of steps are told")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--seed", a.steps.seed,
                   "Of orders, of blame's noise, of here's jobs (default 1)");
  verb->add_option("--seeds", a.accuracy.seeds, "Of accuracy's study")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--kinds", a.accuracy.kinds, "That accuracy studies, as predict eval names them")
      ->capture_default_str();
  verb->add_option("--dataset", a.accuracy.dataset, "Of accuracy's: a name or pattern, spr_*");
  verb->add_option("--kept", a.kept,
                   "A folder for what accuracy has found so far, from which it goes on");
  verb->add_option(
          "--passes", a.accuracy.passes,
          "Of networks over their rows, for accuracy and speed: fewer than usual try it out")
      ->within(1, 100'000);
  verb->add_option("--cases", a.blame.cases, "Of blame, of each kind of noise")
      ->within(1, 1'000'000)
      ->capture_default_str();
  verb->add_option("--node-steps", a.blame.node_steps, "Of blame, in which nobody gets slow")
      ->within(1, 1'000'000'000)
      ->capture_default_str();
}

void add_options_of_jobs(command* verb, predict_bench_arguments& a) {
  verb->add_option("--rounds", a.rounds,
                   "Interleaved ones of cost (default 5), speed and placement (1)")
      ->within(1, 1000);
  verb->add_option("--configurations", a.here.configurations, "Of here: jobs that are run")
      ->within(2, 360)
      ->capture_default_str();
  verb->add_option("--layers", a.placement.layers, "Of placement's model")
      ->within(2, 64)
      ->capture_default_str();
  verb->add_option("--steps", a.job_steps,
                   "Of each job (default 60 of cost, 40 of here, 20 of placement)")
      ->within(5, 1'000'000);
  verb->add_option("--ranks", a.cost.ranks, "Of the head that cost makes up steps for")
      ->within(16, 1'000'000)
      ->capture_default_str();
  verb->add_option("--set", a.placement.sets,
                   "A setting of these jobs, KEY=VALUE; may be given often");
  verb->add_option("--dir", a.dir,
                   "Where a temporary folder for them is made, removed at the end; without it the "
                   "system's");
}

}  // namespace

void add_bench_predict(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("predict",
                                     "How well step times are foretold, and what that is good for");
  auto arguments = std::make_shared<predict_bench_arguments>();
  verb->add_option(
          "--only", arguments->only,
          "Only these parts; without it steps alone. steps: step times that vTrain "
          "measured, learned one by one. accuracy: predictors of machines, by a study of "
          "an hour and more. speed: what one takes to make and to ask. blame: how soon who "
          "is slow is found. cost: what the predictor takes of a job. here: step times of "
          "small jobs, by each other. placement: layers by measured nodes, one of two "
          "stopped half of the time, some minutes a round")
      ->delimiter(',')
      ->one_of(predict_parts);
  add_options_of_data(verb, *arguments);
  add_options_of_jobs(verb, *arguments);
  verb->add_flag("--json", arguments->json, "As one JSON object");
  on_run(sh, verb, [arguments] { return run_predict_bench(*arguments); });
}

}  // namespace troupe::apps
