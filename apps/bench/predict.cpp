// `troupe bench predict`: how well what is learned foretells, against what others reach, and what
// layers by measured nodes are worth.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/bench/leftovers.hpp"
#include "apps/bench/predict_placement.hpp"
#include "apps/bench/predict_steps_report.hpp"

namespace troupe::apps {

namespace {

using predict_bench::placement_plan;
using predict_bench::steps_plan;

struct predict_bench_arguments {
  steps_plan steps;
  placement_plan placement;
  std::string data;
  std::string dir;
  std::vector<std::string> only;  ///< parts; empty: steps
  bool json = false;

  bool wants(std::string_view part) const {
    return only.empty() ? part == "steps" : std::find(only.begin(), only.end(), part) != only.end();
  }
};

/// Step times that others measured; where their tables are not there, why nothing is.
result<nlohmann::ordered_json> run_steps(const predict_bench_arguments& arguments) {
  auto plan = arguments.steps;
  if (!arguments.data.empty()) plan.data = arguments.data;
  if (const auto missing = predict_bench::missing_of(plan)) {
    const auto why = fmt::format("no {}; --data names a folder that has it", missing->string());
    say("SKIPPED: steps: " + why);
    return nlohmann::ordered_json{{"skipped", why}};
  }
  TROUPE_TRY(m, predict_bench::measure_steps(plan));
  if (!arguments.json) TROUPE_CHECK(print(predict_bench::text_of(m)));
  return predict_bench::json_of(m);
}

/// Jobs on this machine. Before any other thread.
result<predict_bench::placement_measurement> run_placement(
    const predict_bench_arguments& arguments) {
  TROUPE_TRY(interrupt, interrupt_watch::start());
  const auto parent = arguments.dir.empty() ? std::filesystem::temp_directory_path()
                                            : std::filesystem::absolute(arguments.dir);
  TROUPE_TRY(folder, io::held_scratch::make(parent, "troupe-predict-"));
  say_removed(folder);
  auto plan = arguments.placement;
  plan.folder = folder.path();
  plan.stop = &interrupt->asked();
  return measure_placement(plan);
}

result<int> run_predict_bench(const predict_bench_arguments& arguments) {
  nlohmann::ordered_json out{{"bench", "predict"}};
  bool same_bits = true;
  if (arguments.wants("placement")) {
    TROUPE_TRY(m, run_placement(arguments));
    out["placement"] = predict_bench::json_of(m);
    same_bits = predict_bench::verdict_of(m).same_bits;
    if (!arguments.json) TROUPE_CHECK(print(predict_bench::text_of(m)));
  }
  if (arguments.wants("steps")) {
    TROUPE_TRY(steps, run_steps(arguments));
    out["steps"] = std::move(steps);
  }
  if (arguments.json) TROUPE_CHECK(print(out.dump() + "\n"));
  return same_bits ? 0 : 1;
}

}  // namespace

void add_bench_predict(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("predict",
                                     "How well step times are foretold, and what that is good for");
  auto arguments = std::make_shared<predict_bench_arguments>();
  verb->add_option("--only", arguments->only,
                   "Only this part: steps (step times that vTrain measured, learned one by one) or "
                   "placement (layers by measured nodes, one of two stopped half of the time, some "
                   "minutes a round: only where it is named)")
      ->delimiter(',')
      ->one_of({"steps", "placement"});
  verb->add_option("--data", arguments->data,
                   "Folder with vtrain_steptime (default ../shared/data/perfcast)");
  verb->add_option("--orders", arguments->steps.orders, "In which rows are told")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--seed", arguments->steps.seed, "Of these orders (default 1)");
  verb->add_option("--rounds", arguments->placement.rounds, "Interleaved rounds of placement")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--layers", arguments->placement.layers, "Of placement's model")
      ->within(2, 64)
      ->capture_default_str();
  verb->add_option("--steps", arguments->placement.steps, "Of each of placement's jobs")
      ->within(5, 1'000'000)
      ->capture_default_str();
  verb->add_option("--set", arguments->placement.sets,
                   "A setting of these jobs, KEY=VALUE; may be given often");
  verb->add_option("--dir", arguments->dir,
                   "Where a temporary folder for them is made, removed at the end; without it the "
                   "system's");
  verb->add_flag("--json", arguments->json, "As one JSON object");
  on_run(sh, verb, [arguments] { return run_predict_bench(*arguments); });
}

}  // namespace troupe::apps
