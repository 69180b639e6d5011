// Attention, forward and backward, against the reference; the reference against finite differences.
#include "tests/gpu/ops_support.hpp"

using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

struct attention_case {
  int64_t batch, seq, heads, kv, width, window;
  dtype type;
  parted_rows documents;
  tensor qkv, dout;

  attention_case(int64_t b, int64_t t, int64_t h, int64_t k, int64_t d, int64_t w, dtype ty,
                 const row_borders& borders = {})
      : batch(b), seq(t), heads(h), kv(k), width(d), window(w), type(ty), documents(t, borders) {
    qkv = tensor::random(ty, b * t * (h + 2 * k) * d, 1, 1.5f);
    dout = tensor::random(ty, b * t * h * d, 2);
  }
  tensor fresh_out() const { return tensor(type, batch * seq * heads * width); }
  tensor fresh_lse() const { return tensor(dtype::f32, batch * heads * seq); }
  tensor fresh_grad() const { return tensor(type, qkv.count()); }

  void forward(ops& op, stream& s, tensor& out, tensor& lse) const {
    op.attention_forward(s, {batch, seq, heads, kv, width, window, type, qkv.data(), out.data(),
                             lse.floats(), documents.arrays()});
  }
  void backward(ops& op, stream& s, const tensor& out, tensor& lse, tensor& dqkv) const {
    op.attention_backward(s, {batch, seq, heads, kv, width, window, type, qkv.data(), out.data(),
                              lse.floats(), dout.data(), dqkv.data(), documents.arrays()});
  }
};

void compare(const attention_case& c) {
  CAPTURE(to_string(c.type));
  CAPTURE(c.seq);
  CAPTURE(c.width);
  CAPTURE(c.window);
  tensor out = c.fresh_out(), lse = c.fresh_lse(), grad = c.fresh_grad();
  on_reference([&](ops& op, stream& s) {
    c.forward(op, s, out, lse);
    c.backward(op, s, out, lse, grad);
  });
  tensor host_out = c.fresh_out(), host_lse = c.fresh_lse(), host_grad = c.fresh_grad();
  on_every_backend(
      [&](ops& op, stream& s) {
        c.forward(op, s, host_out, host_lse);
        c.backward(op, s, out, lse, host_grad);  // from the reference's results: one op at a time
      },
      [&] {
        const bool half = c.type == dtype::bf16;  // weights of keys may be rounded to bfloat16
        CHECK_CLOSE(host_out, out, tolerance_of(c.type, 3e-6));
        CHECK_CLOSE(host_lse, lse, (half ? tolerance{1e-5, 1e-5} : tolerance{1e-6, 1e-6}));
        CHECK_CLOSE(host_grad, grad, (half ? tolerance{1.0 / 64, 2e-2} : tolerance{6e-6, 6e-6}));
        host_out = c.fresh_out();
        host_lse = c.fresh_lse();
        host_grad = c.fresh_grad();
      });
}

}  // namespace

TEST_CASE("attention equals the reference: widths, groups of heads, odd lengths") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (int64_t width : {16, 64, 80, 128, 6}) compare({2, 37, 4, 2, width, 0, type});
    compare({1, 150, 8, 1, 32, 0, type});
    compare({1, 1, 2, 2, 16, 0, type});
    compare({3, 48, 3, 3, 40, 0, type});
    compare({1, 300, 2, 1, 64, 0, type});
    compare({1, 512, 1, 1, 16, 0, type});
  }
}

TEST_CASE("attention equals the reference with sliding windows") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (int64_t window : {1, 2, 15, 16, 17, 64, 130, 290, 1000}) {
      compare({1, 290, 2, 1, 16, window, type});
    }
  }
}

