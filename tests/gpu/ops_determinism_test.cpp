// DEV-5 and OPS-2: the same operations on the same number of threads give the same bits, every
// time.
#include "tests/gpu/ops_support.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

constexpr int64_t B = 2, T = 70, C = 64, H = 4, K = 2, D = 16, V = 251, N = B * T;

/// Everything a small step computes, whose bits are compared.
struct step_results {
  tensor y, dx, dw, db, attention, lse, dqkv, dnorm, dnorm_w, dnorm_b, head_dx, head_dw, d_table,
      d_positions;
  shared_value<double> loss = 0.0, norm = 0.0;

  explicit step_results(dtype type)
      : y(type, N * C),
        dx(type, N * C),
        dw(tensor::constant(dtype::f32, C * C, 0)),
        db(tensor::constant(dtype::f32, C, 0)),
        attention(type, N * H * D),
        lse(dtype::f32, B * H * T),
        dqkv(type, N * (H + 2 * K) * D),
        dnorm(type, N * C),
        dnorm_w(tensor::constant(dtype::f32, C, 0)),
        dnorm_b(dnorm_w),
        head_dx(type, N * C),
        head_dw(tensor::constant(dtype::f32, V * C, 0)),
        d_table(tensor::constant(dtype::f32, V * C, 0)),
        d_positions(tensor::constant(dtype::f32, T * C, 0)) {}

  bool same_bits(const step_results& o) const {
    return y.same_bits(o.y) && dx.same_bits(o.dx) && dw.same_bits(o.dw) && db.same_bits(o.db) &&
           attention.same_bits(o.attention) && lse.same_bits(o.lse) && dqkv.same_bits(o.dqkv) &&
           dnorm.same_bits(o.dnorm) && dnorm_w.same_bits(o.dnorm_w) &&
           dnorm_b.same_bits(o.dnorm_b) && head_dx.same_bits(o.head_dx) &&
           head_dw.same_bits(o.head_dw) && d_table.same_bits(o.d_table) &&
           d_positions.same_bits(o.d_positions) && loss == o.loss && norm == o.norm;
  }
};

step_results run(ops& op, stream& s, dtype type, const row_documents& documents) {
  step_results r(type);
  const auto x = tensor::random(type, N * C, 1), w = tensor::random(type, V * C, 2);
  const auto dy = tensor::random(type, N * C, 3), qkv = tensor::random(type, r.dqkv.count(), 4);
  const auto dout = tensor::random(type, N * H * D, 5), mean = tensor::random(dtype::f32, N, 6);
  shared_vector<int32_t> tokens;
  random_numbers numbers(7);
  for (int64_t i = 0; i < N; ++i) tokens.push_back(static_cast<int32_t>(numbers.below(V)));
  tensor mean_copy = mean;
  op.linear_forward(s, {.tokens = N,
                        .in = C,
                        .out = C,
                        .type = type,
                        .x = x.data(),
                        .w = w.data(),
                        .y = r.y.data()});
  op.linear_backward_input(s, {.tokens = N,
                               .in = C,
                               .out = C,
                               .type = type,
                               .dy = dy.data(),
                               .w = w.data(),
                               .dx = r.dx.data()});
  op.linear_backward_weight(s, {N, C, C, type, dy.data(), x.data(), r.dw.floats(), r.db.floats()});
  op.attention_forward(
      s, {B, T, H, K, D, 0, type, qkv.data(), r.attention.data(), r.lse.floats(), documents});
  op.attention_backward(s, {B, T, H, K, D, 0, type, qkv.data(), r.attention.data(), r.lse.floats(),
                            dout.data(), r.dqkv.data(), documents});
  op.norm_backward(
      s, {norm_kind::layer, N, C, type, dy.data(), x.data(), w.data(), mean_copy.floats(),
          mean_copy.floats(), nullptr, r.dnorm.data(), r.dnorm_w.floats(), r.dnorm_b.floats()});
  op.head_loss(s, {N, C, V, type, x.data(), w.data(), tokens.data(), 0.1f, r.loss.data(),
                   r.head_dx.data(), r.head_dw.floats()});
  op.embedding_backward(s, {B, T, C, V, type, tokens.data(), dy.data(), r.d_table.floats(),
                            r.d_positions.floats(), documents});
  const parameter_span span{0, V * C, true};
  op.norm_squared(s, {r.head_dw.floats(), &span, 1, r.norm.data(), nullptr});
  REQUIRE(s.synchronize());
  return r;
}

}  // namespace

TEST_CASE("DEV-5: the same bits twice, and on another stream") {
  const parted_rows parted(T, {{1, 30, 64}, {}});
  for (const backend& b : backends()) {
    CAPTURE(b.name);
    for (int mode = 0; mode < 4; ++mode) {
      const dtype type = mode & 1 ? dtype::bf16 : dtype::f32;
      const row_documents documents = mode & 2 ? parted.arrays() : row_documents{};
      auto first = std::move(*b.owner->make_stream(b.options));
      auto second = std::move(*b.owner->make_stream(b.options));
      const step_results once = run(*b.ops, *first, type, documents);
      for (int round = 0; round < (b.slow ? 1 : 3); ++round) {
        CHECK(run(*b.ops, *first, type, documents).same_bits(once));
        CHECK(run(*b.ops, *second, type, documents).same_bits(once));
      }
    }
  }
}
