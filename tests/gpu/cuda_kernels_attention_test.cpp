// The GPU's attention kernels, run on the emulated machine, against the reference.
#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <random>
#include <set>

#include "gpu/cuda/kernels/attention_tiles.hpp"
#include "gpu/cuda/kernels/launch.hpp"
#include "tests/gpu/cuda_support.hpp"
#include "tests/gpu/emulator/runtime.hpp"
#include "tests/gpu/ops_support.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

/// A copy with nothing behind it, so that the address sanitizer sees the first byte read too many.
class exact {
 public:
  explicit exact(const tensor& t, size_t shift = 0)
      : bytes_(new unsigned char[static_cast<size_t>(t.count()) * size_of(t.type()) + shift]),
        shift_(shift) {
    std::memcpy(bytes_.get() + shift, t.data(), static_cast<size_t>(t.count()) * size_of(t.type()));
  }
  const void* data() const { return bytes_.get() + shift_; }

 private:
  std::unique_ptr<unsigned char[]> bytes_;
  size_t shift_;
};

struct shape {
  int64_t batch, seq, heads, kv, width, window;
};

struct attention_case {
  shape n;
  dtype type;
  size_t shift = 0;  ///< bytes by which qkv misses its alignment
  parted_rows documents;
  tensor qkv, dout;

  attention_case(shape s, dtype t, float scale = 1.5f, const row_borders& borders = {})
      : n(s), type(t), documents(s.seq, borders) {
    qkv = tensor::random(t, s.batch * s.seq * (s.heads + 2 * s.kv) * s.width, 1, scale);
    dout = tensor::random(t, s.batch * s.seq * s.heads * s.width, 2);
  }
  tensor fresh_out() const { return tensor(type, n.batch * n.seq * n.heads * n.width); }
  tensor fresh_lse() const { return tensor(dtype::f32, n.batch * n.heads * n.seq); }
  tensor fresh_grad() const { return tensor(type, qkv.count()); }

  attention_forward_args forward_args(const void* in, tensor& out, tensor& lse) const {
    return {n.batch, n.seq, n.heads,    n.kv,         n.width,           n.window,
            type,    in,    out.data(), lse.floats(), documents.arrays()};
  }
  attention_backward_args backward_args(const void* in, const void* out, const void* lse,
                                        const void* d, tensor& dqkv) const {
    return {n.batch,
            n.seq,
            n.heads,
            n.kv,
            n.width,
            n.window,
            type,
            in,
            out,
            static_cast<const float*>(lse),
            d,
            dqkv.data(),
            documents.arrays()};
  }
};

void gpu_forward(const attention_case& c, tensor& out, tensor& lse) {
  const exact in(c.qkv, c.shift);
  on_gpu([&](cudaStream_t s) {
    return cuda::launch_attention_forward(s, c.forward_args(in.data(), out, lse));
  });
}

void gpu_backward(const attention_case& c, const tensor& out, const tensor& lse, tensor& grad) {
  const exact in(c.qkv, c.shift), o(out), l(lse), d(c.dout);
  const auto a = c.backward_args(in.data(), o.data(), l.data(), d.data(), grad);
  tensor scratch(dtype::f32, lse.count());
  REQUIRE(cuda::scratch_bytes(a) == static_cast<size_t>(lse.count()) * 4);
  on_gpu([&](cudaStream_t s) { return cuda::launch_attention_backward(s, a, scratch.data()); });
  CHECK(scratch.guarded());
}

/// On Hopper, whose groups of warps multiply bf16, and on an older GPU.
template <class Check>
void on_each_gpu(dtype type, const Check& check) {
  struct guard {
    ~guard() { cuda::emulator::set_compute_capability(9); }
  } afterwards;
  for (const int major : {9, 8}) {
    if (type != dtype::bf16 && major != 9) continue;
    CAPTURE(major);
    cuda::emulator::set_compute_capability(major);
    check();
  }
}

