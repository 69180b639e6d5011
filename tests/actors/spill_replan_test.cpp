// What an engine's operations say of its drive, and which layers spill by that. That no bit differs
// is tried with engines (swap_engine_test.cpp).
#include "actors/train/spill_replan.hpp"

#include <doctest/doctest.h>

#include "tests/actors/replicas.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

constexpr gpu::machine_rates replanned_rates{2e12, 0, 2.4e9, 2.1e9, 0, 1e12};

/// A rank with five layers, all state and, of layers, 1 to 3 on a drive.
engine_options replanned_options() {
  using enum gpu::activation_choice;
  auto o = troupe::train::test::options_for(0, 1, gpu::optimizer_step_args::rule::adamw,
                                            gpu::dtype::f32);
  o.model.layers = 5;
  o.shape = gpu::whole_model(o.model, o.batch, troupe::train::test::seq, gpu::dtype::f32);
  o.shape.activations = {recompute, spill, spill, spill, keep};
  o.shape.where = gpu::least_residency(o.model, o.shape, {0, false, 1});
  o.optimizer.clip_norm = 0;
  o.swap_rates = replanned_rates;
  return o;
}

/// Steps in which a drive was busy all the while and moved a hundredth of what it should have.
std::optional<std::string> after_slow_steps(spill_replan& replan, int steps, double share) {
  std::optional<std::string> out;
  for (int i = 0; i < steps; ++i) {
    CHECK_FALSE(out);
    const double bytes = 1e9, s = bytes / replanned_rates.read_bytes_s / share;
    out = replan.stepped({bytes, 0, s, 0, s, s});
  }
  return out;
}

}  // namespace

TEST_CASE("SPD-1: what reads at the same time is busy once, and what goes on counts on") {
  using enum pipeline_op;
  drive_clock clock;
  clock.began(read_state, 50);
  clock.restart(100);
  clock.began(forward, 100);  // no affair of a drive
  clock.began(read_weights, 200);
  clock.ended(read_state, 300, 1000);
  clock.began(write_chunk, 350);
  clock.ended(read_weights, 400, 500);
  clock.ended(write_chunk, 600, 70);
  clock.ended(forward, 900, 9999);
  clock.began(write_activation, 800);
  const auto moved = clock.since(1100);
  CHECK(moved.read_bytes == 1500);
  CHECK(moved.written_bytes == 70);
  CHECK(moved.read_s == doctest::Approx(0.3));          // 100 to 400
  CHECK(moved.write_s == doctest::Approx(0.25 + 0.3));  // 350 to 600, and from 800 on
  CHECK(moved.busy_s == doctest::Approx(0.5 + 0.3));
  CHECK(moved.step_s == doctest::Approx(1));
  clock.restart(1100);
  CHECK(clock.since(1200).write_s == doctest::Approx(0.1));
  CHECK(clock.since(1200).read_bytes == 0);
}

TEST_CASE("spill replan: it is of one stage whose layers were chosen by rates, some to spill") {
  CHECK(spill_replan::make(replanned_options()) != nullptr);
  auto unknown = replanned_options();
  unknown.swap_rates.reset();
  CHECK(spill_replan::make(unknown) == nullptr);
  unknown.swap_rates = gpu::machine_rates{2e12, 0, 2.4e9, 0, 1, 1e12};
  CHECK(spill_replan::make(unknown) == nullptr);
  auto none = replanned_options();
  none.shape.activations.assign(5, gpu::activation_choice::half);
  CHECK(spill_replan::make(none) == nullptr);
  auto several = replanned_options();
  several.at.grid.data = 2;
  CHECK(spill_replan::make(several) != nullptr);
  several.at.grid.pipeline = 2;
  CHECK(spill_replan::make(several) == nullptr);
}

TEST_CASE("spill replan: which layers compute again, and what a person is told of it") {
  const auto replan = spill_replan::make(replanned_options());
  REQUIRE(replan);
  CHECK(replan->spills_from() == 0);
  CHECK(replan->again() == 0);
  const auto told = after_slow_steps(*replan, 3, 0.01);
  REQUIRE(told);
  CHECK(*told ==
        "swap: the drive keeps 0.024 GB/s of reads and 2.1 GB/s of writes, calibrated were 2.4 and "
        "2.1: layers 1 to 3 are recomputed now instead of swapped");
  CHECK(replan->again() == 3);
  CHECK(replan->spills_from() == 4);
}
