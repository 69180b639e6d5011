// Norms, embeddings, rotary embedding, activations, casts and sums against the reference.
#include "tests/gpu/ops_support.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

const dtype types[] = {dtype::f32, dtype::bf16};

struct norm_shape {
  int64_t n, c;
};
const norm_shape norm_shapes[] = {{37, 56}, {3, 1}, {150, 768}, {5, 80}, {1, 17}};

struct norm_results {
  tensor s, y, mean, rstd;
};

}  // namespace

TEST_CASE("norm_forward equals the reference: both kinds, residual, stored sum, bias") {
  for (dtype type : types) {
    for (const auto& [n, c] : norm_shapes) {
      const auto x = tensor::random(type, n * c, 1, 2.0f, 0.5f);
      const auto residual = tensor::random(type, n * c, 2);
      const auto weight = tensor::random(type, c, 3, 0.2f, 1.0f), bias = tensor::random(type, c, 4);
      for (int mode = 0; mode < 16; ++mode) {
        const bool layer = mode & 1, with_residual = mode & 2, with_bias = mode & 4;
        const bool with_sum = mode & 8;
        CAPTURE(mode);
        CAPTURE(c);
        const norm_results fresh{tensor(type, n * c), tensor(type, n * c), tensor(dtype::f32, n),
                                 tensor(dtype::f32, n)};
        norm_results expected = fresh, actual = fresh;
        const auto run = [&](ops& op, stream& s, norm_results& r) {
          op.norm_forward(s, {.kind = layer ? norm_kind::layer : norm_kind::rms,
                              .tokens = n,
                              .width = c,
                              .type = type,
                              .eps = 1e-5f,
                              .x = x.data(),
                              .residual = with_residual ? residual.data() : nullptr,
                              .weight = weight.data(),
                              .bias = with_bias ? bias.data() : nullptr,
                              .sum_out = with_sum ? r.s.data() : nullptr,
                              .y = r.y.data(),
                              .mean = layer ? r.mean.floats() : nullptr,
                              .rstd = r.rstd.floats()});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, actual); },
                         [&] {
                           CHECK_CLOSE(actual.y, expected.y, tolerance_of(type, 4e-6));
                           CHECK_CLOSE(actual.rstd, expected.rstd, tolerance_of(dtype::f32));
                           if (layer)
                             CHECK_CLOSE(actual.mean, expected.mean, tolerance_of(dtype::f32));
                           if (with_sum) CHECK_CLOSE(actual.s, expected.s, (tolerance{1e-7, 0}));
                           actual = fresh;
                         });
      }
    }
  }
}

TEST_CASE("norm_forward may store the sum over its input") {
  const int64_t n = 9, c = 40;
  const auto x = tensor::random(dtype::f32, n * c, 1),
             residual = tensor::random(dtype::f32, n * c, 2);
  const auto weight = tensor::constant(dtype::f32, c, 1);
  tensor in_place = x, y(dtype::f32, n * c), rstd(dtype::f32, n);
  on_every_backend(
      [&](ops& op, stream& s) {
        op.norm_forward(s, {.kind = norm_kind::rms,
                            .tokens = n,
                            .width = c,
                            .type = dtype::f32,
                            .eps = 1e-5f,
                            .x = in_place.data(),
                            .residual = residual.data(),
                            .weight = weight.data(),
                            .sum_out = in_place.data(),
                            .y = y.data(),
                            .rstd = rstd.floats()});
      },
      [&] {
        for (int64_t i = 0; i < n * c; ++i) REQUIRE(in_place.get(i) == x.get(i) + residual.get(i));
        in_place = x;
      });
}

namespace {

struct norm_case {
  norm_kind kind;
  int64_t n, c;
  dtype type;
  tensor x, dy, weight, past, mean, rstd;

