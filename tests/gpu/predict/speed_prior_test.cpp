// How quick machines are beside each other, by a model of machines (MQK-1, MQK-2).
#include "gpu/predict/speed_prior.hpp"

#include <cmath>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "gpu/predict/fit.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/predict/planted.hpp"

using namespace troupe;
using namespace troupe::gpu::predict;

namespace {

/// A model of planted machines, whose score grows with cores^.9 and the clock.
ModelT planted_model(io::perf::perf_table t) {
  fit_options options;
  options.kind = "trunk";
  auto model = fit_predictor(t, rows_in(t), {}, options);
  REQUIRE_MESSAGE(model, (model ? "" : render(model.error())));
  return std::move(*model);
}

/// What a machine says of itself, in the words of hardware fields.
io::perf::hw_profile planted_machine(double cores, double mhz) {
  io::perf::hw_profile out;
  out.cores = out.cpus = cores;
  out.base_mhz = mhz;
  out.mem_gib = 8 * cores;
  return out;
}

/// Without the word that no hardware field is: its tiers are half of the rows each.
io::perf::perf_table without_tier() {
  auto t = planted_table(300, 5);
  t.features.pop_back();
  for (auto& r : t.rows) {
    r.numbers.pop_back();
    r.words.pop_back();
  }
  return t;
}

}  // namespace

TEST_CASE("speed prior: of two machines the quicker one is so by a thread, in words of hardware") {
  auto prior = speed_prior::of(planted_model(without_tier()), "p.tpm");
  REQUIRE_MESSAGE(prior, (prior ? "" : render(prior.error())));
  const auto slow = prior->ask(planted_machine(16, 2200)),
             quick = prior->ask(planted_machine(16, 3600));
  REQUIRE(slow);
  REQUIRE(quick);
  const auto by = times_as_long(*slow, *quick);
  CHECK(by.by > 1.2);
  CHECK(by.by < 2.2);  // 1.64 by the clocks alone
  CHECK(by.half >= std::max(slow->half, quick->half));
  CHECK(times_as_long(*quick, *slow).by == doctest::Approx(1 / by.by));
  // Twice the cores do nearly twice as much, so a thread hardly less.
  const auto wide = prior->ask(planted_machine(32, 2200));
  REQUIRE(wide);
  CHECK(times_as_long(*wide, *slow).by == doctest::Approx(std::pow(2, 0.1)).epsilon(0.05));
}

TEST_CASE("speed prior: of an output that is a time less is quicker") {
  auto t = without_tier();
  t.outputs = {"step_ms"};
  for (auto& r : t.rows) r.labels[0] = 1e4 / r.labels[0];
  auto of_times = speed_prior::of(planted_model(t), "p.tpm");
  auto of_scores = speed_prior::of(planted_model(without_tier()), "p.tpm");
  REQUIRE(of_times);
  REQUIRE(of_scores);
  const auto a = planted_machine(8, 2400), b = planted_machine(24, 3300);
  CHECK(times_as_long(*of_times->ask(a), *of_times->ask(b)).by ==
        doctest::Approx(times_as_long(*of_scores->ask(a), *of_scores->ask(b)).by).epsilon(0.01));
  for (const auto* name : {"ms", "step_ms", "seconds"}) CHECK(is_time(name));
  for (const auto* name : {"tokens_per_s", "gemm_gflop_s", "base", "500.perlbench_r"})
    CHECK_FALSE(is_time(name));
}

TEST_CASE("MQK-1: a model whose columns of a processor are no hardware fields is refused by name") {
  auto odd = without_tier();
  odd.features[0].name = "engines";
  odd.features[1].unit = "GHz";
  const auto refused = speed_prior::of(planted_model(odd), "odd.tpm");
  REQUIRE_FALSE(refused);
  CHECK(is_error(refused.error(), no_speed_prior, "odd.tpm", "engines in 1, mhz in GHz"));
  auto other = without_tier();
  for (auto& f : other.features) f.group = "workload";
  CHECK(is_error(speed_prior::of(planted_model(other), "odd.tpm"), no_speed_prior, "odd.tpm",
                 "group cpu"));
  CHECK(speed_prior::of(planted_model(planted_table(300, 5)), "p.tpm"));  // a tier is in a name
}

TEST_CASE("MQK-1: names as a kernel says them are those that results are published with") {
  auto t = planted_table(300, 5);
  for (auto& r : t.rows) r.words[3] = r.words[3] == "gold" ? "Xeon Gold 6" : "Xeon Silver 4";
  auto prior = speed_prior::of(planted_model(t), "p.tpm");
  REQUIRE(prior);
  auto gold = planted_machine(16, 3000), silver = gold;
  gold.cpu_model = "Intel(R) Xeon(R) Gold 6430 CPU @ 2.10GHz";
  silver.cpu_model = "Intel(R) Xeon(R) Silver 4410Y";
  const auto g = prior->ask(gold), s = prior->ask(silver);
  REQUIRE(g);
  REQUIRE(s);
  CHECK(times_as_long(*s, *g).by == doctest::Approx(1.3).epsilon(0.08));
}

TEST_CASE(
    "MQK-2: what a machine does not say is completed, and of a machine that says nothing none") {
  auto prior = speed_prior::of(planted_model(without_tier()), "p.tpm");
  REQUIRE(prior);
  auto part = planted_machine(16, 3000);
  const auto whole = prior->ask(part);
  part.base_mhz.reset();
  const auto completed = prior->ask(part);
  REQUIRE(whole);
  REQUIRE(completed);
  CHECK(completed->half > whole->half);
  CHECK_FALSE(prior->ask({}));
  io::perf::hw_profile memory_alone;
  memory_alone.mem_gib = 64;
  memory_alone.usable_cpus = 8;
  CHECK_FALSE(prior->ask(memory_alone));
}
