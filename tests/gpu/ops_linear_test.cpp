// Matrix products and the head against the reference; the reference's gradients against
// differences.
#include "tests/gpu/ops_support.hpp"

using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

struct linear_shape {
  int64_t tokens, in, out;
};

const linear_shape shapes[] = {{37, 56, 251}, {1, 16, 16}, {64, 80, 33},   {130, 128, 96},
                               {5, 3, 7},     {37, 1, 1},  {200, 264, 520}};

/// Sums of k products of numbers in [-1, 1): the error grows with sqrt(k).
tolerance product_tolerance(dtype type, int64_t k) {
  if (type == dtype::bf16) return {1.0 / 128, 1e-2 * std::sqrt(static_cast<double>(k))};
  return {1e-6, 8e-7 * std::sqrt(static_cast<double>(k))};
}

}  // namespace

TEST_CASE("linear_forward equals the reference, with and without bias and residual") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (const auto& [n, i, o] : shapes) {
      CAPTURE(to_string(type));
      CAPTURE(o);
      const auto x = tensor::random(type, n * i, 1), w = tensor::random(type, o * i, 2);
      const auto bias = tensor::random(type, o, 3), residual = tensor::random(type, n * o, 4);
      for (int mode = 0; mode < 5; ++mode) {
        CAPTURE(mode);
        tensor expected(type, n * o), actual(type, n * o);
        const auto run = [&](ops& op, stream& s, tensor& y) {
          if (mode == 4) y = residual;  // in place
          op.linear_forward(s, {.tokens = n,
                                .in = i,
                                .out = o,
                                .type = type,
                                .x = x.data(),
                                .w = w.data(),
                                .bias = mode & 1 ? bias.data() : nullptr,
                                .residual = mode == 4  ? y.data()
                                            : mode & 2 ? residual.data()
                                                       : nullptr,
                                .y = y.data()});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, actual); },
                         [&] {
                           CHECK_CLOSE(actual, expected, product_tolerance(type, i));
                           actual = tensor(type, n * o);
                         });
      }
    }
  }
}

TEST_CASE("linear_backward_input equals the reference, overwriting and accumulating") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (const auto& [n, i, o] : shapes) {
      const auto dy = tensor::random(type, n * o, 1), w = tensor::random(type, o * i, 2);
      const auto before = tensor::random(type, n * i, 3);
      for (bool accumulate : {false, true}) {
        const auto start = accumulate ? before : tensor(type, n * i);
        tensor expected = start, actual = start;
        const auto run = [&](ops& op, stream& s, tensor& dx) {
          op.linear_backward_input(s, {.tokens = n,
                                       .in = i,
                                       .out = o,
                                       .type = type,
                                       .dy = dy.data(),
                                       .w = w.data(),
                                       .dx = dx.data(),
                                       .accumulate = accumulate});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, actual); },
                         [&] {
                           CHECK_CLOSE(actual, expected, product_tolerance(type, o));
                           actual = start;
                         });
      }
    }
  }
}

TEST_CASE("products with a GELU behind them, and its gradient, equal the reference") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (const auto& [n, i, o] : shapes) {
      CAPTURE(to_string(type));
      CAPTURE(o);
      const auto x = tensor::random(type, n * i, 1), w = tensor::random(type, o * i, 2);
      const auto bias = tensor::random(type, o, 3), dy = tensor::random(type, n * o, 4);
      const auto saved = tensor::random(type, n * i, 5, 3.0f);
      struct outcome {
        tensor pre, y, dx;
      };
      for (bool with_bias : {false, true}) {
        const outcome poison{{type, n * o}, {type, n * o}, {type, n * i}};
        outcome expected = poison, actual = poison;
        const auto run = [&](ops& op, stream& s, outcome& to) {
          op.linear_forward(s, {.tokens = n,
                                .in = i,
                                .out = o,
                                .type = type,
                                .x = x.data(),
                                .w = w.data(),
                                .bias = with_bias ? bias.data() : nullptr,
                                .y = to.y.data(),
                                .pre_gelu = to.pre.data()});
          op.linear_backward_input(s, {.tokens = n,
                                       .in = i,
                                       .out = o,
                                       .type = type,
                                       .dy = dy.data(),
                                       .w = w.data(),
                                       .dx = to.dx.data(),
                                       .pre_gelu = saved.data()});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, actual); },
                         [&] {
                           CHECK_CLOSE(actual.pre, expected.pre, product_tolerance(type, i));
                           CHECK_CLOSE(actual.y, expected.y, product_tolerance(type, i));
                           CHECK_CLOSE(actual.dx, expected.dx, product_tolerance(type, o));
                           actual = poison;
                         });
      }
    }
  }
}

TEST_CASE("linear_backward_weight accumulates in float32, with and without bias") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (const auto& [n, i, o] : shapes) {
      const auto dy = tensor::random(type, n * o, 1), x = tensor::random(type, n * i, 2);
      const auto start = tensor::random(dtype::f32, o * i, 3);
      const auto start_bias = tensor::random(dtype::f32, o, 4);
      for (bool with_bias : {false, true}) {
        tensor expected = start, actual = start, expected_b = start_bias, actual_b = start_bias;
        const auto run = [&](ops& op, stream& s, tensor& dw, tensor& db) {
          op.linear_backward_weight(s, {.tokens = n,
                                        .in = i,
                                        .out = o,
                                        .type = type,
                                        .dy = dy.data(),
                                        .x = x.data(),
                                        .dw = dw.floats(),
                                        .dbias = with_bias ? db.floats() : nullptr});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected, expected_b); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, actual, actual_b); },
                         [&] {
                           // products of bf16 are exact in f32: the f32 bound holds for both types
                           CHECK_CLOSE(actual, expected, product_tolerance(dtype::f32, n));
                           CHECK_CLOSE(actual_b, expected_b, product_tolerance(dtype::f32, n));
                           actual = start;
                           actual_b = start_bias;
                         });
      }
    }
  }
}