void compare(const attention_case& c) {
  CAPTURE(to_string(c.type));
  CAPTURE(c.n.seq);
  CAPTURE(c.n.heads);
  CAPTURE(c.n.kv);
  CAPTURE(c.n.width);
  CAPTURE(c.n.window);
  tensor out = c.fresh_out(), lse = c.fresh_lse(), grad = c.fresh_grad();
  reference::attention_forward(c.forward_args(c.qkv.data(), out, lse));
  reference::attention_backward(
      c.backward_args(c.qkv.data(), out.data(), lse.data(), c.dout.data(), grad));
  on_each_gpu(c.type, [&] {
    tensor gpu_out = c.fresh_out(), gpu_lse = c.fresh_lse(), gpu_grad = c.fresh_grad();
    gpu_forward(c, gpu_out, gpu_lse);
    gpu_backward(c, out, lse, gpu_grad);      // from the reference's results: one kernel at a time
    const bool half = c.type == dtype::bf16;  // weights of keys are rounded to bfloat16
    CHECK_CLOSE(gpu_out, out, tolerance_of(c.type, 3e-6));
    CHECK_CLOSE(gpu_lse, lse, (half ? tolerance{1e-5, 1e-5} : tolerance{1e-6, 1e-6}));
    CHECK_CLOSE(gpu_grad, grad, (half ? tolerance{1.0 / 64, 2e-2} : tolerance{6e-6, 6e-6}));
  });
}

}  // namespace

TEST_CASE("GPU attention on tensor cores equals the reference: head widths 64 and 128") {
  for (const int64_t width : {64, 128}) {
    compare({{1, 1, 1, 1, width, 0}, dtype::bf16});
    compare({{2, 64, 2, 1, width, 0}, dtype::bf16});
    compare({{1, 129, 4, 1, width, 0}, dtype::bf16});
    compare({{1, 300, 2, 2, width, 0}, dtype::bf16});
  }
  compare({{1, 33, 8, 2, 64, 0}, dtype::bf16});
  compare({{3, 65, 6, 3, 64, 0}, dtype::bf16});
}

TEST_CASE("GPU attention on tensor cores equals the reference: other head widths") {
  for (const int64_t width : {8, 16, 40, 72, 80, 96, 112})
    compare({{1, 83, 2, 1, width, 0}, dtype::bf16});
}

TEST_CASE("GPU attention on tensor cores equals the reference with sliding windows") {
  for (const int64_t window : {1, 2, 31, 32, 33, 64, 65, 95, 130, 170, 1000})
    compare({{1, 170, 1, 1, 64, window}, dtype::bf16});
  for (const int64_t window : {1, 17, 64, 100}) compare({{1, 170, 2, 1, 128, window}, dtype::bf16});
  compare({{1, 290, 1, 1, 96, 47}, dtype::bf16});
}

TEST_CASE("GPU attention on tensor cores equals the reference: drawn shapes") {
  std::mt19937 random(7);
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
  for (int i = 0; i < 24; ++i) {
    const int64_t kv = up_to(2), seq = up_to(210);
    const int64_t window = random() % 2 ? 0 : up_to(seq + 40);
    compare({{up_to(2), seq, kv * up_to(3), kv, 8 * up_to(16), window}, dtype::bf16});
  }
}

TEST_CASE("GPU attention on tensor cores equals the reference where rows hold several documents") {
  const row_borders edges = {{1, 2, 31, 32, 33, 63, 64, 65, 95, 127, 128, 129, 169}, {40, 140}};
  for (const int64_t width : {64, 96, 128})
    compare({{2, 170, 2, 1, width, 0}, dtype::bf16, 1.5f, edges});
  for (const int64_t width : {8, 40, 72})
    compare({{2, 83, 2, 1, width, 0}, dtype::bf16, 1.5f, {{64}, {7, 82}}});
  for (const int64_t window : {1, 2, 20, 33, 64, 100, 1000})
    compare({{2, 170, 1, 1, 64, window}, dtype::bf16, 1.5f, edges});
  for (const int64_t window : {17, 64})
    compare({{2, 170, 2, 1, 128, window}, dtype::bf16, 1.5f, edges});
  // tiles whole of one document, of many, and with one that goes on for several
  compare({{1, 300, 2, 1, 64, 0}, dtype::bf16, 1.5f, {{64, 128, 130, 132, 134, 256}}});
  compare({{1, 300, 4, 1, 128, 0}, dtype::bf16, 1.5f, {{20, 270}}});
  compare({{2, 1, 1, 1, 64, 0}, dtype::bf16, 1.5f, {{}, {}}});
}

TEST_CASE("GPU attention on tensor cores equals the reference: drawn documents") {
  std::mt19937 random(11);
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
  for (int i = 0; i < 24; ++i) {
    const int64_t kv = up_to(2), seq = up_to(210), longest = up_to(random() % 3 ? 40 : 200);
    row_borders borders(static_cast<size_t>(up_to(2)));
    for (auto& row : borders)
      for (int64_t at = up_to(longest); at < seq; at += up_to(longest))
        row.push_back(static_cast<int32_t>(at));
    const auto batch = static_cast<int64_t>(borders.size());
    const int64_t window = random() % 2 ? 0 : up_to(seq + 40);
    compare({{batch, seq, kv * up_to(3), kv, 8 * up_to(16), window}, dtype::bf16, 1.5f, borders});
  }
}

