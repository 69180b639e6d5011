// The head's softmax and loss on the emulated device, against the reference.
#include <algorithm>
#include <limits>

#include "gpu/cuda/kernels/head.hpp"
#include "tests/gpu/cuda_support.hpp"
#include "tests/gpu/ops_support.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

using namespace troupe::gpu;
using namespace troupe::gpu::testing;
using cuda::softmax_loss_args;

namespace {

constexpr int64_t rows = 5;
constexpr float scale = 0.25f;
constexpr float poison = std::numeric_limits<float>::quiet_NaN();

/// What a test starts from: rows of logits with NaN behind their last column, and the truth.
struct problem {
  problem(int64_t columns, dtype type, uint64_t seed, float offset = 0.0f, float spread = 8.0f)
      : vocab(columns),
        stride(cuda::slab_stride(columns) + 8),
        logits(type, rows * stride),
        gradient(dtype::f32, rows * vocab) {
    random_numbers r(seed);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t v = 0; v < vocab; ++v)
        logits.set(i * stride + v, offset + spread * r.symmetric());
    targets = {0, static_cast<int32_t>(vocab - 1), -1, static_cast<int32_t>(r.below(vocab)), -7};
    solve();
  }

  /// The reference makes logits of x and w itself: x is the identity, w the logits transposed; dw
  /// is then the gradient transposed.
  void solve() {
    tensor x = tensor::constant(dtype::f32, rows * rows, 0.0f), w(dtype::f32, vocab * rows);
    tensor dw = tensor::constant(dtype::f32, vocab * rows, 0.0f);
    for (int64_t i = 0; i < rows; ++i) {
      x.set(i * rows + i, 1.0f);
      for (int64_t v = 0; v < vocab; ++v) w.set(v * rows + i, logits.get(i * stride + v));
    }
    for (int64_t i = 0; i < rows; ++i) {
      double loss = 0;
      shared_vector<int32_t> only(rows, -1);
      only[static_cast<size_t>(i)] = targets[static_cast<size_t>(i)];
      reference::head_loss({.tokens = rows,
                            .width = rows,
                            .vocab = vocab,
                            .type = dtype::f32,
                            .x = x.data(),
                            .w = w.data(),
                            .targets = only.data(),
                            .scale = scale,
                            .loss_sum = &loss,
                            .dw = dw.floats()});
      losses.push_back(loss);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t v = 0; v < vocab; ++v) gradient.set(i * vocab + v, dw.get(v * rows + i));
  }

  softmax_loss_args args(double* losses_out) {
    softmax_loss_args a{};
    a.rows = rows, a.vocab = vocab;
    a.logits_type = logits.type(), a.logits = logits.data(), a.logits_stride = stride;
    a.targets = targets.data(), a.losses = losses_out, a.scale = scale;
    return a;
  }

  int64_t vocab, stride;
  tensor logits, gradient;  ///< gradient: packed
  shared_vector<int32_t> targets;
  shared_vector<double> losses;
};

void run(const softmax_loss_args& a) {
  on_gpu([&](cudaStream_t s) { return cuda::launch_softmax_loss(s, a); });
}

float value(const void* data, dtype type, int64_t i) {
  return static_cast<float>(reference::get(data, type, i));
}

/// Whether a gradient is the truth's, with zeros up to the next multiple of 8.
void check_gradient(const problem& p, const void* gradient, dtype type, int64_t stride) {
  // A logit near 100 is known to 2^-17, and so is its power; bfloat16 rounds to 2^-9.
  const double relative = type == dtype::bf16 ? 1.0 / 256 : 2e-5;
  double worst = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t v = 0; v < p.vocab; ++v) {
      const double want = p.gradient.get(i * p.vocab + v);
      const double got = value(gradient, type, i * stride + v);
      if (!(std::abs(got - want) <= relative * std::abs(want) + 1e-9)) worst = 1;
    }
    for (int64_t v = p.vocab; v < cuda::slab_stride(p.vocab); ++v)
      CHECK(value(gradient, type, i * stride + v) == 0.0f);
  }
  CHECK(worst == 0);
}

void check_losses(const problem& p, const shared_vector<double>& losses) {
  for (size_t i = 0; i < rows; ++i)
    CHECK(std::abs(losses[i] - p.losses[i]) <= 1e-6 * std::abs(p.losses[i]) + 1e-6);
  CHECK(losses[2] == 0);
}

struct types {
  dtype logits, gradient;
};
constexpr types all_types[] = {
    {dtype::f32, dtype::bf16}, {dtype::f32, dtype::f32}, {dtype::bf16, dtype::bf16}};

}  // namespace

TEST_CASE("CUDA head: losses and gradients equal the reference's, apart and in place") {
  if (!have_gpu()) return;
  for (const auto& [logits, gradient] : all_types) {
    // The largest does not fit into a block's shared memory.
    for (int64_t vocab : {1, 5, 8, 31, 1000, 50257, logits == dtype::f32 ? 70001 : 120001}) {
      CAPTURE(vocab);
      problem p(vocab, logits, 7 + static_cast<uint64_t>(vocab), -100.0f);
      shared_vector<double> losses(rows, poison);
      softmax_loss_args a = p.args(losses.data());
      a.gradient_type = gradient;
      a.gradient_stride = cuda::slab_stride(vocab) + 16;
      tensor apart(gradient, rows * a.gradient_stride);
      a.gradient = apart.data();
      const tensor before = p.logits;
      run(a);
      CHECK(p.logits.same_bits(before));
      check_losses(p, losses);
      check_gradient(p, apart.data(), gradient, a.gradient_stride);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t v = cuda::slab_stride(vocab); v < a.gradient_stride; ++v)
          REQUIRE(std::isnan(apart.get(i * a.gradient_stride + v)));
      CHECK(apart.guarded());

      const auto place = cuda::in_place_gradient(p.logits.data(), logits, p.stride, gradient);
      a.gradient = place.data, a.gradient_stride = place.stride;
      std::fill(losses.begin(), losses.end(), poison);
      run(a);
      check_losses(p, losses);
      check_gradient(p, place.data, gradient, place.stride);
      CHECK(p.logits.guarded());
    }
  }
}

