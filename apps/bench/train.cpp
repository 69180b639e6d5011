// `troupe bench train`: drives the engine of a job's only rank, as its worker would, on tokens
// drawn at random, and reports tokens/s, GFLOP/s, the share of the machine's measured peak and the
// share of each operation.
#include "apps/bench/bench.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/bench/train_run.hpp"

namespace troupe::apps {

void add_bench_train(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("train", "Training speed of one process and where time goes");
  auto args = std::make_shared<train_plan>();
  verb->add_option("--model", args->model, "Which model")
      ->one_of(train_models())
      ->capture_default_str();
  verb->add_option("--dtype", args->dtype, "Number format of the computation")
      ->one_of({"f32", "bf16"})
      ->capture_default_str();
  verb->add_option("--device", args->device, "host, cuda, cuda:1 ...")->capture_default_str();
  verb->add_option("--layers", args->layers, "Layers; 0: as the model has, or what fits of it")
      ->within(0, 1000);
  verb->add_option("--threads", args->threads, "Compute threads; 0: all cores")->within(0, 1024);
  verb->add_option("--batch", args->batch, "Rows; 0: as the model is usually measured")
      ->within(0, 1 << 20);
  verb->add_option("--seq", args->seq, "Tokens a row; 0: as usual")->within(0, 1 << 20);
  verb->add_option("--steps", args->steps, "Measured steps")
      ->within(1, 100000)
      ->capture_default_str();
  verb->add_option("--warmup", args->warmup, "Steps before them")
      ->within(0, 100000)
      ->capture_default_str();
  auto clock = std::make_shared<std::string>("wall");
  verb->add_option("--clock", *clock,
                   "wall, or cpu: this process's processor time, for busy machines (1 thread)")
      ->one_of({"wall", "cpu"})
      ->capture_default_str();
  verb->add_flag("--recompute", args->recompute, "Recompute activations in backward");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "As one JSON object");
  on_run(sh, verb, [args, clock, as_json]() -> result<int> {
    if (*clock == "cpu") args->clock = gpu::time_kind::processor;
    const train_shape shape = shape_of(*args);
    TROUPE_TRY(m, measure_training(shape, *args));
    TROUPE_CHECK(print(*as_json ? json(*args, shape, m).dump() + "\n" : text(*args, shape, m)));
    return 0;
  });
}

}  // namespace troupe::apps