TEST_CASE("attention equals the reference where rows hold several documents") {
  const row_borders borders = {{1, 2, 15, 16, 32, 63, 64, 65, 100}, {33, 129}};
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (int64_t width : {64, 80, 96, 128, 6}) compare({2, 134, 4, 2, width, 0, type, borders});
    for (int64_t window : {1, 10, 34, 70, 1000}) compare({2, 134, 2, 1, 16, window, type, borders});
    compare({1, 290, 1, 1, 16, 0, type, {{128, 256, 289}}});
    compare({1, 37, 8, 1, 32, 0, type, {{36}}});
    compare({2, 5, 2, 2, 16, 0, type, {{}, {1, 2, 3, 4}}});
  }
}

namespace {

/// The last `queries` rows of `c` alone, of one batch row.
void compare_cached(const attention_case& c, int64_t queries) {
  CAPTURE(to_string(c.type));
  CAPTURE(c.seq);
  CAPTURE(c.width);
  CAPTURE(c.window);
  CAPTURE(queries);
  tensor all = c.fresh_out(), lse = c.fresh_lse();
  on_reference([&](ops& op, stream& s) { c.forward(op, s, all, lse); });
  const int64_t count = queries * c.heads * c.width;
  const tensor wanted = all.part(all.count() - count, count);
  tensor out(c.type, count);
  tensor qkv = c.qkv;  // queries of rows before, which are nobody's business, are no numbers
  for (int64_t t = 0; t < c.seq - queries; ++t)
    for (int64_t d = 0; d < c.heads * c.width; ++d)
      qkv.set(t * (c.heads + 2 * c.kv) * c.width + d, std::numeric_limits<float>::quiet_NaN());
  on_every_backend(
      [&](ops& op, stream& s) {
        op.attention_cached(
            s, {c.seq, queries, c.heads, c.kv, c.width, c.window, c.type, qkv.data(), out.data()});
      },
      [&] {
        CHECK_CLOSE(out, wanted, tolerance_of(c.type, 3e-6));
        out = tensor(c.type, count);
      });
}

}  // namespace

TEST_CASE("attention of the last rows over cached ones is that of all rows") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (int64_t width : {16, 64, 80, 128, 6}) compare_cached({1, 37, 4, 2, width, 0, type}, 1);
    for (int64_t seq : {1, 2, 31, 32, 33, 127, 128, 129, 300})
      compare_cached({1, seq, 8, 1, 32, 0, type}, 1);
    for (int64_t window : {1, 2, 15, 33, 130, 1000})
      compare_cached({1, 290, 2, 1, 16, window, type}, 1);
    for (int64_t queries : {2, 5, 40}) {
      compare_cached({1, 40, 4, 4, 24, 0, type}, queries);
      compare_cached({1, 40, 4, 4, 24, 7, type}, queries);
    }
    compare_cached({1, 1100, 1, 1, 16, 0, type}, 1);  // every part of the keys in several rounds
  }
}

TEST_CASE("attention over cached rows survives large scores") {
  for (const backend& b : backends()) {
    CAPTURE(b.name);
    attention_case c(1, 140, 2, 2, 16, 0, dtype::f32);
    for (int64_t i = 0; i < c.qkv.count(); ++i) c.qkv.set(i, 8.0f * c.qkv.get(i));
    tensor all = c.fresh_out(), lse = c.fresh_lse(), out(dtype::f32, c.heads * c.width);
    on_reference([&](ops& op, stream& s) { c.forward(op, s, all, lse); });
    b.ops->attention_cached(
        *b.compute, {c.seq, 1, c.heads, c.kv, c.width, 0, c.type, c.qkv.data(), out.data()});
    REQUIRE(b.compute->synchronize());
    CHECK_CLOSE(out, all.part(all.count() - out.count(), out.count()), (tolerance{1e-3, 4e-4}));
  }
}

namespace {

struct attention_results {
  tensor out, lse, grad;