TEST_CASE("CUDA head: evaluation gives the same losses and writes nothing else") {
  if (!have_gpu()) return;
  for (dtype type : {dtype::f32, dtype::bf16}) {
    problem p(9001, type, 3);
    const tensor before = p.logits;
    shared_vector<double> with(rows, poison), without(rows, poison);
    run(p.args(without.data()));
    check_losses(p, without);
    CHECK(p.logits.same_bits(before));
    softmax_loss_args a = p.args(with.data());
    tensor gradient(dtype::bf16, rows * p.stride);
    a.gradient = gradient.data(), a.gradient_stride = p.stride;
    run(a);
    CHECK(with == without);
  }
}

TEST_CASE("CUDA head: a row's result does not depend on its slab") {
  if (!have_gpu()) return;
  problem p(777, dtype::f32, 11);
  shared_vector<double> whole(rows, poison), sliced(rows, poison);
  tensor expected(dtype::bf16, rows * p.stride), actual(dtype::bf16, rows * p.stride);
  softmax_loss_args a = p.args(whole.data());
  a.gradient = expected.data(), a.gradient_stride = p.stride;
  run(a);
  for (int64_t first = 0; first < rows; first += 2) {
    softmax_loss_args part = p.args(sliced.data() + first);
    part.rows = std::min<int64_t>(2, rows - first);
    part.logits = p.logits.floats() + first * p.stride;
    part.targets = p.targets.data() + first;
    part.gradient = static_cast<bf16_bits*>(actual.data()) + first * p.stride;
    part.gradient_stride = p.stride;
    run(part);
  }
  CHECK(sliced == whole);
  CHECK(actual.same_bits(expected));
}

TEST_CASE(
    "CUDA head: masked logits have no probability, and what is not a number shows in the loss") {
  if (!have_gpu()) return;
  problem p(300, dtype::f32, 5);
  for (int64_t v = 0; v < 150; ++v) p.logits.set(3 * p.stride + v, -INFINITY);
  p.targets[3] = 200;
  p.logits.set(1 * p.stride + 17, poison);
  p.logits.set(0 * p.stride + 250, INFINITY);
  shared_vector<double> losses(rows, 0.0);
  tensor gradient(dtype::f32, rows * p.stride);
  softmax_loss_args a = p.args(losses.data());
  a.gradient_type = dtype::f32, a.gradient = gradient.data(), a.gradient_stride = p.stride;
  run(a);
  CHECK(std::isfinite(losses[3]));
  CHECK(losses[3] > 0);
  double sum = 0;
  for (int64_t v = 0; v < 300; ++v) {
    if (v < 150) CHECK(gradient.get(3 * p.stride + v) == 0.0f);
    sum += gradient.get(3 * p.stride + v);
  }
  CHECK(std::abs(sum) < 1e-6);
  CHECK(std::isnan(losses[1]));
  CHECK_FALSE(std::isfinite(losses[0]));
}

TEST_CASE("CUDA head: the losses' sum is added to what is there, in one order") {
  if (!have_gpu()) return;
  for (int64_t count : {0, 1, 1023, 1024, 9000}) {
    shared_vector<double> losses;
    random_numbers r(static_cast<uint64_t>(count));
    double expected = 3.5;
    for (int64_t i = 0; i < count; ++i) {
      losses.push_back(5.0 + static_cast<double>(r.symmetric()));
      expected += losses.back();
    }
    shared_vector<double> sums(2, 3.5);
    for (double& sum : sums)
      on_gpu(
          [&](cudaStream_t s) { return cuda::launch_sum_losses(s, losses.data(), count, &sum); });
    CHECK(std::abs(sums[0] - expected) <= 1e-13 * expected);
    CHECK(sums[0] == sums[1]);
  }
}

TEST_CASE("CUDA head: what it cannot do is refused") {
  if (!have_gpu()) return;
  problem p(20, dtype::f32, 1);
  shared_vector<double> losses(rows);
  tensor gradient(dtype::f32, rows * 64);
  const auto refused = [&](auto&& change) {
    softmax_loss_args a = p.args(losses.data());
    a.gradient = gradient.data(), a.gradient_stride = 64;
    change(a);
    cudaError_t outcome = cudaSuccess;
    on_gpu([&](cudaStream_t s) {
      outcome = cuda::launch_softmax_loss(s, a);
      return cudaSuccess;
    });
    return outcome == cudaErrorInvalidValue;
  };
  CHECK_FALSE(refused([](auto&) {}));
  CHECK(refused([](auto& a) { a.logits_stride = 20; }));
  CHECK(refused([](auto& a) { a.gradient_stride = 16; }));
  CHECK(refused([](auto& a) { a.gradient_stride = 28; }));
  CHECK(refused([&](auto& a) { a.logits = p.logits.floats() + 1; }));
  CHECK(refused([&](auto& a) { a.gradient = gradient.floats() + 1; }));
  CHECK(refused([](auto& a) { a.logits_type = dtype::bf16, a.gradient_type = dtype::f32; }));
  // In place, but not where in_place_gradient() says.
  CHECK(refused([&](auto& a) { a.gradient = p.logits.data(), a.gradient_stride = 2 * p.stride; }));
}