  norm_case(norm_kind k, int64_t rows, int64_t width, dtype t)
      : kind(k), n(rows), c(width), type(t) {
    x = tensor::random(t, n * c, 1, 2.0f, 0.5f);
    dy = tensor::random(t, n * c, 2);
    weight = tensor::random(t, c, 3, 0.2f, 1.0f);
    past = tensor::random(t, n * c, 4);
    mean = tensor(dtype::f32, n);
    rstd = tensor(dtype::f32, n);
    on_reference([&](ops& op, stream& s) { forward(op, s); });
  }

  tensor forward(ops& op, stream& s) {
    tensor y(type, n * c);
    op.norm_forward(s, {.kind = kind,
                        .tokens = n,
                        .width = c,
                        .type = type,
                        .eps = 1e-5f,
                        .x = x.data(),
                        .weight = weight.data(),
                        .y = y.data(),
                        .mean = kind == norm_kind::layer ? mean.floats() : nullptr,
                        .rstd = rstd.floats()});
    REQUIRE(s.synchronize());
    return y;
  }

  void backward(ops& op, stream& s, const void* residual, tensor& dx, tensor& dw, tensor* db) {
    op.norm_backward(s, {.kind = kind,
                         .tokens = n,
                         .width = c,
                         .type = type,
                         .dy = dy.data(),
                         .x = x.data(),
                         .weight = weight.data(),
                         .mean = kind == norm_kind::layer ? mean.floats() : nullptr,
                         .rstd = rstd.floats(),
                         .dresidual = residual,
                         .dx = dx.data(),
                         .dweight = dw.floats(),
                         .dbias = db != nullptr ? db->floats() : nullptr});
  }
};

}  // namespace

namespace {

/// Wide rows, of several warps of a GPU; odd ones.
const norm_shape wide_shapes[] = {{6, 1600}, {3, 4096}, {4, 1001},
                                  {2, 5000}, {2, 4099}, {2, 16392}};

}  // namespace

TEST_CASE("norm_forward equals the reference on wide rows") {
  for (dtype type : types) {
    for (const auto& [n, c] : wide_shapes) {
      CAPTURE(c);
      const auto x = tensor::random(type, n * c, 1, 2.0f, 0.5f);
      const auto residual = tensor::random(type, n * c, 2);
      const auto weight = tensor::random(type, c, 3, 0.2f, 1.0f);
      const norm_results fresh{tensor(type, n * c), tensor(type, n * c), tensor(dtype::f32, n),
                               tensor(dtype::f32, n)};
      for (norm_kind kind : {norm_kind::layer, norm_kind::rms}) {
        norm_results expected = fresh, actual = fresh;
        const auto run = [&](ops& op, stream& s, norm_results& r) {
          op.norm_forward(s, {.kind = kind,
                              .tokens = n,
                              .width = c,
                              .type = type,
                              .eps = 1e-5f,
                              .x = x.data(),
                              .residual = residual.data(),
                              .weight = weight.data(),
                              .sum_out = r.s.data(),
                              .y = r.y.data(),
                              .mean = kind == norm_kind::layer ? r.mean.floats() : nullptr,
                              .rstd = r.rstd.floats()});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, actual); },
                         [&] {
                           CHECK_CLOSE(actual.y, expected.y, tolerance_of(type, 4e-6));
                           CHECK_CLOSE(actual.rstd, expected.rstd, tolerance_of(dtype::f32));
                           CHECK_CLOSE(actual.s, expected.s, (tolerance{1e-7, 0}));
                           actual = fresh;
                         });
      }
    }
  }
}

namespace {

/// norm_backward with a residual in place against the reference.
void compare_backward(norm_kind kind, int64_t n, int64_t c, dtype type) {
  CAPTURE(n);
  CAPTURE(c);
  norm_case k(kind, n, c, type);
  const auto start = tensor::random(dtype::f32, c, 9);
  const bool layer = kind == norm_kind::layer;
  tensor expected(type, n * c), expected_w = start, expected_b = start;
  tensor dx = k.past, dw = start, db = start;
  on_reference([&](ops& op, stream& s) {
    k.backward(op, s, k.past.data(), expected, expected_w, layer ? &expected_b : nullptr);
  });
  on_every_backend(
      [&](ops& op, stream& s) { k.backward(op, s, dx.data(), dx, dw, layer ? &db : nullptr); },
      [&] {
        CHECK_CLOSE(dx, expected, tolerance_of(type, 5e-6));
        const double grows = 1e-6 * std::sqrt(static_cast<double>(n));
        CHECK_CLOSE(dw, expected_w, (tolerance{2e-6, grows}));
        CHECK_CLOSE(db, expected_b, (tolerance{2e-6, grows}));
        dx = k.past;
        dw = db = start;
      });
}

}  // namespace

