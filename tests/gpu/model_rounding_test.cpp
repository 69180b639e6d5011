// Training in bfloat16 on the host's kernels against the reference, which multiplies and adds in
// double: whichever instructions this processor has, they are within rounding.
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/training_runs.hpp"

namespace troupe::gpu::testing {

TEST_CASE("bfloat16 training on the host has the exact losses within its rounding") {
  auto host = make_host_device(1);
  auto exact = make_reference_device();
  for (const auto& model : {wide(tiny_gpt2()), wide(tiny_llama()), longer(tiny_llama())}) {
    const auto options = run_options(dtype::bf16);
    check_runs(train_steps(*host, model, options), train_steps(*exact, model, options),
               rounding_bounds(model, options));
  }
}

}  // namespace troupe::gpu::testing
