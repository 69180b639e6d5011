// What the composition of the CUDA device's operations promises beyond their results: products of
// each stream, working memory, slabs of any size, operands at odd addresses, failures.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/cuda/kernels/launch.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/emulator/loop_matmul.hpp"
#include "tests/gpu/emulator/runtime.hpp"

using namespace troupe;
using namespace troupe::gpu;

namespace {

std::unique_ptr<cuda::cuda_device> open_with(cuda::matmul_factory products, size_t slab_bytes) {
  auto opened = cuda::cuda_device::open(0, [&](cuda::cuda_device&) {
    return cuda::make_cuda_ops(products, {.slab_bytes = slab_bytes});
  });
  REQUIRE(opened);
  return std::move(*opened);
}

/// Notes the products it is asked for.
class noting_matmul final : public cuda::matmul {
 public:
  explicit noting_matmul(std::vector<cuda::matmul_args>& asked) : asked_(asked) {}
  result<bool> fuses(const cuda::matmul_args& a) override { return loops_->fuses(a); }
  status run(cudaStream_t s, const cuda::matmul_args& a) override {
    asked_.push_back(a);
    return loops_->run(s, a);
  }

 private:
  std::vector<cuda::matmul_args>& asked_;
  const std::unique_ptr<cuda::matmul> loops_ = cuda::make_loop_matmul();
};

/// `count` numbers in [-1, 1) that depend on the seed, behind `shift` that are not to be used.
std::vector<float> numbers(size_t count, unsigned seed, size_t shift = 0) {
  std::vector<float> out(shift, std::nanf(""));
  for (size_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(std::sin(static_cast<double>((i + 1) * (seed + 3)))));
  return out;
}

constexpr int64_t N = 21, C = 16, V = 53;

struct head_outcome {
  double loss = 0;
  std::vector<float> dx = std::vector<float>(N * C), dw = std::vector<float>(V * C);
  bool operator==(const head_outcome&) const = default;
};

head_outcome run_head(device& d, stream& s) {
  head_outcome out;
  const auto x = numbers(N * C, 1), w = numbers(V * C, 2);
  std::vector<int32_t> targets;
  for (int i = 0; i < N; ++i) targets.push_back(i % 4 == 0 ? -1 : i * 2);
  d.ops().head_loss(s, {.tokens = N,
                        .width = C,
                        .vocab = V,
                        .type = dtype::f32,
                        .x = x.data(),
                        .w = w.data(),
                        .targets = targets.data(),
                        .loss_sum = &out.loss,
                        .dx = out.dx.data(),
                        .dw = out.dw.data()});
  REQUIRE(s.synchronize());
  return out;
}

}  // namespace

TEST_CASE("COP-1: each stream has products of its own, made once") {
  int made = 0;
  auto d = open_with(
      [&made] {
        ++made;
        return cuda::make_loop_matmul();
      },
      1 << 20);
  auto a = std::move(*d->make_stream({"a"})), b = std::move(*d->make_stream({"b"}));
  CHECK(made == 0);
  run_head(*d, *a);
  run_head(*d, *a);
  CHECK(made == 1);
  run_head(*d, *b);
  CHECK(made == 2);
}

TEST_CASE("COP-1: products that cannot be made fail their stream, and no other") {
  auto d = open_with(
      []() -> result<std::unique_ptr<cuda::matmul>> {
        return error(errc::unavailable, "no library", "install one", "no_library");
      },
      1 << 20);
  auto s = std::move(*d->make_stream({"compute"})), other = std::move(*d->make_stream({"other"}));
  float value = 2;
  d->ops().linear_forward(
      *s,
      {.tokens = 1, .in = 1, .out = 1, .type = dtype::f32, .x = &value, .w = &value, .y = &value});
  const auto outcome = s->synchronize();
  REQUIRE_FALSE(outcome);
  CHECK(is_error(outcome, "no_library", "linear_forward"));
  CHECK(value == 2);
  d->ops().add(*other, {&value, &value, dtype::f32, 1});
  CHECK(other->synchronize());
  CHECK(value == 4);
}

TEST_CASE("COP-2: the size of slabs changes the head's loss and gradients by rounding alone") {
  auto whole_device = open_with(cuda::make_loop_matmul, 1 << 20);
  auto s = std::move(*whole_device->make_stream({"compute"}));
  const head_outcome whole = run_head(*whole_device, *s);
  CHECK(run_head(*whole_device, *s) == whole);
  for (size_t slab_bytes : {1, 600, 1200, 4000}) {
    auto d = open_with(cuda::make_loop_matmul, slab_bytes);
    auto t = std::move(*d->make_stream({"compute"}));
    const head_outcome sliced = run_head(*d, *t);
    CHECK(std::abs(sliced.loss - whole.loss) <= 1e-12 * whole.loss);
    CHECK(sliced.dx == whole.dx);
    for (size_t i = 0; i < whole.dw.size(); ++i)
      REQUIRE(std::abs(sliced.dw[i] - whole.dw[i]) <= 1e-5f);
  }
}

TEST_CASE("COP-4: products of the head are of words that 8 divides, and of at most 7 others") {
  std::vector<cuda::matmul_args> asked;
  auto d = open_with(
      [&]() -> result<std::unique_ptr<cuda::matmul>> {
        return std::unique_ptr<cuda::matmul>(new noting_matmul(asked));
      },
      1 << 20);
  auto s = std::move(*d->make_stream({"compute"}));
  run_head(*d, *s);
  REQUIRE(asked.size() == 6);
  int64_t logits = 0, words_of_dx = 0, words_of_dw = 0;
  for (const auto& a : asked) {
    int64_t& words = a.b_transposed ? logits : a.a_transposed ? words_of_dw : words_of_dx;
    const int64_t size = a.b_transposed ? a.n : a.a_transposed ? a.m : a.k;
    CHECK((size % 8 == 0 || size < 8));
    words += size;
  }
  CHECK(logits == V);
  CHECK(words_of_dx == V);
  CHECK(words_of_dw == V);
}