TEST_CASE("norm_backward equals the reference on wide rows") {
  for (dtype type : types) {
    for (const auto& [n, c] : wide_shapes) {
      for (norm_kind kind : {norm_kind::layer, norm_kind::rms}) compare_backward(kind, n, c, type);
    }
  }
}

TEST_CASE("norm_backward equals the reference on so many rows that a GPU's block has several") {
  for (dtype type : types) compare_backward(norm_kind::layer, 8000, 24, type);
  compare_backward(norm_kind::layer, 4100, 776, dtype::bf16);
}

TEST_CASE("norm_backward equals the reference, dresidual may be dx, weights accumulate") {
  for (dtype type : types) {
    for (norm_kind kind : {norm_kind::layer, norm_kind::rms}) {
      for (const auto& [n, c] : norm_shapes) {
        norm_case k(kind, n, c, type);
        const auto start = tensor::random(dtype::f32, c, 9);
        for (int mode = 0; mode < 3; ++mode) {
          const bool with_bias = kind == norm_kind::layer && mode != 1;
          tensor expected(type, n * c), expected_w = start, expected_b = start;
          tensor dx = mode == 2 ? k.past : expected, dw = start, db = start;
          on_reference([&](ops& op, stream& s) {
            k.backward(op, s, mode > 0 ? k.past.data() : nullptr, expected, expected_w,
                       with_bias ? &expected_b : nullptr);
          });
          on_every_backend(
              [&](ops& op, stream& s) {
                const void* past = mode == 0 ? nullptr : mode == 1 ? k.past.data() : dx.data();
                k.backward(op, s, past, dx, dw, with_bias ? &db : nullptr);
              },
              [&] {
                CHECK_CLOSE(dx, expected, tolerance_of(type, 5e-6));
                const double grows = 1e-6 * std::sqrt(static_cast<double>(n));
                CHECK_CLOSE(dw, expected_w, (tolerance{2e-6, grows}));
                CHECK_CLOSE(db, expected_b, (tolerance{2e-6, grows}));
                dx = mode == 2 ? k.past : tensor(type, n * c);
                dw = db = start;
              });
        }
      }
    }
  }
}

TEST_CASE("the reference's norm gradient agrees with finite differences") {
  for (norm_kind kind : {norm_kind::layer, norm_kind::rms}) {
    norm_case k(kind, 3, 6, dtype::f32);
    tensor dx(dtype::f32, 18), dw = tensor::constant(dtype::f32, 6, 0), db = dw;
    on_reference([&](ops& op, stream& s) { k.backward(op, s, nullptr, dx, dw, &db); });
    const auto objective = [&] {
      tensor y;
      on_reference([&](ops& op, stream& s) { y = k.forward(op, s); });
      double total = 0;
      for (int64_t i = 0; i < 18; ++i) total += static_cast<double>(y.get(i)) * k.dy.get(i);
      return total;
    };
    const auto check = [&](tensor& input, const tensor& gradient) {
      for (int64_t i = 0; i < input.count(); ++i) {
        const float keep = input.get(i), step = 1.0f / 128;
        input.set(i, keep + step);
        const double up = objective();
        input.set(i, keep - step);
        const double down = objective();
        input.set(i, keep);
        CHECK(std::abs((up - down) / (2.0 * static_cast<double>(step)) - gradient.get(i)) < 2e-3);
      }
    };
    check(k.x, dx);
    check(k.weight, dw);
  }
}