  explicit attention_results(const attention_case& c)
      : out(c.fresh_out()), lse(c.fresh_lse()), grad(c.fresh_grad()) {}
};

/// Forward, and backward from what it gave.
attention_results run(const attention_case& c, const backend& b) {
  attention_results r(c);
  c.forward(*b.ops, *b.compute, r.out, r.lse);
  c.backward(*b.ops, *b.compute, r.out, r.lse, r.grad);
  REQUIRE(b.compute->synchronize());
  return r;
}

void check_close(const attention_results& r, const tensor& out, const tensor& grad) {
  const bool half = r.out.type() == dtype::bf16;
  CHECK_CLOSE(r.out, out, tolerance_of(r.out.type(), 3e-6));
  CHECK_CLOSE(r.grad, grad, (half ? tolerance{1.0 / 64, 2e-2} : tolerance{6e-6, 6e-6}));
}

}  // namespace

TEST_CASE("attention of a document in a row of several is that of the document alone") {
  for (const backend& b : backends()) {
    CAPTURE(b.name);
    for (dtype type : {dtype::f32, dtype::bf16}) {
      const attention_case all(2, 150, 4, 2, 64, 40, type, {{1, 64, 140}, {65, 66}});
      const attention_results together = run(all, b);
      const int64_t in = (all.heads + 2 * all.kv) * all.width, out = all.heads * all.width;
      for (const auto& [first, count] : all.documents.list()) {
        CAPTURE(first);
        attention_case alone(1, count, 4, 2, 64, 40, type);
        alone.qkv = all.qkv.part(first * in, count * in);
        alone.dout = all.dout.part(first * out, count * out);
        check_close(run(alone, b), together.out.part(first * out, count * out),
                    together.grad.part(first * in, count * in));
      }
    }
  }
}

TEST_CASE("attention of rows of one document each is that of rows without documents") {
  for (const backend& b : backends()) {
    CAPTURE(b.name);
    for (dtype type : {dtype::f32, dtype::bf16}) {
      const attention_results plain = run({2, 70, 4, 2, 64, 0, type}, b);
      check_close(run({2, 70, 4, 2, 64, 0, type, {{}, {}}}, b), plain.out, plain.grad);
    }
  }
}

TEST_CASE("attention survives large scores") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    attention_case c(1, 140, 2, 2, 16, 0, type);
    for (int64_t i = 0; i < c.qkv.count(); ++i) c.qkv.set(i, 8.0f * c.qkv.get(i));
    tensor out = c.fresh_out(), lse = c.fresh_lse(), host_out = out, host_lse = lse;
    on_reference([&](ops& op, stream& s) { c.forward(op, s, out, lse); });
    on_every_backend([&](ops& op, stream& s) { c.forward(op, s, host_out, host_lse); },
                     [&] {
                       const double bound = type == dtype::bf16 ? 6e-2 : 4e-4;
                       CHECK_CLOSE(host_out, out, (tolerance{1.0 / 128, bound}));
                       CHECK_CLOSE(host_lse, lse, (tolerance{2e-6, 2e-6}));
                     });
  }
}

TEST_CASE("the reference's attention gradient agrees with finite differences") {
  for (int mode = 0; mode < 4; ++mode) {
    const row_borders none, borders = {{2, 3}};
    attention_case c(1, 6, 4, 2, 4, mode & 1 ? 3 : 0, dtype::f32, mode & 2 ? borders : none);
    tensor out = c.fresh_out(), lse = c.fresh_lse(), grad = c.fresh_grad();
    on_reference([&](ops& op, stream& s) {
      c.forward(op, s, out, lse);
      c.backward(op, s, out, lse, grad);
    });
    const auto objective = [&] {
      tensor y = c.fresh_out(), l = c.fresh_lse();
      on_reference([&](ops& op, stream& s) { c.forward(op, s, y, l); });
      double total = 0;
      for (int64_t i = 0; i < y.count(); ++i)
        total += static_cast<double>(y.get(i)) * c.dout.get(i);
      return total;
    };
    for (int64_t i = 0; i < c.qkv.count(); ++i) {
      const float keep = c.qkv.get(i), step = 1.0f / 128;
      c.qkv.set(i, keep + step);
      const double up = objective();
      c.qkv.set(i, keep - step);
      const double down = objective();
      c.qkv.set(i, keep);
      CHECK(std::abs((up - down) / (2.0 * static_cast<double>(step)) - grad.get(i)) < 1e-3);
    }
  }
}
