// `troupe bench predict`: how well what is learned foretells, against what others reach.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/predict_steps_report.hpp"

namespace troupe::apps {

namespace {

using predict_bench::steps_plan;

struct predict_bench_arguments {
  steps_plan steps;
  std::string data;
  std::vector<std::string> only;  ///< parts; empty: all
  bool json = false;
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

result<int> run_predict_bench(const predict_bench_arguments& arguments) {
  nlohmann::ordered_json out{{"bench", "predict"}};
  TROUPE_TRY(steps, run_steps(arguments));
  out["steps"] = std::move(steps);
  if (arguments.json) TROUPE_CHECK(print(out.dump() + "\n"));
  return 0;
}

}  // namespace

void add_bench_predict(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("predict", "How well step times are foretold by earlier ones");
  auto arguments = std::make_shared<predict_bench_arguments>();
  verb->add_option("--only", arguments->only,
                   "Only this part: steps (step times that vTrain measured, learned one by one)")
      ->delimiter(',')
      ->one_of({"steps"});
  verb->add_option("--data", arguments->data,
                   "Folder with vtrain_steptime (default ../shared/data/perfcast)");
  verb->add_option("--orders", arguments->steps.orders, "In which rows are told")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--seed", arguments->steps.seed, "Of these orders (default 1)");
  verb->add_flag("--json", arguments->json, "As one JSON object");
  on_run(sh, verb, [arguments] { return run_predict_bench(*arguments); });
}

}  // namespace troupe::apps