TEST_CASE("embeddings equal the reference, repeated tokens add up") {
  for (dtype type : types) {
    for (int64_t width : {56, 16, 129}) {
      const int64_t batch = 3, seq = 37, vocab = 29;
      shared_vector<int32_t> tokens;
      random_numbers r(1);
      for (int64_t i = 0; i < batch * seq; ++i)
        tokens.push_back(static_cast<int32_t>(r.below(vocab)));
      const auto table = tensor::random(type, vocab * width, 2);
      const auto positions = tensor::random(type, (seq + 5) * width, 3);
      const auto dout = tensor::random(type, batch * seq * width, 4);
      for (bool with_positions : {false, true}) {
        tensor expected(type, batch * seq * width), out = expected;
        const auto start_t = tensor::random(dtype::f32, vocab * width, 5);
        const auto start_p = tensor::random(dtype::f32, (seq + 5) * width, 6);
        tensor expected_t = start_t, dt = start_t, expected_p = start_p, dp = start_p;
        const auto run = [&](ops& op, stream& s, tensor& y, tensor& gt, tensor& gp) {
          op.embedding_forward(s, {batch, seq, width, vocab, type, tokens.data(), table.data(),
                                   with_positions ? positions.data() : nullptr, y.data()});
          op.embedding_backward(s, {batch, seq, width, vocab, type, tokens.data(), dout.data(),
                                    gt.floats(), with_positions ? gp.floats() : nullptr});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected, expected_t, expected_p); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, out, dt, dp); },
                         [&] {
                           CHECK_CLOSE(out, expected, (tolerance{0, 0x1p-149}));
                           CHECK_CLOSE(dt, expected_t, tolerance_of(dtype::f32));
                           CHECK_CLOSE(dp, expected_p, tolerance_of(dtype::f32));
                           out = tensor(type, batch * seq * width);
                           dt = start_t;
                           dp = start_p;
                         });
      }
    }
  }
}

TEST_CASE("embedding gradients: a frequent token among many, runs of every length") {
  for (dtype type : types) {
    for (const auto& [vocab, width] : {norm_shape{50257, 24}, {3, 5}, {700, 8}, {1, 16}}) {
      CAPTURE(vocab);
      const int64_t batch = 3, seq = 700;
      shared_vector<int32_t> tokens;
      random_numbers r(1);
      for (int64_t i = 0; i < batch * seq; ++i) {
        const bool frequent = r.below(20) == 0;
        const int64_t token = frequent ? vocab - 1 : r.below(1 + r.below(vocab));
        tokens.push_back(static_cast<int32_t>(token));
      }
      const auto dout = tensor::random(type, batch * seq * width, 4);
      const auto start_t = tensor::random(dtype::f32, vocab * width, 5);
      const auto start_p = tensor::random(dtype::f32, seq * width, 6);
      tensor expected_t = start_t, dt = start_t, expected_p = start_p, dp = start_p;
      const auto run = [&](ops& op, stream& s, tensor& gt, tensor& gp) {
        op.embedding_backward(s, {batch, seq, width, vocab, type, tokens.data(), dout.data(),
                                  gt.floats(), gp.floats()});
      };
      on_reference([&](ops& op, stream& s) { run(op, s, expected_t, expected_p); });
      on_every_backend([&](ops& op, stream& s) { run(op, s, dt, dp); },
                       [&] {
                         const double grows = vocab < 1000 ? 4e-5 : 2e-6;  // sums of up to 2,100
                         CHECK_CLOSE(dt, expected_t, (tolerance{2e-6, grows}));
                         CHECK_CLOSE(dp, expected_p, tolerance_of(dtype::f32));
                         dt = start_t;
                         dp = start_p;
                       });
    }
  }
}

