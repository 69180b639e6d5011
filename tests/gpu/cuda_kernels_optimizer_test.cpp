// The optimizers' launchers on the emulated device: spans that begin anywhere, more of them than a
// launch takes, sums in one order. (That they equal the reference on ordinary chunks is for
// ops_optimizer_test.cpp to see.)
#include <numeric>

#include "gpu/cuda/kernels/launch.hpp"
#include "gpu/stochastic_rounding.hpp"
#include "tests/gpu/cuda_support.hpp"
#include "tests/gpu/ops_support.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

using rule = optimizer_step_args::rule;

/// 150 spans of random odd sizes, some of them empty, some of one element.
std::vector<parameter_span> many_spans() {
  std::vector<parameter_span> out;
  random_numbers r(17);
  int64_t offset = 0;
  for (int i = 0; i < 150; ++i) {
    const int64_t sizes[] = {0, 1, r.below(9), r.below(300), r.below(5000)};
    out.push_back({offset, sizes[r.below(5)], r.below(2) == 0});
    offset += out.back().count;
  }
  out.push_back({offset, 9001, true});
  return out;
}

int64_t count_of(const std::vector<parameter_span>& spans) {
  return spans.back().offset + spans.back().count;
}

/// The arrays of a chunk, each `shift` elements behind an aligned address, with a guard in front.
struct chunk {
  chunk(dtype weight_type, int64_t elements, int64_t first = 0)
      : type(weight_type),
        count(elements),
        shift(first),
        master(tensor::random(dtype::f32, count + shift, 1)),
        m(tensor::random(dtype::f32, count + shift, 2, 0.1f)),
        v(tensor::random(dtype::f32, count + shift, 3, 0.05f, 0.06f)),
        grad(tensor::random(dtype::f32, count + shift, 4)),
        weight(type, count + shift) {
    // Whatever the shift, element i is the same.
    for (tensor* t : {&master, &m, &v, &grad}) {
      for (int64_t i = count - 1; i >= 0; --i) t->set(i + shift, t->get(i));
      for (int64_t i = 0; i < shift; ++i) t->set(i, -5.0f);
    }
    for (int64_t i = 0; i < shift; ++i) weight.set(i, -5.0f);
  }

  optimizer_step_args args(rule kind, const std::vector<parameter_span>& spans) {
    optimizer_step_args a{};
    a.kind = kind, a.count = count;
    a.spans = spans.data(), a.span_count = static_cast<int64_t>(spans.size());
    a.master = master.floats() + shift, a.m = m.floats() + shift, a.v = v.floats() + shift;
    a.grad = grad.floats() + shift;
    a.weight = static_cast<char*>(weight.data()) + shift * static_cast<int64_t>(size_of(type));
    a.weight_type = type, a.grad_scale = scale.data();
    a.lr = 1e-2f, a.beta1 = 0.9f, a.beta2 = 0.95f, a.eps = 1e-8f, a.weight_decay = 0.1f;
    a.step = 7;
    return a;
  }

  bool guarded() const {
    for (const tensor* t : {&master, &m, &v, &grad, &weight}) {
      if (!t->guarded()) return false;
      for (int64_t i = 0; i < shift; ++i)
        if (t->get(i) != -5.0f) return false;
    }
    return true;
  }

  dtype type;
  int64_t count, shift;
  tensor master, m, v, grad, weight;
  shared_value<float> scale = 0.37f;
};

void on_gpu_step(const optimizer_step_args& a) {
  shared_vector<unsigned char> scratch(cuda::optimizer_scratch_bytes, 0xff);
  on_gpu([&](cudaStream_t s) { return cuda::launch_optimizer_step(s, a, scratch.data()); });
}

/// The elements of a tensor from `shift` on.
std::vector<float> values(const tensor& t, int64_t shift) {
  std::vector<float> out;
  for (int64_t i = shift; i < t.count(); ++i) out.push_back(t.get(i));
  return out;
}

bool same(const chunk& a, const chunk& b) {
  for (auto part : {&chunk::master, &chunk::m, &chunk::v, &chunk::grad, &chunk::weight})
    if (values(a.*part, a.shift) != values(b.*part, b.shift)) return false;
  return true;
}

