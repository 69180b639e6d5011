// Optimizers, norms and clipping against the reference and against sums done by hand.
#include <numeric>

#include "tests/gpu/ops_support.hpp"

using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

using rule = optimizer_step_args::rule;

/// Spans of odd sizes, with and without decay; one is larger than a block of the sums.
const std::vector<parameter_span> spans = {
    {0, 37, true}, {37, 56, false}, {93, 1, true}, {94, 70001, true}, {70095, 2048, false}};
constexpr int64_t count = 72143;

struct optimizer_state {
  tensor master, weight, m, v, grad;
};

optimizer_state start(dtype type) {
  optimizer_state s{tensor::random(dtype::f32, count, 1), tensor(type, count),
                    tensor::random(dtype::f32, count, 2, 0.1f),
                    tensor::random(dtype::f32, count, 3, 0.05f, 0.06f),
                    tensor::random(dtype::f32, count, 4)};
  for (int64_t i = 70095; i < count; ++i) s.master.set(i, 0.0f);  // |w| = 0: ratio 1
  return s;
}

void run(ops& op, stream& s, rule kind, bool trust, dtype type, const float* scale,
         optimizer_state& state) {
  op.optimizer_step(s, {.kind = kind,
                        .count = count,
                        .spans = spans.data(),
                        .span_count = static_cast<int64_t>(spans.size()),
                        .master = state.master.floats(),
                        .weight = type == dtype::f32 ? state.master.data() : state.weight.data(),
                        .weight_type = type,
                        .m = state.m.floats(),
                        .v = state.v.floats(),
                        .grad = state.grad.floats(),
                        .grad_scale = scale,
                        .lr = 1e-2f,
                        .beta1 = 0.9f,
                        .beta2 = 0.95f,
                        .eps = 1e-8f,
                        .weight_decay = 0.1f,
                        .step = 7,
                        .trust_always = trust});
}

/// The spans of the elements [first, last), counted from `first`; `skipped` are wholly before it.
std::vector<parameter_span> cut(int64_t first, int64_t last, int64_t& skipped) {
  std::vector<parameter_span> out;
  skipped = 0;
  for (const auto& s : spans) {
    const int64_t begin = std::max(s.offset, first), end = std::min(s.offset + s.count, last);
    if (begin < end) out.push_back({begin - first, end - begin, s.decay});
    if (s.offset + s.count <= first) ++skipped;
  }
  return out;
}

/// LAMB of [first, last), a device's slice, in one of its phases.
void run_slice(ops& op, stream& s, optimizer_step_args::phase part, int64_t first, int64_t last,
               const float* scale, double* norms, int64_t row, optimizer_state& state) {
  const auto stride = static_cast<int64_t>(2 * spans.size());
  int64_t skipped = 0;
  const auto own = cut(first, last, skipped);
  optimizer_step_args a{};
  a.kind = rule::lamb, a.part = part;
  a.count = last - first;
  a.spans = own.data(), a.span_count = static_cast<int64_t>(own.size());
  a.master = state.master.floats() + first, a.weight = a.master, a.weight_type = dtype::f32;
  a.m = state.m.floats() + first, a.v = state.v.floats() + first;
  a.grad = state.grad.floats() + first, a.grad_scale = scale;
  a.lr = 1e-2f, a.beta1 = 0.9f, a.beta2 = 0.95f, a.eps = 1e-8f, a.weight_decay = 0.1f;
  a.step = 7, a.trust_always = true;
  a.norms = norms + 2 * skipped + (part == optimizer_step_args::phase::norms ? row * stride : 0);
  a.norm_rows = 3, a.norm_stride = stride;
  op.optimizer_step(s, a);
  REQUIRE(s.synchronize());  // `own` ends here
}

}  // namespace