TEST_CASE("rope equals the reference and its inverse undoes it") {
  for (dtype type : types) {
    for (int64_t width : {16, 64, 80, 128, 2}) {
      const int64_t batch = 2, seq = 9, heads = 4, kv = 2, first = 3, half = width / 2;
      const int64_t count = batch * seq * (heads + 2 * kv) * width;
      tensor cosine(dtype::f32, (seq + first) * half), sine = cosine;
      for (int64_t i = 0; i < cosine.count(); ++i) {
        cosine.set(i, static_cast<float>(std::cos(0.1 * static_cast<double>(i))));
        sine.set(i, static_cast<float>(std::sin(0.1 * static_cast<double>(i))));
      }
      const auto start = tensor::random(type, count, 1);
      const auto run = [&](ops& op, stream& s, tensor& qkv, bool inverse) {
        op.rope(s, {batch, seq, heads, kv, width, type, qkv.data(), cosine.floats(), sine.floats(),
                    inverse, first});
      };
      tensor expected = start, qkv = start;
      on_reference([&](ops& op, stream& s) { run(op, s, expected, false); });
      on_every_backend([&](ops& op, stream& s) { run(op, s, qkv, false); },
                       [&] {
                         CHECK_CLOSE(qkv, expected, tolerance_of(type));
                         qkv = start;
                       });
      on_every_backend(
          [&](ops& op, stream& s) {
            run(op, s, qkv, false);
            run(op, s, qkv, true);
          },
          [&] {
            CHECK_CLOSE(qkv, start, tolerance_of(type));
            qkv = start;
          });
    }
  }
}

namespace {

/// Borders at both ends of rows, documents of one token, a row that is one document.
const row_borders several = {{1, 2, 17, 36}, {}, {20}};

}  // namespace

TEST_CASE("embeddings equal the reference where rows hold several documents") {
  const int64_t batch = 3, seq = 37, vocab = 29;
  const parted_rows documents(seq, several);
  shared_vector<int32_t> tokens;
  random_numbers r(1);
  for (int64_t i = 0; i < batch * seq; ++i) tokens.push_back(static_cast<int32_t>(r.below(vocab)));
  for (dtype type : types) {
    for (int64_t width : {56, 129}) {
      const auto table = tensor::random(type, vocab * width, 2);
      const auto positions = tensor::random(type, seq * width, 3);
      const auto dout = tensor::random(type, batch * seq * width, 4);
      const auto start_t = tensor::random(dtype::f32, vocab * width, 5);
      const auto start_p = tensor::random(dtype::f32, seq * width, 6);
      tensor expected(type, batch * seq * width), out = expected;
      tensor expected_t = start_t, dt = start_t, expected_p = start_p, dp = start_p;
      const auto run = [&](ops& op, stream& s, tensor& y, tensor& gt, tensor& gp) {
        op.embedding_forward(s, {batch, seq, width, vocab, type, tokens.data(), table.data(),
                                 positions.data(), y.data(), documents.arrays()});
        op.embedding_backward(s, {batch, seq, width, vocab, type, tokens.data(), dout.data(),
                                  gt.floats(), gp.floats(), documents.arrays()});
      };
      on_reference([&](ops& op, stream& s) { run(op, s, expected, expected_t, expected_p); });
      on_every_backend([&](ops& op, stream& s) { run(op, s, out, dt, dp); },
                       [&] {
                         CHECK_CLOSE(out, expected, (tolerance{0, 0x1p-149}));
                         CHECK_CLOSE(dt, expected_t, tolerance_of(dtype::f32));
                         CHECK_CLOSE(dp, expected_p, tolerance_of(dtype::f32));
                         out = tensor(type, batch * seq * width);
                         dt = start_t;
                         dp = start_p;
                       });
    }
  }
}