double sum_on_gpu(const float* grad, const std::vector<parameter_span>& spans, double start,
                  shared_vector<double>* per_span) {
  shared_vector<unsigned char> scratch(cuda::optimizer_scratch_bytes, 0xff);
  shared_value<double> sum = start;
  on_gpu([&](cudaStream_t s) {
    const norm_squared_args a = {grad, spans.data(), static_cast<int64_t>(spans.size()), sum.data(),
                                 per_span == nullptr ? nullptr : per_span->data()};
    return cuda::launch_norm_squared(s, a, scratch.data());
  });
  return sum;
}

}  // namespace

TEST_CASE("CUDA optimizers: more spans than a launch takes, at any offset, equal the reference") {
  if (!have_gpu()) return;
  const auto spans = many_spans();
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (rule kind : {rule::adamw, rule::lamb}) {
      for (bool trust : {false, true}) {
        if (kind == rule::adamw && trust) continue;
        for (int64_t shift : {0, 1}) {
          CAPTURE(shift);
          chunk expected(type, count_of(spans), shift), actual(type, count_of(spans), shift);
          for (chunk* c : {&expected, &actual}) {
            for (int64_t i = 0; i < spans[9].offset; ++i) c->master.set(i + shift, 0.0f);
            for (int64_t i = spans[99].offset; i < spans[119].offset; ++i) {
              for (auto part : {&chunk::m, &chunk::v, &chunk::grad, &chunk::master})
                (c->*part).set(i + shift, 0.0f);  // |r| = 0 as well
            }
          }
          optimizer_step_args a = expected.args(kind, spans), b = actual.args(kind, spans);
          a.trust_always = b.trust_always = trust;
          reference::optimizer_step(a);
          on_gpu_step(b);
          CHECK_CLOSE(actual.master, expected.master, (tolerance{4e-7, 4e-8}));
          CHECK_CLOSE(actual.m, expected.m, (tolerance{4e-7, 1e-8}));
          CHECK_CLOSE(actual.v, expected.v, (tolerance{4e-7, 1e-9}));
          CHECK(values(actual.grad, shift) ==
                std::vector<float>(static_cast<size_t>(actual.count), 0.0f));
          int64_t wrong = 0;
          for (int64_t i = shift; i < actual.count + shift; ++i) {
            const float w = actual.master.get(i);
            wrong +=
                actual.weight.get(i) != (type == dtype::bf16 ? bf16_to_float(float_to_bf16(w)) : w);
          }
          CHECK(wrong == 0);
          CHECK(actual.guarded());
        }
      }
    }
  }
}

TEST_CASE("CUDA optimizers: the copy may be the master itself") {
  if (!have_gpu()) return;
  const auto spans = many_spans();
  for (rule kind : {rule::adamw, rule::lamb}) {
    chunk apart(dtype::f32, count_of(spans)), one(dtype::f32, count_of(spans));
    optimizer_step_args a = one.args(kind, spans);
    a.weight = a.master;
    on_gpu_step(a);
    on_gpu_step(apart.args(kind, spans));
    CHECK(one.master.same_bits(apart.master));
    CHECK(std::isnan(one.weight.get(0)));
  }
}

TEST_CASE("CUDA optimizers: the same bits every time, aligned or not, in one span or in many") {
  if (!have_gpu()) return;
  auto spans = many_spans();
  for (rule kind : {rule::adamw, rule::lamb}) {
    for (bool by_chance : {false, true}) {
      chunk first(dtype::bf16, count_of(spans)), again(dtype::bf16, count_of(spans)),
          shifted(dtype::bf16, count_of(spans), 3);
      for (chunk* c : {&first, &again, &shifted}) {
        optimizer_step_args a = c->args(kind, spans);
        a.stochastic_rounding = by_chance;
        on_gpu_step(a);
      }
      CHECK(same(first, again));
      CHECK(same(first, shifted));
    }
  }
  for (auto& span : spans) span.decay = true;
  chunk many(dtype::bf16, count_of(spans)), whole(dtype::bf16, count_of(spans));
  on_gpu_step(many.args(rule::adamw, spans));
  const std::vector<parameter_span> one{{0, whole.count, true}};
  on_gpu_step(whole.args(rule::adamw, one));
  CHECK(same(many, whole));
}