TEST_CASE("LAMB in two phases over three slices equals LAMB over all") {
  using phase = optimizer_step_args::phase;
  const shared_value<float> scale = 0.37f;
  const std::vector<int64_t> cuts{0, 93, 40'000, count};  // two tensors lie in two slices
  optimizer_state expected = start(dtype::f32), actual = start(dtype::f32);
  on_reference([&](ops& op, stream& s) {
    run(op, s, rule::lamb, true, dtype::f32, scale.data(), expected);
  });
  shared_vector<double> norms(6 * spans.size(), 0.0);
  const auto in_slices = [&](ops& op, stream& s) {
    for (const phase part : {phase::norms, phase::apply})
      for (int64_t i = 0; i < 3; ++i)
        run_slice(op, s, part, cuts[static_cast<size_t>(i)], cuts[static_cast<size_t>(i) + 1],
                  scale.data(), norms.data(), i, actual);
  };
  const auto check = [&] {
    CHECK_CLOSE(actual.master, expected.master, (tolerance{4e-7, 4e-8}));
    CHECK_CLOSE(actual.m, expected.m, (tolerance{4e-7, 1e-8}));
    for (int64_t i = 0; i < count; ++i) REQUIRE(actual.grad.get(i) == 0.0f);
    actual = start(dtype::f32);
    norms.assign(norms.size(), 0.0);
  };
  on_reference(in_slices);
  check();
  on_every_backend(in_slices, check);
}

TEST_CASE("AdamW and LAMB equal the reference and zero the gradient") {
  const shared_value<float> scale = 0.37f;
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (rule kind : {rule::adamw, rule::lamb}) {
      for (bool trust : {false, true}) {
        optimizer_state expected = start(type), actual = start(type);
        on_reference(
            [&](ops& op, stream& s) { run(op, s, kind, trust, type, scale.data(), expected); });
        on_every_backend(
            [&](ops& op, stream& s) { run(op, s, kind, trust, type, scale.data(), actual); },
            [&] {
              CHECK_CLOSE(actual.master, expected.master, (tolerance{4e-7, 4e-8}));
              CHECK_CLOSE(actual.m, expected.m, (tolerance{4e-7, 1e-8}));
              CHECK_CLOSE(actual.v, expected.v, (tolerance{4e-7, 1e-9}));
              if (type == dtype::bf16) {
                for (int64_t i = 0; i < count; ++i) {
                  REQUIRE(actual.weight.get(i) ==
                          bf16_to_float(float_to_bf16(actual.master.get(i))));
                }
              }
              for (int64_t i = 0; i < count; ++i) REQUIRE(actual.grad.get(i) == 0.0f);
              actual = start(type);
            });
      }
    }
  }
}

TEST_CASE("AdamW: one step by hand") {
  // w 1, g 0.5, m = v = 0, step 1: the corrected m/sqrt(v) is g/|g| = 1; w = 1*(1 - 0.1*0.5) - 0.1
  float w = 1, m = 0, v = 0, g = 0.5f, scale = 1;
  const parameter_span whole{0, 1, true};
  const auto step = [&](ops& op, stream& s) {
    op.optimizer_step(s, {rule::adamw, 1, &whole, 1, &w, &w, dtype::f32, &m, &v, &g, &scale, 0.1f,
                          0.9f, 0.95f, 1e-8f, 0.5f, 1, true});
  };
  on_reference(step);
  CHECK(w == doctest::Approx(0.85).epsilon(1e-6));
  CHECK(m == doctest::Approx(0.05).epsilon(1e-6));
  CHECK(v == doctest::Approx(0.0125).epsilon(1e-6));
  CHECK(g == 0);
}

TEST_CASE("norm_squared: total and per span, in double, added to what is there") {
  auto grad = tensor::random(dtype::f32, count, 9);
  shared_vector<double> expected(spans.size(), 1.0), actual;
  shared_value<double> expected_sum = 2.0, sum = 0.0;
  on_reference([&](ops& op, stream& s) {
    op.norm_squared(s, {grad.floats(), spans.data(), 5, expected_sum.data(), expected.data()});
  });
  CHECK(expected_sum - 2.0 ==
        doctest::Approx(std::accumulate(expected.begin(), expected.end(), -5.0)));
  const auto reset = [&] {
    sum = 2.0;
    actual.assign(spans.size(), 1.0);
  };
  reset();
  on_every_backend(
      [&](ops& op, stream& s) {
        op.norm_squared(s, {grad.floats(), spans.data(), 5, sum.data(), actual.data()});
      },
      [&] {
        CHECK(std::abs(sum - expected_sum) < 1e-12 * expected_sum);
        for (size_t i = 0; i < spans.size(); ++i) {
          CHECK(std::abs(actual[i] - expected[i]) <= 1e-12 * expected[i]);
        }
        reset();
      });
  on_every_backend(
      [&](ops& op, stream& s) {
        op.norm_squared(s, {grad.floats(), spans.data(), 5, sum.data(), nullptr});
      },
      [&] { reset(); });
}

TEST_CASE("clip_scale: below, above, off") {
  const auto scale_of = [](double square, float limit) {
    const shared_value<double> squared = square;
    shared_value<float> scale = -1.0f, truth = -1.0f;
    on_reference([&](ops& op, stream& s) {
      op.clip_scale(s, {squared.data(), limit, truth.data()});
    });
    on_every_backend(
        [&](ops& op, stream& s) {
          op.clip_scale(s, {squared.data(), limit, scale.data()});
        },
        [&] { CHECK(scale == truth); });
    return static_cast<float>(truth);
  };
  CHECK(scale_of(0.25, 1.0f) == 1.0f);
  CHECK(scale_of(16.0, 1.0f) == doctest::Approx(1.0 / (4.0 + 1e-6)));
  CHECK(scale_of(16.0, 0.0f) == 1.0f);
  CHECK(scale_of(0.0, 1.0f) == 1.0f);
}
