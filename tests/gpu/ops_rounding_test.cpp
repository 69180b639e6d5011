// Rounding by chance: without bias, without pattern, and the same on every back end.
#include <bit>

#include "gpu/stochastic_rounding.hpp"
#include "tests/gpu/ops_support.hpp"

using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

constexpr int64_t elements = 20011;
constexpr uint64_t seed = 99;
constexpr int64_t first = 70000;  ///< the number of element 0: a part of a chunk

float rounded(float x, rounding_key key, uint32_t index) {
  return std::bit_cast<float>(round_by_chance(std::bit_cast<uint32_t>(x), random_bits(key, index)));
}

}  // namespace

TEST_CASE("rounding by chance: the mean is the value") {
  // Between 1 and 1 + 2^-7, and negative, and far smaller.
  for (float x : {1.0f + 0.3f / 128, -3.0f - 1.0f / 100, 1.7e-20f, 1.0f + 1.0f / 8388608}) {
    const float unit = std::ldexp(1.0f, std::ilogb(x) - 7);
    constexpr int draws = 1 << 18;
    double sum = 0;
    int wrong = 0;
    for (int i = 0; i < draws; ++i) {
      const auto step = 1 + i / 4096;
      const float y = rounded(x, make_rounding_key(seed, step), static_cast<uint32_t>(i % 4096));
      wrong += std::abs(y - x) >= unit || y != bf16_to_float(float_to_bf16(y));
      sum += static_cast<double>(y) - x;
    }
    CHECK(wrong == 0);
    // Five standard deviations of a mean of so many, each at most half a unit.
    CHECK(std::abs(sum / draws) < 5 * 0.5 * static_cast<double>(unit) / std::sqrt(draws));
  }
}

TEST_CASE("rounding by chance: what bfloat16 holds stays, and so do infinities and NaN") {
  const rounding_key key = make_rounding_key(seed, 1);
  for (uint32_t i = 0; i < 1000; ++i) {
    for (float x : {0.0f, -0.0f, 1.0f, -2.5f, 3e38f, INFINITY, -INFINITY}) {
      const float kept = bf16_to_float(float_to_bf16(x));
      REQUIRE(std::bit_cast<uint32_t>(rounded(kept, key, i)) == std::bit_cast<uint32_t>(kept));
    }
    REQUIRE(std::isnan(rounded(std::bit_cast<float>(0x7fffffffu), key, i)));
    REQUIRE(std::isnan(rounded(std::bit_cast<float>(0xff800001u), key, i)));
  }
}

TEST_CASE("rounding by chance: neighbours, steps and seeds know nothing of each other") {
  const auto agreement = [](rounding_key a, uint32_t first_a, rounding_key b, uint32_t first_b) {
    constexpr uint32_t draws = 1 << 16;
    int same[32] = {};
    for (uint32_t i = 0; i < draws; ++i) {
      const uint32_t bits = ~(random_bits(a, first_a + i) ^ random_bits(b, first_b + i));
      for (int k = 0; k < 32; ++k) same[k] += (bits >> k) & 1;
    }
    double worst = 0;
    for (int n : same) worst = std::max(worst, std::abs(n / double{draws} - 0.5));
    return worst * 2 * std::sqrt(double{draws});  // in standard deviations
  };
  const rounding_key key = make_rounding_key(seed, 1);
  for (uint32_t distance : {1u, 2u, 4u, 1024u}) CHECK(agreement(key, 0, key, distance) < 5);
  CHECK(agreement(key, 0, make_rounding_key(seed, 2), 0) < 5);
  CHECK(agreement(key, 0, make_rounding_key(seed + 1, 1), 0) < 5);
  CHECK(agreement(make_rounding_key(seed + 1, 1), 0, make_rounding_key(seed, 2), 0) < 5);
}

TEST_CASE("rounding by chance: every back end rounds its masters as the hash says") {
  const std::vector<parameter_span> spans{
      {0, 3, true}, {3, 4099, false}, {4102, elements - 4102, true}};
  const shared_value<float> scale = 1.0f;
  for (auto kind : {optimizer_step_args::rule::adamw, optimizer_step_args::rule::lamb}) {
    tensor master, weight, m, v, grad;
    const auto start = [&] {
      master = tensor::random(dtype::f32, elements, 1), weight = tensor(dtype::bf16, elements);
      m = tensor::random(dtype::f32, elements, 2, 0.1f),
      grad = tensor::random(dtype::f32, elements, 4);
      v = tensor::random(dtype::f32, elements, 3, 0.05f, 0.06f);
      master.set(5, std::numeric_limits<float>::quiet_NaN());
    };
    const auto step = [&](ops& op, stream& s) {
      optimizer_step_args a{};
      a.kind = kind, a.count = elements, a.spans = spans.data(), a.span_count = 3;
      a.master = master.floats(), a.weight = weight.data(), a.weight_type = dtype::bf16;
      a.m = m.floats(), a.v = v.floats(), a.grad = grad.floats(), a.grad_scale = scale.data();
      a.lr = 1e-2f, a.beta1 = 0.9f, a.beta2 = 0.95f, a.eps = 1e-8f, a.weight_decay = 0.1f;
      a.step = 12, a.stochastic_rounding = true, a.rounding_seed = seed;
      a.rounding_first = first;
      op.optimizer_step(s, a);
    };
    const auto check = [&] {
      const rounding_key key = make_rounding_key(seed, 12);
      int64_t wrong = 0;
      for (int64_t i = 0; i < elements; ++i) {
        if (i != 5)
          wrong += weight.get(i) != rounded(master.get(i), key, static_cast<uint32_t>(first + i));
      }
      CHECK(wrong == 0);
      CHECK(std::isnan(weight.get(5)));
      CHECK(weight.guarded());
      start();
    };
    start();
    on_reference(step);
    check();
    on_every_backend(step, check);
  }
}

TEST_CASE("rounding by chance: copies made anew are those that the update made") {
  for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{4099}, elements}) {
    const auto source = tensor::random(dtype::f32, n, 9);
    tensor copy(dtype::bf16, n);
    const auto run = [&](ops& op, stream& s) {
      tensor from = source;
      op.round_by_chance(s, {.count = n,
                             .destination = copy.data(),
                             .source = from.floats(),
                             .seed = seed,
                             .step = 12,
                             .first = first});
      REQUIRE(s.synchronize());
    };
    const auto check = [&] {
      const rounding_key key = make_rounding_key(seed, 12);
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i)
        wrong += copy.get(i) != rounded(source.get(i), key, static_cast<uint32_t>(first + i));
      CHECK(wrong == 0);
      CHECK(copy.guarded());
      copy = tensor(dtype::bf16, n);
    };
    on_reference(run);
    check();
    on_every_backend(run, check);
  }
}