TEST_CASE(
    "CUDA optimizers: by chance, copies are rounded as the hash of seed, step, element says") {
  if (!have_gpu()) return;
  const auto spans = many_spans();
  for (rule kind : {rule::adamw, rule::lamb}) {
    for (int64_t shift : {0, 1}) {
      chunk c(dtype::bf16, count_of(spans), shift);
      optimizer_step_args a = c.args(kind, spans);
      a.stochastic_rounding = true;
      a.rounding_seed = 0x123456789abcdef0u;
      on_gpu_step(a);
      const rounding_key key = make_rounding_key(a.rounding_seed, a.step);
      int64_t up = 0, wrong = 0;
      for (int64_t i = 0; i < c.count; ++i) {
        const auto bits = std::bit_cast<uint32_t>(c.master.get(i + shift));
        const uint32_t want = round_by_chance(bits, random_bits(key, static_cast<uint32_t>(i)));
        wrong += std::bit_cast<uint32_t>(c.weight.get(i + shift)) != want;
        up += want > bits;
      }
      CHECK(wrong == 0);
      CHECK(std::abs(static_cast<double>(up) / static_cast<double>(c.count) - 0.5) < 0.01);
      CHECK(c.guarded());
    }
  }
}

TEST_CASE("CUDA norms: each span's and the total, added to what is there, in one order") {
  if (!have_gpu()) return;
  const auto spans = many_spans();
  for (int64_t shift : {0, 1}) {
    chunk c(dtype::f32, count_of(spans), shift);
    const float* grad = c.grad.floats() + shift;
    std::vector<double> expected(spans.size(), 1.0);
    double expected_sum = 2.0;
    reference::norm_squared(
        {grad, spans.data(), static_cast<int64_t>(spans.size()), &expected_sum, expected.data()});
    shared_vector<double> actual(spans.size(), 1.0);
    const double sum = sum_on_gpu(grad, spans, 2.0, &actual);
    CHECK(std::abs(sum - expected_sum) <= 1e-13 * expected_sum);
    for (size_t i = 0; i < spans.size(); ++i)
      CHECK(std::abs(actual[i] - expected[i]) <= 1e-13 * expected[i]);
    CHECK(sum_on_gpu(grad, spans, 2.0, nullptr) == sum);
    CHECK(c.guarded());
  }
}

TEST_CASE("CUDA norms: chunks so large that a block sums several strides") {
  if (!have_gpu()) return;
  // Tiles are then 8,192 elements; a small span lies between two large ones.
  const int64_t large = 4300001;
  const std::vector<parameter_span> spans{
      {0, large, true}, {large, 5, true}, {large + 5, large, true}};
  tensor grad(dtype::f32, count_of(spans));
  for (int64_t i = 0; i < grad.count(); ++i) grad.set(i, static_cast<float>(i % 7) - 2.0f);
  std::vector<double> expected(3, 0.0);
  for (size_t s = 0; s < 3; ++s)
    for (int64_t i = 0; i < spans[s].count; ++i) {
      const double g = static_cast<double>((spans[s].offset + i) % 7) - 2.0;
      expected[s] += g * g;
    }
  shared_vector<double> actual(3, 0.0);
  const double sum = sum_on_gpu(grad.floats(), spans, 0.0, &actual);
  for (size_t s = 0; s < 3; ++s) CHECK(actual[s] == expected[s]);  // whole numbers: exact
  CHECK(sum == expected[0] + expected[1] + expected[2]);
}

TEST_CASE("CUDA norms: what is not a number shows, in its own sum and in the total") {
  if (!have_gpu()) return;
  const std::vector<parameter_span> spans{{0, 1000, true}, {1000, 3000, true}, {4000, 50, true}};
  tensor grad = tensor::random(dtype::f32, 4050, 1);
  grad.set(3999, std::numeric_limits<float>::quiet_NaN());
  shared_vector<double> per_span(3, 0.0);
  CHECK(std::isnan(sum_on_gpu(grad.floats(), spans, 0.0, &per_span)));
  CHECK(std::isfinite(per_span[0]));
  CHECK(std::isnan(per_span[1]));
  CHECK(std::isfinite(per_span[2]));
}

TEST_CASE("CUDA clip factor: below, above, at nothing, off") {
  if (!have_gpu()) return;
  for (double squared : {0.0, 0.25, 1.0, 16.0, 1e30}) {
    for (float limit : {0.0f, 0.5f, 1.0f}) {
      shared_value<double> norm = squared;
      shared_value<float> actual = -1.0f;
      float expected = -1.0f;
      reference::clip_scale({norm.data(), limit, &expected});
      on_gpu([&](cudaStream_t s) {
        return cuda::launch_clip_scale(s, {norm.data(), limit, actual.data()});
      });
      CHECK(actual == expected);
    }
  }
}