TEST_CASE("rope equals the reference where rows hold several documents, its inverse undoes it") {
  const int64_t batch = 3, seq = 37, heads = 4, kv = 2;
  const parted_rows documents(seq, several);
  for (dtype type : types) {
    for (int64_t width : {64, 80, 2}) {
      const int64_t half = width / 2, count = batch * seq * (heads + 2 * kv) * width;
      const auto cosine = tensor::random(dtype::f32, seq * half, 2);
      auto sine = cosine;
      for (int64_t i = 0; i < sine.count(); ++i)
        sine.set(i, std::sqrt(1 - cosine.get(i) * cosine.get(i)));
      const auto start = tensor::random(type, count, 1);
      const auto run = [&](ops& op, stream& s, tensor& qkv, bool inverse) {
        op.rope(s, {batch, seq, heads, kv, width, type, qkv.data(),
                    static_cast<const float*>(cosine.data()), sine.floats(), inverse, 0,
                    documents.arrays()});
      };
      tensor expected = start, qkv = start, undone = start;
      on_reference([&](ops& op, stream& s) { run(op, s, expected, false); });
      on_every_backend(
          [&](ops& op, stream& s) {
            run(op, s, qkv, false);
            run(op, s, undone, false);
            run(op, s, undone, true);
          },
          [&] {
            CHECK_CLOSE(qkv, expected, tolerance_of(type));
            CHECK_CLOSE(undone, start, tolerance_of(type));
            qkv = undone = start;
          });
    }
  }
}

TEST_CASE("embeddings and rope of a document are those of the document alone, bit by bit") {
  const int64_t batch = 3, seq = 37, vocab = 29, width = 48, heads = 1, kv = 1, half = 8;
  const parted_rows documents(seq, several);
  shared_vector<int32_t> tokens;
  for (int64_t i = 0; i < batch * seq; ++i) tokens.push_back(static_cast<int32_t>(i % vocab));
  const auto cosine = tensor::random(dtype::f32, seq * half, 1);
  const auto sine = tensor::random(dtype::f32, seq * half, 2);
  for (dtype type : types) {
    const auto table = tensor::random(type, vocab * width, 3);
    const auto positions = tensor::random(type, seq * width, 4);
    const auto run = [&](const backend& b, int64_t rows, int64_t length, int64_t first,
                         const row_documents& d) {
      tensor out(type, rows * length * width);
      b.ops->embedding_forward(*b.compute, {rows, length, width, vocab, type, tokens.data() + first,
                                            table.data(), positions.data(), out.data(), d});
      b.ops->rope(*b.compute, {rows, length, heads, kv, 2 * half, type, out.data(),
                               static_cast<const float*>(cosine.data()),
                               static_cast<const float*>(sine.data()), false, 0, d});
      REQUIRE(b.compute->synchronize());
      return out;
    };
    for (const backend& b : backends()) {
      CAPTURE(b.name);
      const tensor together = run(b, batch, seq, 0, documents.arrays());
      for (const auto& [first, count] : documents.list())
        CHECK(run(b, 1, count, first, {}).same_bits(together.part(first * width, count * width)));
    }
  }
}

TEST_CASE("activations equal the reference over their whole range") {
  for (dtype type : types) {
    for (activation_kind kind :
         {activation_kind::gelu_tanh, activation_kind::gelu_erf, activation_kind::swiglu}) {
      for (const auto& [n, f] : {norm_shape{37, 56}, {1, 1}, {40, 300}}) {
        const int64_t in = kind == activation_kind::swiglu ? 2 * f : f;
        auto x = tensor::random(type, n * in, 1, 12.0f);
        x.set(0, 0.0f);
        if (n > 1) x.set(1, -40.0f), x.set(2, 40.0f), x.set(3, -1e-6f);
        const auto dy = tensor::random(type, n * f, 2);
        tensor expected(type, n * f), y = expected, expected_dx(type, n * in), dx = expected_dx;
        const auto run = [&](ops& op, stream& s, tensor& out, tensor& grad) {
          op.activation_forward(s, {kind, n, f, type, x.data(), out.data()});
          op.activation_backward(s, {kind, n, f, type, x.data(), dy.data(), grad.data()});
        };
        on_reference([&](ops& op, stream& s) { run(op, s, expected, expected_dx); });
        on_every_backend([&](ops& op, stream& s) { run(op, s, y, dx); },
                         [&] {
                           CHECK_CLOSE(y, expected, tolerance_of(type, 1.5e-6));
                           CHECK_CLOSE(dx, expected_dx, tolerance_of(type, 2e-6));
                           y = tensor(type, n * f);
                           dx = tensor(type, n * in);
                         });
        tensor in_place = x;  // dx may take x's place
        on_every_backend(
            [&](ops& op, stream& s) {
              op.activation_backward(
                  s, {kind, n, f, type, in_place.data(), dy.data(), in_place.data()});
            },
            [&] {
              CHECK_CLOSE(in_place, expected_dx, tolerance_of(type, 2e-6));
              in_place = x;
            });
      }
    }
  }
}