TEST_CASE("cuda: a norm wider than its kernel is refused") {
  constexpr int64_t most = cuda::max_norm_width;
  auto d = open_with(cuda::make_loop_matmul, 1 << 20);
  const std::vector<float> ones(most + 1, 1.0f);
  std::vector<float> y(most + 1), dx(most + 1), dweight(most + 1), rstd{1};
  const auto forward = [&](int64_t width) {
    auto s = std::move(*d->make_stream({"compute"}));
    d->ops().norm_forward(*s, {.kind = norm_kind::rms,
                               .tokens = 1,
                               .width = width,
                               .type = dtype::f32,
                               .eps = 0,
                               .x = ones.data(),
                               .weight = ones.data(),
                               .y = y.data(),
                               .rstd = rstd.data()});
    return s->synchronize();
  };
  const auto backward = [&](int64_t width) {
    auto s = std::move(*d->make_stream({"compute"}));
    d->ops().norm_backward(*s, {.kind = norm_kind::rms,
                                .tokens = 1,
                                .width = width,
                                .type = dtype::f32,
                                .dy = ones.data(),
                                .x = ones.data(),
                                .weight = ones.data(),
                                .rstd = rstd.data(),
                                .dx = dx.data(),
                                .dweight = dweight.data()});
    return s->synchronize();
  };
  REQUIRE(forward(most));
  CHECK(y[most - 1] == doctest::Approx(1));
  REQUIRE(backward(most));
  for (const auto& refused : {forward(most + 1), backward(most + 1)}) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_config);
    CHECK(mentions(refused.error(), 32769));
  }
  CHECK(y[most] == 0);
  CHECK(dx[most] == 0);
}

TEST_CASE("OPS-1: nothing is allocated after the first call with a shape") {
  auto d = open_with(cuda::make_loop_matmul, 1 << 20);
  auto s = std::move(*d->make_stream({"compute"}));
  const auto dy = numbers(N * C, 4), x = numbers(N * C, 5), weight = numbers(C, 6);
  const std::vector<int32_t> tokens(N, 7);
  std::vector<float> rstd(N, 1.0f), dx(N * C), dweight(C), table(V * C), dw(C * C), bias(C);
  const auto all = [&] {
    d->ops().norm_backward(*s, {.kind = norm_kind::rms,
                                .tokens = N,
                                .width = C,
                                .type = dtype::f32,
                                .dy = dy.data(),
                                .x = x.data(),
                                .weight = weight.data(),
                                .rstd = rstd.data(),
                                .dx = dx.data(),
                                .dweight = dweight.data()});
    d->ops().embedding_backward(
        *s, {1, N, C, V, dtype::f32, tokens.data(), dy.data(), table.data(), nullptr});
    d->ops().linear_backward_weight(
        *s, {N, C, C, dtype::f32, dy.data(), x.data(), dw.data(), bias.data()});
    run_head(*d, *s);
  };
  all();
  const auto before = cuda::emulator::live();
  cuda::emulator::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  cuda::emulator::fail_next("cudaMallocAsync", cudaErrorMemoryAllocation);
  all();
  CHECK(cuda::emulator::live() == before);
  cuda::emulator::reset();
}

TEST_CASE("rows at odd addresses give what aligned ones give") {
  auto d = open_with(cuda::make_loop_matmul, 1 << 20);
  auto s = std::move(*d->make_stream({"compute"}));
  const auto run = [&](size_t shift) {
    const auto x = numbers(N * C, 1, shift), weight = numbers(C, 2, shift);
    std::vector<float> y(N * C + shift), rstd(N), gelu(N * C + shift), sums(C);
    d->ops().norm_forward(*s, {.kind = norm_kind::rms,
                               .tokens = N,
                               .width = C,
                               .type = dtype::f32,
                               .eps = 1e-5f,
                               .x = x.data() + shift,
                               .weight = weight.data() + shift,
                               .y = y.data() + shift,
                               .rstd = rstd.data()});
    d->ops().activation_forward(
        *s, {activation_kind::gelu_tanh, N, C, dtype::f32, x.data() + shift, gelu.data() + shift});
    REQUIRE(s->synchronize());
    std::vector<float> out(y.begin() + static_cast<std::ptrdiff_t>(shift), y.end());
    out.insert(out.end(), gelu.begin() + static_cast<std::ptrdiff_t>(shift), gelu.end());
    return out;
  };
  const auto aligned = run(0), odd = run(3);
  for (size_t i = 0; i < aligned.size(); ++i) REQUIRE(std::abs(aligned[i] - odd[i]) <= 1e-6f);
}

TEST_CASE("a norm wider than the kernels take fails its stream, saying which operation") {
  auto d = open_with(cuda::make_loop_matmul, 1 << 20);
  auto s = std::move(*d->make_stream({"compute"}));
  const int64_t width = 32768 + 8;
  const std::vector<float> x(width), weight(width);
  std::vector<float> y(width), rstd(1);
  d->ops().norm_forward(*s, {.kind = norm_kind::rms,
                             .tokens = 1,
                             .width = width,
                             .type = dtype::f32,
                             .eps = 1e-5f,
                             .x = x.data(),
                             .weight = weight.data(),
                             .y = y.data(),
                             .rstd = rstd.data()});
  const auto outcome = s->synchronize();
  REQUIRE_FALSE(outcome);
  CHECK(mentions(outcome.error(), "norm_forward"));
}