TEST_CASE("GPU attention gives rows of one document each the bits of rows without documents") {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    for (const int64_t width : {64, 128}) {
      const attention_case plain({2, 150, 4, 2, width, 90}, type);
      const attention_case whole({2, 150, 4, 2, width, 90}, type, 1.5f, {{}, {}});
      on_each_gpu(type, [&] {
        tensor out[2] = {plain.fresh_out(), plain.fresh_out()};
        tensor lse[2] = {plain.fresh_lse(), plain.fresh_lse()};
        tensor grad[2] = {plain.fresh_grad(), plain.fresh_grad()};
        for (const auto* c : {&plain, &whole}) {
          const int i = c == &whole;
          gpu_forward(*c, out[i], lse[i]);
          gpu_backward(*c, out[i], lse[i], grad[i]);
        }
        CHECK(out[0].same_bits(out[1]));
        CHECK(lse[0].same_bits(lse[1]));
        CHECK(grad[0].same_bits(grad[1]));
      });
    }
  }
}

TEST_CASE("GPU attention without tensor cores equals the reference") {
  for (const int64_t width : {1, 6, 64, 80, 130}) compare({{2, 37, 4, 2, width, 0}, dtype::f32});
  for (const int64_t width : {1, 6, 36, 136}) compare({{1, 37, 4, 1, width, 0}, dtype::bf16});
  for (const int64_t window : {1, 2, 33, 70, 100}) {
    compare({{1, 70, 2, 1, 16, window}, dtype::f32});
    compare({{1, 70, 2, 1, 5, window}, dtype::bf16});
  }
  compare({{1, 1, 1, 1, 3, 0}, dtype::f32});
  const row_borders borders = {{1, 2, 31, 32, 65}, {}};
  for (const int64_t window : {0, 1, 33, 100}) {
    compare({{2, 70, 2, 1, 16, window}, dtype::f32, 1.5f, borders});
    compare({{2, 70, 4, 2, 5, window}, dtype::bf16, 1.5f, borders});
  }
}

TEST_CASE("GPU attention takes tensors that are not aligned to 16 bytes") {
  attention_case c({1, 40, 2, 2, 64, 0}, dtype::bf16);
  c.shift = 2;
  compare(c);
}

TEST_CASE("GPU attention survives large scores") {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    const attention_case c({1, 140, 2, 2, 64, 0}, type, 12.0f);
    tensor out = c.fresh_out(), lse = c.fresh_lse(), gpu_out = out, gpu_lse = lse;
    reference::attention_forward(c.forward_args(c.qkv.data(), out, lse));
    on_each_gpu(type, [&] {
      gpu_forward(c, gpu_out, gpu_lse);
      const double bound = type == dtype::bf16 ? 6e-2 : 1e-3;
      CHECK_CLOSE(gpu_out, out, (tolerance{1.0 / 128, bound}));
      CHECK_CLOSE(gpu_lse, lse, (tolerance{2e-6, 2e-6}));
      tensor grad = c.fresh_grad(), gpu_grad = grad;
      gpu_backward(c, out, lse, gpu_grad);
      for (int64_t i = 0; i < gpu_grad.count(); ++i) REQUIRE(std::isfinite(gpu_grad.get(i)));
    });
  }
}

TEST_CASE("GPU attention forward has the bits of one GPU on the other") {
  for (const int mode : {0, 1, 2, 3}) {
    const row_borders none, borders = {{1, 64, 150}};
    const attention_case c({1, 200, 4, 2, mode & 1 ? 64 : 128, 90}, dtype::bf16, 1.5f,
                           mode & 2 ? borders : none);
    tensor out[2], lse[2];
    int i = 0;
    on_each_gpu(c.type, [&] {
      out[i] = c.fresh_out();
      lse[i] = c.fresh_lse();
      gpu_forward(c, out[i], lse[i]);
      ++i;
    });
    CHECK(out[0].same_bits(out[1]));
    CHECK(lse[0].same_bits(lse[1]));
  }
}

TEST_CASE("GPU attention gives the same bits every time") {
  for (const int mode : {0, 1, 2, 3}) {
    const dtype type = mode & 1 ? dtype::bf16 : dtype::f32;
    const row_borders none, borders = {{64, 70}};
    const attention_case c({1, 150, 4, 2, 64, 40}, type, 1.5f, mode & 2 ? borders : none);
    on_each_gpu(type, [&] {
      tensor out[2], lse[2], grad[2];
      for (int i = 0; i < 2; ++i) {
        out[i] = c.fresh_out();
        lse[i] = c.fresh_lse();
        grad[i] = c.fresh_grad();
        gpu_forward(c, out[i], lse[i]);
        gpu_backward(c, out[i], lse[i], grad[i]);
      }
      CHECK(out[0].same_bits(out[1]));
      CHECK(lse[0].same_bits(lse[1]));
      CHECK(grad[0].same_bits(grad[1]));
    });
  }
}

