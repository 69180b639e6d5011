// `troupe bench ops`: the time of each operation of a training step, alone, at the shapes of
// known models.
//
// Why: a step's time says that something is slow, this says what. Each is compared with its floor:
// its products at the measured peak, or its bytes at the speed of a copy, whichever takes longer.
// On the host the peak is `troupe bench peak`'s, sampled beside each operation; elsewhere that of a
// large product.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/bench/bench.hpp"
#include "apps/bench/ops_report.hpp"
#include "apps/ceiling.hpp"
#include "gpu/host/peak.hpp"

namespace troupe::apps {
namespace {

struct ops_arguments {
  std::string model = "tiny", type = "f32", only, clock = "wall", device = "host";
  int threads = 2;
  int64_t batch = 0;
  double seconds = 0.4;
  bool fused_bias_gradients = false, json = false;
};

result<int> run_ops(const ops_arguments& arguments) {
  const bool on_host = arguments.device == "host";
  ops_plan plan = {.model = arguments.model,
                   .type = arguments.type == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32,
                   .batch = arguments.batch,
                   .only = arguments.only};
  plan.timing.seconds = arguments.seconds;
  if (on_host && arguments.clock == "cpu") plan.timing.clock = gpu::time_kind::processor;
  TROUPE_TRY(device, open_bench_device(arguments.device, arguments.threads,
                                       {.fused_bias_gradients = arguments.fused_bias_gradients}));
  TROUPE_TRY(stream, device->make_stream({"bench", arguments.threads}));
  std::optional<ceiling> meter;
  if (on_host) {
    TROUPE_TRY(made, ceiling::make(plan.type, arguments.threads));
    meter.emplace(std::move(made));
    plan.sample_peak = [&] {
      meter->sample();
      return meter->flops();
    };
  }
  TROUPE_TRY(most, measure_ceilings(*device, *stream, plan.type, on_host ? 256 : 8192,
                                    size_t{1} << (on_host ? 26 : 30)));
  plan.most = most;
  TROUPE_TRY(report, time_ops(*device, *stream, plan));
  if (!arguments.json) {
    TROUPE_CHECK(print(ops_heading() + text(report) + epilogues_told()));
    return 0;
  }
  nlohmann::ordered_json all = json(report);
  all["device"] = device->facts().name;
  all["threads"] = arguments.threads;
  all["copy_bytes_per_second"] = most.bytes_per_second;
  TROUPE_CHECK(print(all.dump() + "\n"));
  return 0;
}

}  // namespace

void add_bench_ops(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("ops", "Time each operation of a training step, alone");
  auto arguments = std::make_shared<ops_arguments>();
  std::vector<std::string> models;
  for (const auto& [name, shape] : bench_shapes()) models.push_back(name);
  verb->add_option("--model", arguments->model, "Shapes to use (default tiny)")->one_of(models);
  verb->add_option("--batch", arguments->batch, "Micro-batch (default: the shape's own)")
      ->positive();
  verb->add_option("--dtype", arguments->type, "f32 or bf16 (default f32)")->number_type();
  verb->add_option("--device", arguments->device, "host, cuda or cuda:N (default host)");
  verb->add_option("--threads", arguments->threads, "Host threads of the stream (default 2)")
      ->positive();
  verb->add_option("--only", arguments->only, "Operations with this in their name");
  verb->add_option("--seconds", arguments->seconds, "Time for each operation (default 0.4)")
      ->positive();
  verb->add_option("--clock", arguments->clock,
                   "wall, or cpu: this process's processor time, for busy machines (1 thread)")
      ->one_of({"wall", "cpu"});
  verb->add_flag("--fused-bias-gradients", arguments->fused_bias_gradients,
                 "GPUs: bias gradients out of the weights' products, not in passes of their own");
  verb->add_flag("--json", arguments->json, "As one JSON object");
  on_run(sh, verb, [arguments] { return run_ops(*arguments); });
}

}  // namespace troupe::apps
