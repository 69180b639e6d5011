// Products of the device on the CPU: the mapping to cuBLASLt over a fake library that follows its
// documentation, and the loops of the emulated device, both against plain row-major loops.
#include <doctest/doctest.h>

#include <string>

#include "gpu/cuda/cublas_lt.hpp"
#include "gpu/cuda/matmul.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/emulator/loop_matmul.hpp"
#include "tests/gpu/fake_cublas_lt.hpp"
#include "tests/gpu/matmul_samples.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::cuda;
using namespace troupe::gpu::cuda::testing;

namespace {

std::unique_ptr<matmul> fake_products(const matmul_options& options = {}) {
  fake_cublas_lt() = {};
  choose_device();
  auto made = make_cublas_matmul(options, fake_cublas_lt_table());
  REQUIRE(made);
  return std::move(*made);
}

void check_samples(matmul& products, uint64_t seed, int count, bool empty_sum) {
  rng d(seed);
  raw_stream on;
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    const sample x = sample::draw(d, empty_sum);
    matrix to = x.d;
    const status outcome = products.run(on.s, x.args(to));
    CHECK_MESSAGE(outcome, (outcome ? "" : render(outcome.error())), fake_cublas_lt().refused);
    on.wait();
    REQUIRE(to == x.expected());
  }
}

/// A product that needs no luck: 24 x 16 x 32, packed.
struct plain {
  explicit plain(dtype in = dtype::f32, dtype out = dtype::f32)
      : d(7), a(in, 24, 32, 0, 0, d), b(in, 32, 16, 0, 0, d), to(out, 24, 16, 0, 0, d) {
    args.m = 24;
    args.n = 16;
    args.k = 32;
    args.in = in;
    args.out = out;
    args.a = a.data();
    args.b = b.data();
    args.d = to.data();
  }
  rng d;
  matrix a, b, to;
  matmul_args args;
};

}  // namespace

TEST_CASE("cuBLASLt is asked for the row-major product: random shapes, strides, types, bias, c") {
  check_samples(*fake_products(), 1, 400, false);
  CHECK(fake_cublas_lt().products == 400);
  CHECK(fake_cublas_lt().live == 0);
}

TEST_CASE("an empty sum is zero, plus bias and c, on both back ends of the products") {
  check_samples(*fake_products(), 2, 60, true);
  check_samples(*make_loop_matmul(), 3, 60, true);
}

TEST_CASE("the emulated device's loops compute the same product") {
  check_samples(*make_loop_matmul(), 4, 200, false);
}

TEST_CASE("a product without rows or columns touches nothing and asks nobody") {
  const auto products = fake_products(), loops = make_loop_matmul();
  for (matmul* any : {products.get(), loops.get()}) {
    CHECK(any->run(nullptr, {.m = 0, .n = 5, .k = 3}));
    CHECK(any->run(nullptr, {.m = 5, .n = 0, .k = 3}));
  }
  CHECK(fake_cublas_lt().heuristics == 0);
  CHECK(fake_cublas_lt().products == 0);
}

TEST_CASE("heuristics are asked once a key: shape, type, operands, alignment") {
  auto products = fake_products();
  raw_stream on;
  plain p;
  for (int i = 0; i < 3; ++i) CHECK(products->run(on.s, p.args));
  CHECK(fake_cublas_lt().heuristics == 1);
  p.args.c = p.to.data();
  CHECK(products->run(on.s, p.args));
  CHECK(fake_cublas_lt().heuristics == 2);
  p.args.c = nullptr;
  p.args.m = 23;
  CHECK(products->run(on.s, p.args));
  CHECK(fake_cublas_lt().heuristics == 3);
  p.args.a = static_cast<const float*>(p.a.data()) + 1;  // four bytes off: another algorithm
  CHECK(products->run(on.s, p.args));
  CHECK(fake_cublas_lt().heuristics == 4);
  p.args.a = p.a.data();
  CHECK(products->run(on.s, p.args));
  CHECK(fake_cublas_lt().heuristics == 4);
  on.wait();
  CHECK(fake_cublas_lt().refused == "");
}

TEST_CASE("biases of one shape differ between calls of one plan") {
  auto products = fake_products();
  raw_stream on;
  plain p;
  matrix one(dtype::f32, 1, 16, 0, 0, p.d), other(dtype::f32, 1, 16, 0, 0, p.d);
  matrix to_other = p.to;
  p.args.bias = one.data();
  CHECK(products->run(on.s, p.args));
  p.args.bias = other.data();
  p.args.d = to_other.data();
  CHECK(products->run(on.s, p.args));
  on.wait();
  CHECK(fake_cublas_lt().heuristics == 1);
  for (int64_t j = 0; j < 16; ++j) {
    CHECK(to_other.get(3, j) - p.to.get(3, j) ==
          doctest::Approx(other.get(0, j) - one.get(0, j)).epsilon(1e-4));
  }
}

