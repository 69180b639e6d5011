// What layers of a job that swaps keep, by rates: both ends, what lies between, and that it fits.
#include "actors/train/swap_forecast.hpp"

#include <array>
#include <cmath>
#include <utility>

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_ranks.hpp"
#include "io/config/load.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

job_plan plan_of(const std::string& more = {}) {
  auto job = config::parse(
      "[model]\nlayers = 12\nheads = 4\nhidden = 256\nvocab = 1000\n" + more +
          "[data]\npath = \"x.txt\"\n[train]\nbatch = 4\nmicro_batch = 2\nseq_len = 128\n"
          "[cluster]\nthreads = 1\n[swap]\ndir = \"/swap\"\nclip = \"twice\"\n",
      "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  auto plan = make_plan(*job);
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  return *plan;
}

/// The floor and so many MiB more.
job_plan with_room(job_plan plan, int64_t mib) {
  plan.job.swap.host_bytes =
      static_cast<int64_t>(swap_floor_bytes(plan, threads_here(plan.job.cluster))) + (mib << 20);
  return plan;
}

job_plan forced(job_plan plan, int64_t keep, int64_t half, int64_t spill = 0) {
  plan.job.swap.keep_layers = keep;
  plan.job.swap.half_layers = half;
  plan.job.swap.spill_layers = spill;
  return plan;
}

job_plan chosen(job_plan plan, const gpu::machine_rates& rates) {
  settle_activations(plan, rates);
  return plan;
}

constexpr gpu::machine_rates slow_products{1e9, 0, 1e12, 1e12, 1, 1e12};
constexpr gpu::machine_rates slow_drive{1e15, 0, 1e7, 1e7, 0, 1e12};

}  // namespace

TEST_CASE("ACT-1: whatever the memory and the rates, what is chosen fits") {
  sim::rng random(1);
  for (int i = 0; i < 60; ++i) {
    auto plan =
        with_room(plan_of(random.chance(0.5) ? "recompute = true\n" : ""), random.between(0, 200));
    const gpu::machine_rates rates{
        std::pow(10.0, random.between(8, 14)), 0,   std::pow(10.0, random.between(7, 11)),
        std::pow(10.0, random.between(7, 11)), 0.5, 1e9};
    const auto c = chosen(plan, rates);
    CHECK(c.job.swap.keep_layers >= 0);
    CHECK(fits_swap_budget(c, threads_here(c.job.cluster)));
  }
}

TEST_CASE("ACT-2: no forced choice that fits is quicker, by the rates that it is chosen for") {
  sim::rng random(2);
  for (int i = 0; i < 35; ++i) {
    const auto plan = with_room(plan_of(), random.between(0, 150));
    gpu::machine_rates rates{
        std::pow(10.0, random.between(9, 13)), 0,   std::pow(10.0, random.between(7, 10)),
        std::pow(10.0, random.between(7, 10)), 0.5, 1e9};
    if (i >= 25)  // processors that do all of it
      rates.processors = {rates.flops_s, 2e9, std::pow(10.0, random.between(7, 10))};
    const auto best = step_seconds(chosen(plan, rates), rates);
    REQUIRE(best);
    for (const auto& [keep, half, spill] : {std::array{0, 0, 0},
                                            {0, 12, 0},
                                            {12, 0, 0},
                                            {3, 0, 0},
                                            {0, 5, 0},
                                            {6, 6, 0},
                                            {0, 0, 12},
                                            {3, 0, 9},
                                            {0, 6, 6},
                                            {2, 2, 2}}) {
      CAPTURE(keep);
      CAPTURE(half);
      CAPTURE(spill);
      if (const auto other = step_seconds(forced(plan, keep, half, spill), rates))
        CHECK(*best <= *other * 1.05);
    }
  }
}