namespace {

struct head_case {
  int64_t n, c, v;
  dtype type;
  tensor x, w;
  shared_vector<int32_t> targets;

  head_case(int64_t tokens, int64_t width, int64_t vocab, dtype t, int64_t ignore_every)
      : n(tokens), c(width), v(vocab), type(t) {
    x = tensor::random(t, n * c, 1);
    w = tensor::random(t, v * c, 2, 0.5f);
    random_numbers r(3);
    for (int64_t i = 0; i < n; ++i) {
      const bool ignored = ignore_every > 0 && i % ignore_every == 0;
      targets.push_back(ignored ? -1 : static_cast<int32_t>(r.below(v)));
    }
  }

  void run(ops& op, stream& s, shared_value<double>& loss, tensor* dx, tensor* dw) const {
    op.head_loss(s, {.tokens = n,
                     .width = c,
                     .vocab = v,
                     .type = type,
                     .x = x.data(),
                     .w = w.data(),
                     .targets = targets.data(),
                     .scale = 0.125f,
                     .loss_sum = loss.data(),
                     .dx = dx != nullptr ? dx->data() : nullptr,
                     .dw = dw != nullptr ? dw->floats() : nullptr});
  }
};

}  // namespace

TEST_CASE("head_loss equals the reference: loss, dx, dw, ignored targets, evaluation only") {
  for (dtype type : {dtype::f32, dtype::bf16}) {
    for (const auto& [n, c, v] :
         {linear_shape{37, 56, 251}, {70, 64, 1000}, {3, 16, 17}, {9, 16, 5}, {9, 16, 8}}) {
      for (int64_t ignore : {0, 3}) {
        const head_case h(n, c, v, type, ignore);
        const auto start = tensor::random(dtype::f32, v * c, 5, 0.1f);
        shared_value<double> expected_loss = 2.5, loss = 2.5;
        const auto stale = tensor::random(type, n * c, 7);  // dx is overwritten
        tensor expected_dx = stale, dx = stale, expected_dw = start, dw = start;
        on_reference(
            [&](ops& op, stream& s) { h.run(op, s, expected_loss, &expected_dx, &expected_dw); });
        on_every_backend([&](ops& op, stream& s) { h.run(op, s, loss, &dx, &dw); },
                         [&] {
                           CHECK(std::abs(loss - expected_loss) <= 1e-6 * std::abs(expected_loss));
                           CHECK_CLOSE(dx, expected_dx, tolerance_of(type, 2e-6));
                           // the probabilities are rounded to bfloat16 before the product
                           CHECK_CLOSE(dw, expected_dw, tolerance_of(type, 2e-6));
                           loss = 2.5;
                           dx = stale;
                           dw = start;
                         });
        on_every_backend([&](ops& op, stream& s) { h.run(op, s, loss, nullptr, nullptr); },
                         [&] {
                           CHECK(std::abs(loss - expected_loss) <= 1e-6 * std::abs(expected_loss));
                           loss = 2.5;
                         });
      }
    }
  }
}

TEST_CASE("head_loss works through several slabs") {
  if (backends().empty()) return;
  const backend& b = backends().back();
  // 40,000 words a token: 128 MiB of logits, the host's slab, hold about 800 tokens
  const head_case h(b.slow ? 47 : 840, 8, b.slow ? 1100 : 40000, dtype::f32, 7);
  shared_value<double> expected_loss = 0.0, loss = 0.0;
  tensor expected_dx(dtype::f32, h.n * h.c), dx = expected_dx;
  on_reference([&](ops& op, stream& s) { h.run(op, s, expected_loss, &expected_dx, nullptr); });
  h.run(*b.ops, *b.compute, loss, &dx, nullptr);
  REQUIRE(b.compute->synchronize());
  CHECK(std::abs(loss - expected_loss) <= 1e-6 * expected_loss);
  CHECK_CLOSE(dx, expected_dx, tolerance_of(dtype::f32));
}

TEST_CASE("the reference's head gradients agree with finite differences") {
  head_case h(4, 5, 7, dtype::f32, 3);
  tensor dx(dtype::f32, h.n * h.c), dw = tensor::constant(dtype::f32, h.v * h.c, 0);
  shared_value<double> base = 0.0;
  on_reference([&](ops& op, stream& s) { h.run(op, s, base, &dx, &dw); });
  const auto slope = [&](tensor& input, int64_t i) {
    const float keep = input.get(i), step = 1.0f / 512;
    shared_value<double> up = 0.0, down = 0.0;
    input.set(i, keep + step);
    on_reference([&](ops& op, stream& s) { h.run(op, s, up, nullptr, nullptr); });
    input.set(i, keep - step);
    on_reference([&](ops& op, stream& s) { h.run(op, s, down, nullptr, nullptr); });
    input.set(i, keep);
    return 0.125 * (up - down) / (2.0 * static_cast<double>(step));
  };
  for (int64_t i = 0; i < h.n * h.c; ++i) CHECK(std::abs(slope(h.x, i) - dx.get(i)) < 1e-5);
  for (int64_t i = 0; i < h.v * h.c; ++i) CHECK(std::abs(slope(h.w, i) - dw.get(i)) < 1e-5);
}