TEST_CASE("GPU attention refuses what no kernel takes, and does nothing for no tokens") {
  const attention_case none({0, 5, 2, 1, 64, 0}, dtype::bf16);
  tensor out = none.fresh_out(), lse = none.fresh_lse(), grad = none.fresh_grad();
  gpu_forward(none, out, lse);
  gpu_backward(none, out, lse, grad);
  auto forward = none.forward_args(nullptr, out, lse);
  forward.heads = 3;
  forward.kv_heads = 2;
  CHECK(cuda::launch_attention_forward(nullptr, forward) == cudaErrorInvalidValue);
  forward = none.forward_args(nullptr, out, lse);
  forward.head_width = 4097;
  CHECK(cuda::launch_attention_forward(nullptr, forward) == cudaErrorInvalidValue);
  auto backward = none.backward_args(nullptr, nullptr, nullptr, nullptr, grad);
  backward.window = -1;
  CHECK(cuda::launch_attention_backward(nullptr, backward, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("GPU attention: the order of blocks has every tile of every head once") {
  for (const int section : {1, 2, 5, 7}) {
    const cuda::block_order order{7, 3, section};
    std::set<std::pair<int, int>> seen;
    std::vector<int> tiles_of_first_section;
    cuda::emulator::run_grid({21, 1, 1}, 32, 0, [&] {
      if (cuda::lane() != 0) return;
      const auto place = cuda::place_of_block(order);
      seen.insert({place.head, place.tile});
      if (place.head < section) tiles_of_first_section.push_back(place.tile);
    });
    CHECK(seen.size() == 21);
    CHECK(seen.rbegin()->first == 6);
    CHECK(std::is_sorted(tiles_of_first_section.begin(), tiles_of_first_section.end()));
  }
  CHECK(cuda::order_of_blocks(64, 8, 1 << 20, 4).section == 64);
  CHECK(cuda::order_of_blocks(640, 8, 1 << 20, 4).section == 96);
  CHECK(cuda::order_of_blocks(640, 8, int64_t{1} << 40, 4).section == 4);
}

TEST_CASE("GEN-4: what a query over cached rows needs beside them does not grow with the text") {
  for (const int64_t width : {16, 128}) {
    const auto of = [&](int64_t rows) {
      return cuda::scratch_bytes(attention_cached_args{.seq = rows,
                                                       .queries = 1,
                                                       .heads = 4,
                                                       .kv_heads = 2,
                                                       .head_width = width,
                                                       .type = dtype::f32,
                                                       .qkv = nullptr,
                                                       .out = nullptr});
    };
    CHECK(of(1) == of(131072));
    CHECK(of(1) <= size_t{1} << 20);
  }
}

TEST_CASE("GPU attention over cached rows reads and writes nothing beyond its tensors") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const int64_t window : {0, 9}) {
      const attention_case c({1, 77, 4, 2, 24, window}, type);
      const exact in(c.qkv);
      tensor out(type, 4 * 24);
      const attention_cached_args a{77, 1, 4, 2, 24, window, type, in.data(), out.data()};
      tensor scratch(dtype::f32, static_cast<int64_t>(cuda::scratch_bytes(a) / 4));
      on_gpu([&](cudaStream_t s) { return cuda::launch_attention_cached(s, a, scratch.data()); });
      tensor wanted(type, out.count());
      auto truth = a;
      truth.out = wanted.data();
      reference::attention_cached(truth);
      CHECK_CLOSE(out, wanted, tolerance_of(type, 3e-6));
      CHECK(scratch.guarded());
    }
}

TEST_CASE("shapes that no kernel of cached attention takes are refused") {
  tensor out(dtype::f32, 64), scratch(dtype::f32, 64);
  on_gpu([&](cudaStream_t s) {
    for (const auto& [seq, queries, heads, kv] :
         {std::array<int64_t, 4>{4, 0, 2, 2}, {4, 5, 2, 2}, {4, 1, 3, 2}})
      CHECK(cuda::launch_attention_cached(
                s, {seq, queries, heads, kv, 8, 0, dtype::f32, out.data(), out.data()},
                scratch.data()) == cudaErrorInvalidValue);
    return cudaSuccess;
  });
}
