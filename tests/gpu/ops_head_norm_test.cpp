// Norms of query and key heads against the reference, their slopes against differences of the loss.
#include "tests/gpu/ops_support.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

struct head_shape {
  int64_t batch, seq, heads, kv_heads, width;
};
const head_shape head_shapes[] = {{2, 9, 4, 2, 8},
                                  {1, 1, 1, 1, 2},
                                  {1, 70, 3, 3, 64},
                                  {2, 5, 8, 2, 128},
                                  {1, 3, 2, 1, 256},
                                  {1, 2, 2, 2, 80},
                                  {1, 5, 3, 1, 34},
                                  {1, 5, 2, 1, 130},
                                  {1, 3, 2, 1, 512},
                                  // more heads than a GPU's warps take at once
                                  {2, 600, 4, 2, 8}};

struct head_case {
  head_shape shape;
  dtype type;
  tensor qkv, q_weight, k_weight;

  head_case(const head_shape& s, dtype t)
      : shape(s),
        type(t),
        qkv(tensor::random(t, tokens() * (s.heads + 2 * s.kv_heads) * s.width, 1, 2.0f)),
        q_weight(tensor::random(t, s.width, 2, 0.5f, 1.0f)),
        k_weight(tensor::random(t, s.width, 3, 0.5f, 1.0f)) {}

  int64_t tokens() const { return shape.batch * shape.seq; }
  int64_t normed() const { return tokens() * (shape.heads + shape.kv_heads); }
};

struct head_results {
  tensor qkv, before, rstd;
};
struct head_gradients {
  tensor dqkv, dq, dk;
};

void forward(ops& op, stream& s, const head_case& c, head_results& r) {
  op.head_norm_forward(s, {.batch = c.shape.batch,
                           .seq = c.shape.seq,
                           .heads = c.shape.heads,
                           .kv_heads = c.shape.kv_heads,
                           .head_width = c.shape.width,
                           .type = c.type,
                           .eps = 1e-6f,
                           .qkv = r.qkv.data(),
                           .before = r.before.data(),
                           .q_weight = c.q_weight.data(),
                           .k_weight = c.k_weight.data(),
                           .rstd = r.rstd.floats()});
}

void backward(ops& op, stream& s, const head_case& c, head_results& kept, head_gradients& g) {
  op.head_norm_backward(s, {.batch = c.shape.batch,
                            .seq = c.shape.seq,
                            .heads = c.shape.heads,
                            .kv_heads = c.shape.kv_heads,
                            .head_width = c.shape.width,
                            .type = c.type,
                            .dqkv = g.dqkv.data(),
                            .before = kept.before.data(),
                            .q_weight = c.q_weight.data(),
                            .k_weight = c.k_weight.data(),
                            .rstd = kept.rstd.floats(),
                            .dq_weight = g.dq.floats(),
                            .dk_weight = g.dk.floats()});
}

head_results fresh_results(const head_case& c) {
  return {c.qkv, tensor(c.type, c.normed() * c.shape.width), tensor(dtype::f32, c.normed())};
}

head_gradients fresh_gradients(const head_case& c) {
  // Gradients are added to: they begin as something.
  return {tensor::random(c.type, c.qkv.count(), 4), tensor::constant(dtype::f32, c.shape.width, 3),
          tensor::constant(dtype::f32, c.shape.width, -2)};
}

}  // namespace

TEST_CASE("head_norm_forward equals the reference, keeps what was, and leaves values alone") {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    for (const auto& shape : head_shapes) {
      CAPTURE(shape.width);
      const head_case c(shape, type);
      head_results expected = fresh_results(c), actual = fresh_results(c);
      on_reference([&](ops& op, stream& s) { forward(op, s, c, expected); });
      on_every_backend([&](ops& op, stream& s) { forward(op, s, c, actual); },
                       [&] {
                         CHECK_CLOSE(actual.qkv, expected.qkv, tolerance_of(type, 4e-6));
                         CHECK_CLOSE(actual.rstd, expected.rstd, tolerance_of(dtype::f32));
                         CHECK(actual.before.same_bits(expected.before));
                         actual = fresh_results(c);
                       });
      const int64_t heads = shape.heads + 2 * shape.kv_heads, first = shape.heads + shape.kv_heads;
      for (int64_t t = 0; t < c.tokens(); ++t)
        for (int64_t i = first * shape.width; i < heads * shape.width; ++i)
          REQUIRE(expected.qkv.get(t * heads * shape.width + i) ==
                  c.qkv.get(t * heads * shape.width + i));
    }
  }
}

TEST_CASE("head_norm_backward equals the reference, adds to its gradients, and repeats its bits") {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    for (const auto& shape : head_shapes) {
      CAPTURE(shape.width);
      const head_case c(shape, type);
      head_results kept = fresh_results(c);
      on_reference([&](ops& op, stream& s) { forward(op, s, c, kept); });
      head_gradients expected = fresh_gradients(c), actual = fresh_gradients(c);
      head_gradients again = fresh_gradients(c);
      on_reference([&](ops& op, stream& s) { backward(op, s, c, kept, expected); });
      on_every_backend(
          [&](ops& op, stream& s) {
            backward(op, s, c, kept, actual);
            backward(op, s, c, kept, again);
          },
          [&] {
            CHECK_CLOSE(actual.dqkv, expected.dqkv, tolerance_of(type, 1e-5));
            CHECK_CLOSE(actual.dq, expected.dq, tolerance_of(dtype::f32, 2e-5));
            CHECK_CLOSE(actual.dk, expected.dk, tolerance_of(dtype::f32, 2e-5));
            CHECK(actual.dqkv.same_bits(again.dqkv));
            CHECK(actual.dq.same_bits(again.dq));
            CHECK(actual.dk.same_bits(again.dk));
            actual = again = fresh_gradients(c);
          });
    }
  }
}
