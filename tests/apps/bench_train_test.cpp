// `troupe bench train` in process, tiny, on the host. Timing decides nothing here.
#include "apps/bench/train_run.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace troupe;

namespace {

apps::train_measurement measured(int steps) {
  apps::train_plan plan;
  plan.model = "micro";
  plan.threads = 1;
  plan.steps = steps;
  plan.warmup = 1;
  auto m = apps::measure_training(apps::shape_of(plan), plan);
  REQUIRE_MESSAGE(m, (m ? std::string() : render(m.error())));
  CHECK(m->seconds.size() == static_cast<size_t>(steps));
  return std::move(*m);
}

}  // namespace

TEST_CASE("bench train: a rank's engine learns, and each operation of its steps is told of") {
  const auto once = measured(1), often = measured(3);
  CHECK(often.loss < once.loss);
  CHECK(often.loss == measured(3).loss);
  const auto calls = [&](gpu::device_op kind) {
    return often.profile.kinds[static_cast<size_t>(kind)].calls;
  };
  CHECK(often.profiled_steps == 3);
  for (const auto kind : {gpu::device_op::attention_forward, gpu::device_op::attention_backward,
                          gpu::device_op::head_loss, gpu::device_op::clip_scale})
    CHECK(calls(kind) == often.profiled_steps);  // of its one layer
  CHECK(calls(gpu::device_op::optimizer_step) >= often.profiled_steps);
  CHECK(often.plan.find("gradients") != std::string::npos);
}