TEST_CASE("activations: where products are slow memory is theirs, where the drive is it is not") {
  const auto plan = with_room(plan_of(), 20);
  const auto slow = chosen(plan, slow_products).job.swap;
  CHECK(slow.keep_layers > 0);
  CHECK(slow.keep_layers < 12);  // there is not so much
  CHECK(slow.spill_layers > 0);
  CHECK(slow.keep_layers + slow.spill_layers + slow.half_layers == 12);
  const auto slowly = chosen(plan, slow_drive);
  CHECK(slowly.job.swap.spill_layers == 0);
  const auto quick = forecast_swap(slowly);
  REQUIRE(quick);
  for (int keep = 0; keep <= 12; ++keep) {
    const auto other = forecast_swap(forced(plan, keep, 12 - keep));
    REQUIRE(other);
    CHECK(quick->traffic.whole().read_bytes <= other->traffic.whole().read_bytes);
  }
  const auto by = rates_of(slow.rates);
  REQUIRE(by);
  CHECK(by->flops_s == slow_products.flops_s);
  CHECK(by->read_bytes_s == slow_products.read_bytes_s);
  CHECK(by->write_bytes_s == slow_products.write_bytes_s);
  CHECK(by->duplex == slow_products.duplex);
  CHECK(by->updates_s == slow_products.updates_s);
  CHECK(by->processors.flops_s == 0);
  auto shared = slow_products;
  shared.processors = {1e9, 2e12, 3e10};
  const auto kept = rates_of(chosen(plan, shared).job.swap.rates);
  REQUIRE(kept);
  CHECK(kept->processors.flops_s == shared.processors.flops_s);
  CHECK(kept->processors.updates_s == shared.processors.updates_s);
  CHECK(kept->processors.sum_bytes_s == shared.processors.sum_bytes_s);
  CHECK_FALSE(rates_of(plan.job.swap.rates));
  const auto much = chosen(with_room(plan_of(), 100'000), slow_products).job.swap;
  CHECK(much.keep_layers == 12);
  CHECK(much.half_layers == 0);
  CHECK(much.spill_layers == 0);
}

TEST_CASE("activations: what moves costs the processors its sums, where they compute as well") {
  auto rates = slow_products;
  rates.processors.flops_s = slow_products.flops_s;
  const auto plan = with_room(plan_of(), 20);
  CHECK(chosen(plan, rates).job.swap.spill_layers > 0);
  rates.processors.sum_bytes_s = 5e6;  // dearer than making it again
  CHECK(chosen(plan, rates).job.swap.spill_layers == 0);
  auto unverified = plan;
  unverified.job.swap.verify = false;
  CHECK(chosen(unverified, rates).job.swap.spill_layers > 0);
}

TEST_CASE("activations: what is given is not chosen, and without a swap folder nothing is") {
  const auto given = forced(with_room(plan_of(), 60), 2, 1);
  CHECK(chosen(given, slow_products).job == given.job);
  auto in_memory = plan_of();
  in_memory.job.swap = {};
  CHECK(chosen(in_memory, slow_products).job == in_memory.job);
  auto too_small = plan_of();
  too_small.job.swap.host_bytes = 1;
  CHECK(chosen(too_small, slow_products).job == too_small.job);
}

TEST_CASE("activations: without room for what layers are to keep none keeps any") {
  const auto plan = with_room(plan_of(), 0);
  const auto kept_by = [](const job_plan& p, size_t layer) {
    CHECK(fits_swap_budget(p, threads_here(p.job.cluster)));
    return settled_options(p, p.ranks.front(), threads_here(p.job.cluster))
        .shape.activations_of(layer);
  };
  using enum gpu::activation_choice;
  CHECK(kept_by(plan, 11) == recompute);  // left open, and model.recompute = false
  CHECK(kept_by(forced(plan, 12, 0), 11) == recompute);
  CHECK_FALSE(step_seconds(forced(plan, 12, 0), slow_products));  // a choice that is none
  const auto roomy = with_room(plan_of(), 1000);
  CHECK(kept_by(roomy, 0) == keep);
  CHECK(kept_by(forced(roomy, 0, 0, 12), 8) == keep);  // no drive is touched
  CHECK(kept_by(forced(roomy, 1, 2), 8) == recompute);
  CHECK(kept_by(forced(roomy, 1, 2), 9) == half);
  CHECK(kept_by(forced(roomy, 1, 2), 11) == keep);
}

TEST_CASE("activations: a forced choice that has no room is told, others are not") {
  const auto gives_way = [](const job_plan& p) {
    const auto f = forecast_swap(p);
    REQUIRE(f);
    CHECK(f->kept.gives_way() == layers_kept(p).gives_way());
    return f->kept.gives_way();
  };
  const auto plan = with_room(plan_of(), 0);
  CHECK(gives_way(forced(plan, 12, 0)));
  CHECK(gives_way(forced(plan, 0, 12)));
  CHECK(gives_way(forced(plan, 0, 0, 12)));
  CHECK_FALSE(gives_way(forced(plan, 0, 0)));  // nothing is asked for
  CHECK_FALSE(gives_way(plan));                // left open
  CHECK_FALSE(gives_way(chosen(with_room(plan_of(), 20), slow_products)));
}

TEST_CASE("activations: one without room is told where all weights and state are in memory, too") {
  const auto spilling = [](int64_t mib) { return forced(with_room(plan_of(), mib), 0, 0, 12); };
  int64_t mib = 0;
  while (mib < 1000 && forecast_swap(spilling(mib))) mib += 2;
  REQUIRE_FALSE(forecast_swap(spilling(mib)));  // nothing spills, and there is no room to keep it
  const auto kept = layers_kept(spilling(mib));
  CHECK(kept.gives_way());
  CHECK(kept.layers[static_cast<size_t>(gpu::activation_choice::recompute)] == 12);
  CHECK_FALSE(layers_kept(spilling(1000)).gives_way());
  CHECK_FALSE(layers_kept(with_room(plan_of(), 1000)).gives_way());
  auto in_memory = plan_of();
  in_memory.job.swap.dir.clear();
  CHECK_FALSE(layers_kept(in_memory).gives_way());
}

TEST_CASE("activations: what a stage makes again is counted product by product") {
  const auto plan = plan_of();
  const auto& m = plan.model;
  const auto again = [&](int64_t keep, int64_t half) {
    const auto p = forced(plan, keep, half);
    const auto o = options_of(p.job, p.model, p.ranks[0].at, p.ranks[0].layers, 1);
    return gpu::again_flops(m, o.shape);
  };
  const double square = 2.0 * static_cast<double>(m.hidden * m.hidden);
  const double attention = 4.0 * static_cast<double>(m.hidden) * 128;
  CHECK(again(12, 0) == 0);
  CHECK(again(0, 0) == doctest::Approx(12 * (8 * square + attention)));   // 3 + 1 + 4 of 12
  CHECK(again(0, 12) == doctest::Approx(12 * (7 * square + attention)));  // and not the one
  CHECK(again(2, 3) ==
        doctest::Approx(7 * (8 * square + attention) + 3 * (7 * square + attention)));
}