TEST_CASE("K is split only so that sums are rounded once and have one order") {
  for (const bool deterministic : {true, false}) {
    for (const dtype out : {dtype::f32, dtype::bf16}) {
      auto products = fake_products({.deterministic = deterministic});
      raw_stream on;
      plain p(dtype::bf16, out);
      CHECK(products->run(on.s, p.args));
      on.wait();
      const uint32_t mask = fake_cublas_lt().reductions;
      CHECK((mask & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) == 0);
      CHECK((mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0);
      const bool in_place = mask & CUBLASLT_REDUCTION_SCHEME_INPLACE;
      CHECK(in_place == (!deterministic && out == dtype::f32));
    }
  }
}

TEST_CASE("the workspace is what the options say, none included") {
  for (size_t bytes : {size_t{0}, size_t{4096}}) {
    auto products = fake_products({.workspace_bytes = bytes});
    raw_stream on;
    plain p;
    CHECK(products->run(on.s, p.args));
    on.wait();
    CHECK(fake_cublas_lt().workspace == bytes);
    p.args.k = 0;
    CHECK(products->run(on.s, p.args).has_value() == (bytes > 0));
    on.wait();
  }
}

TEST_CASE("whichever call fails, the error names it and nothing is left behind") {
  int numbered = 1;
  for (bool reached = true; reached; ++numbered) {
    fake_cublas_lt() = {};
    fake_cublas_lt().fail_at = numbered;
    status outcome;
    {
      choose_device();
      auto products = make_cublas_matmul({}, fake_cublas_lt_table());
      outcome = products ? status{} : products.error();
      plain p;
      matrix bias(dtype::f32, 1, 16, 0, 0, p.d);
      p.args.bias = bias.data();
      raw_stream on;
      if (products) outcome = (*products)->run(on.s, p.args);
      if (products && !outcome) CHECK((*products)->run(on.s, p.args));  // not remembered
      on.wait();
    }
    CHECK(fake_cublas_lt().live == 0);
    reached = !fake_cublas_lt().failed.empty();
    CHECK(outcome.has_value() == !reached);
    if (!reached) break;
    CHECK(mentions(outcome.error(), fake_cublas_lt().failed));
    CHECK(mentions(outcome.error(), fake_words));
    CHECK(outcome.error().hint != "");
  }
  CHECK(numbered > 12);
}

TEST_CASE("no algorithm is unavailable, and says of what") {
  auto products = fake_products();
  fake_cublas_lt().no_algorithm = true;
  plain p(dtype::bf16, dtype::bf16);
  p.args.b_transposed = true;
  const status outcome = products->run(nullptr, p.args);
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::unavailable);
  CHECK(is_error(outcome, "CUBLAS_STATUS_NOT_SUPPORTED", "24 x 16 x 32", "bf16", "transposed"));
}

TEST_CASE("an algorithm that the heuristics mark as unfit is skipped") {
  const auto products = fake_products();
  fake_cublas_lt().unfit_first = true;
  check_samples(*products, 5, 20, false);
}

TEST_CASE("arguments that contradict each other are refused before the library sees them") {
  auto products = fake_products();
  const auto refused = [&](auto change) {
    plain p;
    change(p.args);
    const status outcome = products->run(nullptr, p.args);
    return !outcome && outcome.error().code == errc::usage;
  };
  CHECK(refused([](matmul_args& a) { a.m = -1; }));
  CHECK(refused([](matmul_args& a) { a.k = int64_t{1} << 31; }));
  CHECK(refused([](matmul_args& a) { a.a_stride = 31; }));
  CHECK(refused([](matmul_args& a) { a.b_stride = 15; }));
  CHECK(refused([](matmul_args& a) { a.d_stride = 15; }));
  CHECK(refused([](matmul_args& a) { a.out = dtype::bf16; }));
  CHECK(refused([](matmul_args& a) { a.in = a.out = dtype::i32; }));
  CHECK(refused([](matmul_args& a) { a.a = nullptr; }));
  CHECK(refused([](matmul_args& a) { a.d = nullptr; }));
  CHECK(fake_cublas_lt().heuristics == 0);
}

TEST_CASE("a missing cuBLASLt is unavailable and says what to install") {
  const auto missing = load_cublas_lt({"libno-such-cublasLt.so.1", "libno-such-cublasLt.so.2"});
  REQUIRE(!missing);
  CHECK(missing.error().code == errc::unavailable);
  CHECK(mentions(missing.error(), "libno-such-cublasLt.so.2"));
  CHECK(missing.error().hint.find("libcublas") != std::string::npos);
  const auto too_old = load_cublas_lt({"libdl.so.2"});  // there, without the functions
  REQUIRE(!too_old);
  CHECK(mentions(too_old.error(), "cublasLtCreate"));
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
cublasStatus_t accept_product(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t,
                              const void*, const void*, cublasLtMatrixLayout_t, void*,
                              cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t,
                              cudaStream_t) {
  return CUBLAS_STATUS_SUCCESS;
}
}  // namespace

TEST_CASE("the machine's own cuBLASLt accepts every descriptor and attribute of ours") {
  auto table = load_cublas_lt();
  if (!table) {
    MESSAGE("SKIPPED: " << table.error().message);
    return;
  }
  const auto fake = fake_cublas_lt_table();  // what needs a GPU
  table->create = fake.create;
  table->destroy = fake.destroy;
  table->heuristic = accept_problem;
  table->matmul = accept_product;
  choose_device();
  auto products = make_cublas_matmul({}, *table);
  REQUIRE(products);
  rng d(9);
  for (int i = 0; i < 20; ++i) {
    const sample x = sample::draw(d);
    matrix to = x.d;
    const status outcome = (*products)->run(nullptr, x.args(to));
    CHECK_MESSAGE(outcome, (outcome ? "" : render(outcome.error())));
  }
}
