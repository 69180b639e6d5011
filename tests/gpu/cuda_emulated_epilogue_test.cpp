// What products do besides multiplying: GELU, its gradient, sums of bias gradients. The mapping to
// cuBLASLt over a fake library that follows its documentation, the emulated device's loops, and the
// operations that are made of them, with a library that has the epilogues and with one that lacks
// them.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/cuda/cublas_lt.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/device.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/emulator/loop_matmul.hpp"
#include "tests/gpu/fake_cublas_lt.hpp"
#include "tests/gpu/matmul_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::cuda;
using namespace troupe::gpu::cuda::testing;

namespace {

std::unique_ptr<matmul> fake_products() {
  fake_cublas_lt() = {};
  choose_device();
  auto made = make_cublas_matmul({}, fake_cublas_lt_table());
  REQUIRE(made);
  return std::move(*made);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

/// A random product with an epilogue, which a library may take: rows of d are 8 elements or more,
/// aux is on 16 bytes.
struct ending {
  epilogue after;
  int64_t m, n, k, stride;
  dtype in, out;
  bool a_transposed, b_transposed, has_bias, has_c;
  matrix a, b, bias, d, aux;

  static ending draw(rng& r, epilogue after) {
    const bool sums = after == epilogue::sums_of_a;
    const int64_t m = 1 + r.below(37), n = sums ? 1 + r.below(41) : 8 * (1 + r.below(5));
    const int64_t k = 1 + r.below(43), stride = sums ? n + r.below(6) : n + 8 * r.below(3);
    const dtype in = sums && r.below(2) ? dtype::f32 : dtype::bf16;
    const dtype out = sums ? dtype::f32 : dtype::bf16;
    const bool at = r.below(2), bt = r.below(2);
    return {after,
            m,
            n,
            k,
            stride,
            in,
            out,
            at,
            bt,
            after == epilogue::gelu && r.below(2),
            sums && r.below(2),
            matrix(in, at ? k : m, at ? m : k, 0, r.below(4), r),
            matrix(in, bt ? n : k, bt ? k : n, 0, r.below(4), r),
            matrix(out, 1, n, 0, r.below(4), r),
            matrix(out, m, n, stride, 8 * r.below(3), r),
            sums ? matrix(out, 1, m, 0, 4 * r.below(3), r)
                 : matrix(out, m, n, stride, 8 * r.below(3), r)};
  }
  matmul_args args(matrix& to, matrix& beside) const {
    return {.m = m,
            .n = n,
            .k = k,
            .in = in,
            .out = out,
            .a = a.data(),
            .a_transposed = a_transposed,
            .b = b.data(),
            .b_transposed = b_transposed,
            .bias = has_bias ? bias.data() : nullptr,
            .c = has_c ? to.data() : nullptr,
            .d = to.data(),
            .d_stride = stride,
            .after = after,
            .aux = beside.data()};
  }
  double left(int64_t i, int64_t x) const { return a_transposed ? a.get(x, i) : a.get(i, x); }
  double sum(int64_t i, int64_t j) const {
    double total = 0;
    for (int64_t x = 0; x < k; ++x)
      total += left(i, x) * double(b_transposed ? b.get(j, x) : b.get(x, j));
    return total + (has_bias ? double(bias.get(0, j)) : 0) + (has_c ? double(d.get(i, j)) : 0);
  }
  /// What d and aux should be.
  std::pair<matrix, matrix> expected() const {
    matrix to = d, beside = aux;
    for (int64_t i = 0; i < m; ++i) {
      double of_a = 0;
      for (int64_t x = 0; x < k; ++x) of_a += left(i, x);
      if (after == epilogue::sums_of_a) beside.set(0, i, of_a);
      for (int64_t j = 0; j < n; ++j) {
        const double value = sum(i, j);
        if (after == epilogue::gelu) beside.set(i, j, value);
        to.set(i, j,
               after == epilogue::gelu            ? gelu(value)
               : after == epilogue::gelu_gradient ? value * gelu_slope(aux.get(i, j))
                                                  : value);
      }
    }
    return {to, beside};
  }
};

constexpr epilogue all_endings[] = {epilogue::gelu, epilogue::gelu_gradient, epilogue::sums_of_a};

void check_endings(matmul& products, uint64_t seed, int count) {
  rng r(seed);
  raw_stream on;
  for (int i = 0; i < count; ++i) {
    for (const epilogue after : all_endings) {
      CAPTURE(i);
      CAPTURE(int(after));
      const ending x = ending::draw(r, after);
      matrix to = x.d, beside = x.aux;
      const matmul_args args = x.args(to, beside);
      const auto fuses = products.fuses(args);
      REQUIRE_MESSAGE(fuses, fake_cublas_lt().refused);
      CHECK(*fuses);
      const status outcome = products.run(on.s, args);
      CHECK_MESSAGE(outcome, (outcome ? "" : render(outcome.error())), fake_cublas_lt().refused);
      on.wait();
      const auto [d, aux] = x.expected();
      REQUIRE(to.near(d, x.out == dtype::bf16 ? 1.0 / 128 : 1e-6, 2e-5));
      REQUIRE(beside.near(aux, after == epilogue::gelu ? 1.0 / 128 : 1e-6, 2e-5));
    }
  }
}

}  // namespace

TEST_CASE("cuBLASLt is asked for the epilogues as it documents them: random products") {
  check_endings(*fake_products(), 21, 100);
  CHECK(fake_cublas_lt().products == 300);
  CHECK(fake_cublas_lt().live == 0);
}

TEST_CASE("the emulated device's loops have the same epilogues") {
  check_endings(*make_loop_matmul(), 22, 60);
}

TEST_CASE("what the documentation excludes is not asked for") {
  const auto products = fake_products();
  rng r(23);
  for (const epilogue after : {epilogue::gelu, epilogue::gelu_gradient}) {
    const ending x = ending::draw(r, after);
    matrix to = x.d, beside = x.aux;
    const auto refused = [&](auto change) {
      matmul_args args = x.args(to, beside);
      change(args);
      const auto fuses = products->fuses(args);
      const status outcome = products->run(nullptr, args);
      return fuses && !*fuses && !outcome && outcome.error().code == errc::unavailable;
    };
    CHECK(refused([](matmul_args& a) { a.d_stride += 4; }));
    CHECK(refused([](matmul_args& a) { a.aux = static_cast<char*>(a.aux) + 8; }));
    CHECK(refused([](matmul_args& a) { a.out = dtype::f32; }));
  }
  CHECK(fake_cublas_lt().heuristics == 0);
}

TEST_CASE("epilogues that contradict each other are refused before the library sees them") {
  const auto products = fake_products();
  rng r(24);
  const auto refused = [&](epilogue after, auto change) {
    const ending x = ending::draw(r, after);
    matrix to = x.d, beside = x.aux;
    matmul_args args = x.args(to, beside);
    change(args);
    const status outcome = products->run(nullptr, args);
    return !outcome && outcome.error().code == errc::usage;
  };
  for (const epilogue after : all_endings)
    CHECK(refused(after, [](matmul_args& a) { a.aux = nullptr; }));
  CHECK(refused(epilogue::gelu, [](matmul_args& a) { a.c = a.d; }));
  CHECK(refused(epilogue::gelu_gradient, [](matmul_args& a) { a.c = a.d; }));
  CHECK(refused(epilogue::gelu_gradient, [](matmul_args& a) { a.bias = a.b; }));
  CHECK(refused(epilogue::sums_of_a, [](matmul_args& a) { a.bias = a.b; }));
  CHECK(fake_cublas_lt().heuristics == 0);
}

TEST_CASE("MM-4: a library without the epilogue is asked once a key") {
  rng r(25);
  raw_stream on;
  for (const bool by_status : {false, true}) {
    for (const epilogue after : all_endings) {
      const auto products = fake_products();
      (by_status ? fake_cublas_lt().refuse_epilogues : fake_cublas_lt().no_epilogues) = true;
      const ending x = ending::draw(r, after);
      matrix to = x.d, beside = x.aux;
      matmul_args args = x.args(to, beside);
      for (int i = 0; i < 3; ++i) {
        const auto fuses = products->fuses(args);
        REQUIRE(fuses);
        CHECK(!*fuses);
      }
      const status outcome = products->run(on.s, args);
      REQUIRE(!outcome);
      CHECK(outcome.error().code == errc::unavailable);
      CHECK(mentions(outcome.error(), after == epilogue::sums_of_a ? "sums" : "GELU"));
      CHECK(fake_cublas_lt().heuristics == 1);
      args.after = epilogue::none;
      const status left_over = products->run(on.s, args);  // the library would write to aux
      REQUIRE(!left_over);
      CHECK(left_over.error().code == errc::usage);
      args.aux = nullptr;
      CHECK(products->run(on.s, args));  // the product itself it has
      on.wait();
    }
  }
}

TEST_CASE("a question that fails for another reason is an error, and is asked again") {
  const auto products = fake_products();
  rng r(26);
  const ending x = ending::draw(r, epilogue::gelu);
  matrix to = x.d, beside = x.aux;
  const matmul_args args = x.args(to, beside);
  int failures = 0;
  for (int call = 1; call < 40; ++call) {
    fake_cublas_lt().calls = 0;
    fake_cublas_lt().fail_at = call;
    const auto fuses = products->fuses(args);
    if (fuses) {
      CHECK(*fuses);
      break;
    }
    ++failures;
    CHECK(mentions(fuses.error(), fake_words));
  }
  CHECK(failures > 8);
  CHECK(fake_cublas_lt().refused == "");
}

TEST_CASE("an empty sum has its epilogue too") {
  const auto fake = fake_products(), loops = make_loop_matmul();
  for (matmul* products : {fake.get(), loops.get()}) {
    rng r(27);
    raw_stream on;
    for (const epilogue after : all_endings) {
      ending x = ending::draw(r, after);
      x.k = 0;
      matrix to = x.d, beside = x.aux;
      matmul_args args = x.args(to, beside);
      const auto fuses = products->fuses(args);
      REQUIRE(fuses);
      CHECK(*fuses);
      REQUIRE(products->run(on.s, args));
      on.wait();
      const auto [d, aux] = x.expected();
      CHECK(to.near(d, 1.0 / 128, 2e-5));
      CHECK(beside.near(aux, 1.0 / 128, 2e-5));
    }
  }
}

namespace {

cublasStatus_t accept_problem(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  results[0] = {};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

TEST_CASE("the machine's own cuBLASLt accepts the attributes of epilogues") {
  auto table = load_cublas_lt();
  if (!table) {
    MESSAGE("SKIPPED: " << table.error().message);
    return;
  }
  const auto fake = fake_cublas_lt_table();  // what needs a GPU
  table->create = fake.create;
  table->destroy = fake.destroy;
  table->heuristic = accept_problem;
  choose_device();
  auto products = make_cublas_matmul({}, *table);
  REQUIRE(products);
  rng r(28);
  for (int i = 0; i < 5; ++i) {
    for (const epilogue after : all_endings) {
      const ending x = ending::draw(r, after);
      matrix to = x.d, beside = x.aux;
      const auto fuses = (*products)->fuses(x.args(to, beside));
      CHECK_MESSAGE(fuses, (fuses ? "" : render(fuses.error())));
    }
  }
}

namespace {

/// A library's products as the operations get them.
enum class library { with_epilogues, without, loops };

std::unique_ptr<cuda_device> open_with(library kind, bool fused_bias_gradients) {
  fake_cublas_lt() = {};
  fake_cublas_lt().no_epilogues = kind == library::without;
  auto opened = cuda_device::open(0, [&](cuda_device&) {
    return make_cuda_ops(
        [kind]() -> result<std::unique_ptr<matmul>> {
          if (kind == library::loops) return make_plain_loop_matmul();
          choose_device();
          return make_cublas_matmul({}, fake_cublas_lt_table());
        },
        {.fused_bias_gradients = fused_bias_gradients});
  });
  REQUIRE(opened);
  return std::move(*opened);
}

/// Two micro-batches through y = gelu(x w^T + bias), back through the product behind it and
/// through the product itself.
struct two_batches {
  int64_t n, in, f;  ///< tokens, width in front of the GELU's product, width of the GELU
  dtype type;
  rng r{31};
  matrix x{type, n, in, 0, 0, r}, w{type, f, in, 0, 0, r}, bias{type, 1, f, 0, 0, r};
  matrix down{type, in, f, 0, 0, r}, dy{type, n, in, 0, 0, r};
  matrix pre{type, n, f, 0, 0, r}, y = pre, d_pre = pre;
  matrix dw{dtype::f32, f, in, 0, 0, r}, dbias{dtype::f32, 1, f, 0, 0, r};

  void run(gpu::ops& op, stream& s) {
    for (int batch = 0; batch < 2; ++batch) {
      op.linear_forward(s, {.tokens = n,
                            .in = in,
                            .out = f,
                            .type = type,
                            .x = x.data(),
                            .w = w.data(),
                            .bias = bias.data(),
                            .y = y.data(),
                            .pre_gelu = pre.data()});
      op.linear_backward_input(s, {.tokens = n,
                                   .in = f,
                                   .out = in,
                                   .type = type,
                                   .dy = dy.data(),
                                   .w = down.data(),
                                   .dx = d_pre.data(),
                                   .pre_gelu = pre.data()});
      op.linear_backward_weight(s, {.tokens = n,
                                    .in = in,
                                    .out = f,
                                    .type = type,
                                    .dy = d_pre.data(),
                                    .x = x.data(),
                                    .dw = static_cast<float*>(dw.data()),
                                    .dbias = static_cast<float*>(dbias.data())});
    }
  }
};

void check_two_batches(device& d, two_batches shape) {
  two_batches expected = shape, got = shape;
  auto reference = make_reference_device();
  auto by_definition = std::move(*reference->make_stream({"reference", 1}));
  expected.run(reference->ops(), *by_definition);
  REQUIRE(by_definition->synchronize());
  auto s = std::move(*d.make_stream({"compute"}));
  got.run(d.ops(), *s);
  const auto outcome = s->synchronize();
  REQUIRE_MESSAGE(outcome, fake_cublas_lt().refused);
  const bool rounds = shape.type == dtype::bf16;
  const double relative = rounds ? 1.0 / 64 : 1e-5, absolute = rounds ? 0.1 : 1e-4;
  CHECK(got.pre.near(expected.pre, relative, absolute));
  CHECK(got.y.near(expected.y, relative, absolute));
  CHECK(got.d_pre.near(expected.d_pre, relative, absolute));
  CHECK(got.dw.near(expected.dw, relative, 4 * absolute));
  CHECK(got.dbias.near(expected.dbias, relative, 4 * absolute));
}

}  // namespace

TEST_CASE("COP-3: operations give the same with the epilogues and without, over micro-batches") {
  for (const library kind : {library::with_epilogues, library::without, library::loops}) {
    for (const bool fused_bias_gradients : {false, true}) {
      const auto d = open_with(kind, fused_bias_gradients);
      for (const dtype type : {dtype::bf16, dtype::f32}) {
        for (const auto& [n, in, f] :
             {std::array<int64_t, 3>{21, 16, 64}, {5, 3, 7}, {64, 24, 8}}) {
          CAPTURE(int(kind));
          CAPTURE(fused_bias_gradients);
          CAPTURE(f);
          const auto before = cuda_epilogues();
          check_two_batches(*d, {n, in, f, type});
          const auto after = cuda_epilogues();
          const int64_t asked = fused_bias_gradients ? 6 : 4;
          const bool gelu_fits = type == dtype::bf16 && f % 8 == 0;
          const int64_t fused = kind != library::with_epilogues
                                    ? 0
                                    : (gelu_fits ? 4 : 0) + (fused_bias_gradients ? 2 : 0);
          CHECK(after.fused - before.fused == fused);
          CHECK(after.separate - before.separate == asked - fused);
        }
      }
    }
  }
}
