// The profiled device changes no bits and counts every operation of a step.
#include <doctest/doctest.h>

#include "gpu/model/init.hpp"
#include "gpu/profiled_device.hpp"
#include "tests/gpu/local_trainer.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu {

TEST_CASE("a profiled step has the same loss, and every operation is counted") {
  const model_config model = testing::tiny_llama();
  const auto tokens = testing::some_tokens(9, model.vocab);
  auto inner = make_reference_device();
  op_profile profile;
  auto watched = make_profiled_device(*inner, profile);
  auto losses = [&](device& owner) {
    local_options options;
    options.seq = 8;
    auto trainer = local_trainer::make(owner, model, options);
    REQUIRE(trainer);
    REQUIRE(initialize((*trainer)->stage(0).store(), model, 1));
    profile.clear();
    std::vector<double> out;
    for (int i = 0; i < 2; ++i) {
      auto step = (*trainer)->step(tokens.data(), tokens.data() + 1, 1e-2f);
      REQUIRE(step);
      out.push_back(step->loss);
    }
    return out;
  };
  const auto plain = losses(*inner);
  CHECK(profile.total_seconds() == 0);
  CHECK(losses(*watched) == plain);
  auto calls = [&](device_op kind) { return profile.kinds[static_cast<size_t>(kind)].calls; };
  CHECK(calls(device_op::linear_forward) == 2 * 4 * model.layers);
  CHECK(calls(device_op::linear_backward_weight) == 2 * 4 * model.layers);
  CHECK(calls(device_op::attention_backward) == 2 * model.layers);
  CHECK(calls(device_op::rope) == 2 * 2 * model.layers);
  CHECK(calls(device_op::head_loss) == 2);
  CHECK(calls(device_op::optimizer_step) == 2 * (model.layers + 2));
  CHECK(profile.total_seconds() > 0);
  const auto& products = profile.kinds[static_cast<size_t>(device_op::linear_forward)];
  const int64_t inside = model.matrix_parameters() - model.vocab * model.hidden;
  CHECK(products.flops == doctest::Approx(2.0 * 2 * 8 * static_cast<double>(inside)));
}

}  // namespace troupe::gpu
