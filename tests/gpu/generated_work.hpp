// What a token of generation costs, counted by a profiled device, on whichever device there is.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include "gpu/model/generate.hpp"
#include "gpu/profiled_device.hpp"
#include "io/base/model_config.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu::testing {

/// GEN-4, of a generator on a device that notes in `profile`; the context holds 12 tokens.
inline void check_work_of_tokens(generator& made, const model_config& model, op_profile& profile) {
  const auto of = [&](device_op kind) { return profile.kinds[static_cast<size_t>(kind)]; };
  const auto tokens = some_tokens(12, model.vocab);
  constexpr int64_t prompt = 4;
  REQUIRE(made.next_logits(tokens.data(), prompt, 0));
  CHECK(of(device_op::attention_forward).calls == model.layers);
  CHECK(of(device_op::attention_cached).calls == 0);
  double products = 0;
  for (int64_t cached = prompt; cached < 12; ++cached) {
    CAPTURE(cached);
    profile.clear();
    REQUIRE(made.next_logits(tokens.data() + cached, 1, cached));
    CHECK(of(device_op::attention_forward).calls == 0);  // the text before it once more
    CHECK(of(device_op::attention_cached).calls == model.layers);
    const auto pairs = static_cast<double>(model.layers * (cached + 1));
    CHECK(of(device_op::attention_cached).flops ==
          doctest::Approx(4 * pairs * static_cast<double>(model.attention_width())));
    if (cached == prompt) products = of(device_op::linear_forward).flops;
    CHECK(of(device_op::linear_forward).flops == products);
    CHECK(products == doctest::Approx(2.0 * static_cast<double>(model.matrix_parameters())));
  }
  profile.clear();
  REQUIRE(made.run({tokens.begin(), tokens.begin() + prompt}, {.max_tokens = 8}));
  CHECK(of(device_op::attention_forward).calls == model.layers);  // of the prompt
  CHECK(of(device_op::attention_cached).calls == 7 * model.layers);
  const auto head = static_cast<double>(model.vocab * model.hidden);
  const auto inside = static_cast<double>(model.matrix_parameters()) - head;
  CHECK(of(device_op::linear_forward).flops ==
        doctest::Approx(2 * ((prompt + 7) * inside + 8 * head)));
}

}  // namespace troupe::gpu::testing