TEST_CASE("the reference's activation slopes agree with finite differences") {
  for (activation_kind kind :
       {activation_kind::gelu_tanh, activation_kind::gelu_erf, activation_kind::swiglu}) {
    const int64_t f = 41, in = kind == activation_kind::swiglu ? 2 * f : f;
    tensor x = tensor::random(dtype::f32, in, 1, 5.0f), dx(dtype::f32, in);
    const auto dy = tensor::random(dtype::f32, f, 2);
    const auto objective = [&] {
      tensor y(dtype::f32, f);
      on_reference([&](ops& op, stream& s) {
        op.activation_forward(s, {kind, 1, f, dtype::f32, x.data(), y.data()});
      });
      double total = 0;
      for (int64_t i = 0; i < f; ++i) total += static_cast<double>(y.get(i)) * dy.get(i);
      return total;
    };
    on_reference([&](ops& op, stream& s) {
      op.activation_backward(s, {kind, 1, f, dtype::f32, x.data(), dy.data(), dx.data()});
    });
    for (int64_t i = 0; i < in; ++i) {
      const float keep = x.get(i), step = 1.0f / 128;
      x.set(i, keep + step);
      const double up = objective();
      x.set(i, keep - step);
      const double down = objective();
      x.set(i, keep);
      CHECK(std::abs((up - down) / (2.0 * static_cast<double>(step)) - dx.get(i)) < 1e-3);
    }
  }
}

TEST_CASE("cast rounds to nearest even, keeps infinities and NaN, add adds") {
  for (int64_t count : {1, 15, 16, 37, 10000}) {
    auto x = tensor::random(dtype::f32, count, 1, 100.0f);
    if (count > 15) {
      x.set(0, std::numeric_limits<float>::infinity());
      x.set(1, std::nanf(""));
      x.set(2, 1.00390625f);  // half way: down to even
      x.set(3, 1.01171875f);  // half way: up to even
      x.set(4, 3.4e38f);      // rounds up to infinity
      x.set(5, -0.0f);
    }
    tensor half(dtype::bf16, count), back(dtype::f32, count);
    on_every_backend(
        [&](ops& op, stream& s) {
          op.cast(s, {half.data(), dtype::bf16, x.data(), dtype::f32, count});
          op.cast(s, {back.data(), dtype::f32, half.data(), dtype::bf16, count});
        },
        [&] {
          for (int64_t i = 0; i < count; ++i) {
            const float want = bf16_to_float(float_to_bf16(x.get(i)));
            if (std::isnan(want)) {
              REQUIRE(std::isnan(back.get(i)));
            } else {
              REQUIRE(back.get(i) == want);
            }
          }
          CHECK(half.guarded());
          CHECK(back.guarded());
        });
    for (dtype type : types) {
      const auto u = tensor::random(type, count, 2), v = tensor::random(type, count, 3);
      tensor y = u;
      on_every_backend(
          [&](ops& op, stream& s) {
            op.add(s, {y.data(), v.data(), type, count});
          },
          [&] {
            for (int64_t i = 0; i < count; ++i) {
              const float want = u.get(i) + v.get(i);
              REQUIRE(y.get(i) == (type == dtype::f32 ? want : bf16_to_float(float_to_bf16(want))));
            }
            y = u;
          });
    }
  }
}
