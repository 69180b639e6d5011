// Networks of several seeds: their mean is what is said, what they differ by widens the interval.
#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "gpu/predict/fit.hpp"
#include "tests/gpu/predict/planted.hpp"

using namespace troupe;
using namespace troupe::gpu::predict;

namespace {

fit_options of_seeds(uint64_t first, int seeds) {
  fit_options o;
  o.kind = "trunk+ncpp";
  o.passes = 20;
  o.seed = first;
  o.seeds = seeds;
  return o;
}

}  // namespace

TEST_CASE("networks of several seeds say the mean of each, and how far they are apart") {
  const auto t = planted_table(200, 31);
  const auto [train, test] = halves_of(t);
  predictor one(*fit_predictor(t, train, {}, of_seeds(5, 1)));
  predictor other(*fit_predictor(t, train, {}, of_seeds(6, 1)));
  predictor both(*fit_predictor(t, train, {}, of_seeds(5, 2)));
  CHECK(both.model().network->parameters == one.model().network->parameters);
  CHECK(both.model().network->other_parameters == other.model().network->parameters);
  CHECK(one.model().spread == 0);
  CHECK(both.model().spread > 0);
  const auto a = one.parts(test), b = other.parts(test), mean = both.parts(test);
  for (size_t i = 0; i < test.size(); ++i) {
    CHECK(mean[i].network[0] == doctest::Approx((a[i].network[0] + b[i].network[0]) / 2));
    CHECK(
        mean[i].spread[0] ==
        doctest::Approx(std::abs(a[i].network[0] - b[i].network[0]) / std::sqrt(2)).epsilon(1e-3));
    CHECK(a[i].spread[0] == 0);
    CHECK(mean[i].distance == doctest::Approx(a[i].distance));  // by the first one's places
  }
  // Kept and read, it says the same.
  const auto bytes = io::perf::encode(both.model());
  auto read = io::perf::decode(bytes, "x.tpm");
  REQUIRE(read);
  CHECK(io::perf::encode(*read) == bytes);
  predictor again(std::move(*read));
  CHECK(again.ask(test)[3].value == both.ask(test)[3].value);
}

TEST_CASE("where seeds are farther apart than on nine of ten rows the interval is as much wider") {
  const auto t = planted_table(200, 32);
  const auto [train, test] = halves_of(t);
  predictor p(*fit_predictor(t, train, {}, of_seeds(1, 3)));
  const auto parts = p.parts(test);
  const auto said = p.ask(test);
  size_t wider = 0;
  for (size_t i = 0; i < test.size(); ++i) {
    const double apart = p.spread_of(parts[i], 0) / p.model().spread;
    const double half = std::log(said[i].upper[0] / said[i].value[0]);
    CHECK(half == doctest::Approx(p.half_width(parts[i].distance) * std::clamp(apart, 1.0, 3.0)));
    wider += apart > 1 ? 1 : 0;
  }
  CHECK(wider > 0);
  CHECK(wider < test.size() / 2);
}

TEST_CASE("TPM-2 networks of further seeds that are cut short or are no numbers are refused") {
  const auto t = planted_table(60, 33);
  const auto refused = [&](auto change) {
    auto m = *fit_predictor(t, rows_in(t), {}, of_seeds(1, 2));
    change(m);
    const auto made = io::perf::decode(io::perf::encode(m), "x.tpm");
    return !made && made.error().is(io::perf::bad_model);
  };
  CHECK(refused([](ModelT& m) { m.network->other_parameters.pop_back(); }));
  CHECK(refused([](ModelT& m) { m.network->other_parameters[7] = std::nanf(""); }));
  CHECK(refused([](ModelT& m) { m.spread = -1; }));
  CHECK_FALSE(refused([](ModelT& m) { m.network->other_parameters.clear(); }));
}
