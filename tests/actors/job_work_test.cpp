// The floating-point operations that a step is said to have made.
#include <cstdint>

#include <doctest/doctest.h>

#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace troupe::train::test;

TEST_CASE("job: the work of a step is that of whole rows, or within documents where it is told") {
  auto plan = planned_job();  // 2 rows of 8 tokens
  plan.model.layers = 1;
  plan.model.hidden = plan.model.head_width = 8;
  plan.model.heads = plan.model.kv_heads = 1;
  plan.model.vocab = 300;
  const auto& model = plan.model;
  job_harness job(plan);
  job.start();
  const auto flops_of_step = [&](uint64_t pairs) {
    heard::step_done done{10, 2, 1.0, 40, 0};
    done.document_pairs = pairs;
    job.hear(done);
    REQUIRE(job.find<todo::measure>());
    const auto& told = job.find<todo::measure>()->step;
    CHECK(told.tokens_per_s == doctest::Approx(16 / 0.04));
    return told.flops_per_s * 0.04;
  };
  CHECK(flops_of_step(0) == doctest::Approx(16 * model.flops_per_token(8)));
  const double parted = flops_of_step(64 + 9 + 25);
  CHECK(parted == doctest::Approx(8 * model.flops_per_token(8) + 3 * model.flops_per_token(3) +
                                  5 * model.flops_per_token(5)));
  CHECK(flops_of_step(1'000'000) == doctest::Approx(16 * model.flops_per_token(8)));
}
