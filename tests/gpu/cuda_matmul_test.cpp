// Products of the device under test, the emulated or a real one, against row-major loops on the
// host.
#include <doctest/doctest.h>

#include <memory>

#include "gpu/cuda.hpp"
#include "gpu/cuda/matmul.hpp"
#include "tests/gpu/matmul_samples.hpp"
#ifdef TROUPE_CUDA_EMULATED
#include "tests/gpu/emulator/loop_matmul.hpp"
#endif

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::cuda;
using namespace troupe::gpu::cuda::testing;

namespace {

/// The device's own; null, with the reason in a message, where there is none.
std::unique_ptr<matmul> products_under_test(const matmul_options& options = {}) {
  if (auto count = cuda_device_count(); !count) {
    MESSAGE("SKIPPED: " << count.error().message);
    return nullptr;
  }
#ifdef TROUPE_CUDA_EMULATED
  (void)options;
  return make_loop_matmul();
#else
  auto made = make_cublas_matmul(options);
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  return std::move(*made);
#endif
}

/// A matrix's bytes on the device.
class on_device {
 public:
  on_device(const matrix& from, cudaStream_t s) : like_(from), s_(s) {
    REQUIRE(cudaMalloc(&memory_, size_t(from.bytes())) == cudaSuccess);
    copy(memory_, from.memory());
  }
  ~on_device() { (void)cudaFree(memory_); }
  on_device(const on_device&) = delete;
  on_device& operator=(const on_device&) = delete;

  void* data() const { return static_cast<char*>(memory_) + like_.offset(); }
  matrix back() {
    matrix to = like_;
    copy(to.memory(), memory_);
    return to;
  }

 private:
  void copy(void* to, const void* from) {
    REQUIRE(cudaMemcpyAsync(to, from, size_t(like_.bytes()), cudaMemcpyDefault, s_) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s_) == cudaSuccess);
  }
  const matrix& like_;
  cudaStream_t s_;
  void* memory_ = nullptr;
};

matrix product_on_device(matmul& products, const sample& x, raw_stream& on) {
  on_device a(x.a, on.s), b(x.b, on.s), bias(x.bias, on.s), c(x.c, on.s), d(x.d, on.s);
  matrix host = x.d;
  matmul_args args = x.args(host);
  args.a = a.data();
  args.b = b.data();
  args.d = d.data();
  if (args.bias) args.bias = bias.data();
  if (args.c) args.c = x.c_kind == 1 ? c.data() : d.data();
  const status outcome = products.run(on.s, args);
  CHECK_MESSAGE(outcome, (outcome ? "" : render(outcome.error())));
  on.wait();
  return d.back();
}

}  // namespace

TEST_CASE("products on the device: random shapes, strides, types, transposes, bias and c") {
  const auto products = products_under_test();
  if (!products) return;
  rng d(11);
  raw_stream on;
  for (int i = 0; i < 120; ++i) {
    const sample x = sample::draw(d, i % 20 == 19);
    CAPTURE(i);
    CAPTURE(x.m);
    CAPTURE(x.n);
    CAPTURE(x.k);
    // float32 sums of up to 43 products and two terms, each below 1; then one rounding
    const double relative = x.out == dtype::bf16 ? 1.0 / 128 : 1e-6;
    // Few of these are aligned: the library rounds some sums before it adds to them (MM-1).
    const bool adds = x.out == dtype::bf16 && (x.has_bias || x.c_kind != 0);
    const double early = adds ? x.expected(false).most() / 256 : 0;
    CHECK(product_on_device(*products, x, on).near(x.expected(), relative, 2e-5 + early));
  }
}

TEST_CASE("products on the device: the same call gives the same bits") {
  const auto products = products_under_test({.deterministic = true});
  if (!products) return;
  const auto again = products_under_test({.deterministic = true});
  rng d(12);
  raw_stream on;
  for (int i = 0; i < 10; ++i) {
    const sample x = sample::draw(d);
    const matrix first = product_on_device(*products, x, on);
    CHECK(first == product_on_device(*products, x, on));
    CHECK(first == product_on_device(*again, x, on));
  }
}
