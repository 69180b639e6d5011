// A few steps of a whole model on a device, and how far two right devices may lie apart.
//
// Why measured: in float32 two orders of a sum differ in their last digits, and a fixed bound does.
// In bfloat16 every weight and activation is rounded to 8 bits; where sums differ in their last
// digit (VDPBF16PS rounds once for a pair of products and takes denormals for zero, tiles and
// fused multiply-adds round each, the reference rounds none) some of them fall to the other side,
// and each update carries that on. How much it comes to depends on the model, the step and the
// loss's own curvature: a share of the loss that fits the first step is too small when the loss
// has fallen to a tenth. So the same training is run with the rounding of its weights drawn anew,
// several times: what those runs differ by is rounding's doing, and what two right devices may
// differ by.
#pragma once

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/model/init.hpp"
#include "tests/gpu/local_trainer.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu::testing {

constexpr int64_t run_rows = 2, run_seq = 21;
constexpr int run_steps = 5;

/// What a run came to.
struct run_outcome {
  std::vector<double> losses, norms;  ///< by step
  std::vector<float> weights;         ///< masters in the end
};

/// Every master weight of the trainer's stages, one after the other.
inline std::vector<float> masters(local_trainer& trainer) {
  std::vector<float> out;
  for (size_t i = 0; i < trainer.stage_count(); ++i) {
    parameter_store& store = trainer.stage(i).store();
    for (int c = 0; c < store.chunk_count(); ++c) {
      std::vector<float> chunk(static_cast<size_t>(store.info(c).count));
      REQUIRE(store.read(c, part::master, chunk.data()));
      out.insert(out.end(), chunk.begin(), chunk.end());
    }
  }
  return out;
}

/// Moves each master by at most half of what bfloat16 resolves, by chance: another rounding of the
/// same weights.
inline void draw_rounding(local_trainer& trainer, uint32_t draw) {
  uint32_t x = 2463534242u ^ (draw * 2654435761u);
  for (size_t i = 0; i < trainer.stage_count(); ++i) {
    parameter_store& store = trainer.stage(i).store();
    for (int c = 0; c < store.chunk_count(); ++c) {
      std::vector<float> chunk(static_cast<size_t>(store.info(c).count));
      REQUIRE(store.read(c, part::master, chunk.data()));
      for (float& w : chunk) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        const float share = static_cast<float>(x) * 0x1p-31f - 1;  // in [-1, 1)
        w += share * std::ldexp(1.0f, std::ilogb(w == 0 ? 1e-30f : w) - 8);
      }
      REQUIRE(store.write(c, part::master, chunk.data()));
    }
  }
}

/// Trains on the same tokens every step; `draw` > 0: with another rounding of the first weights.
inline run_outcome train_steps(device& owner, const model_config& model, local_options options,
                               uint32_t draw = 0) {
  options.micro_batch = run_rows / options.micro_batches;
  options.seq = run_seq;
  auto made = local_trainer::make(owner, model, options);
  REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
  auto& trainer = **made;
  for (size_t i = 0; i < trainer.stage_count(); ++i)
    REQUIRE(initialize(trainer.stage(i).store(), model, 42));
  if (draw > 0) draw_rounding(trainer, draw);
  const auto tokens = some_tokens(run_rows * run_seq, model.vocab, 1);
  const auto targets = some_tokens(run_rows * run_seq, model.vocab, 2);
  run_outcome out;
  for (int i = 0; i < run_steps; ++i) {
    auto step = trainer.step(tokens.data(), targets.data(), 1e-3f);
    REQUIRE_MESSAGE(step, (step ? std::string() : render(step.error())));
    out.losses.push_back(step->loss);
    out.norms.push_back(step->norm);
  }
  out.weights = masters(trainer);
  return out;
}

/// How far two runs may lie apart, absolute.
struct run_bounds {
  std::vector<double> losses, norms;  ///< by step
  double weights = 0;                 ///< root of the mean square
};

/// For float32: shares of what is compared.
inline run_bounds float_bounds(const run_outcome& want) {
  run_bounds out;
  for (double loss : want.losses) out.losses.push_back(1e-5 * loss);
  for (double norm : want.norms) out.norms.push_back(1e-4 * norm);
  out.weights = 1e-4;
  return out;
}

/// The root of the mean square of differences.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

/// For bfloat16: from runs on the host whose weights were rounded anew. Two runs of deviation s lie
/// sqrt(2) s apart on average; four times that is chance's limit, and half as much again what so
/// few runs may be wrong about s.
inline run_bounds rounding_bounds(const model_config& model, const local_options& options) {
  constexpr uint32_t draws = 12;
  constexpr double most = 1.5 * 4 * 1.4142135623730951;
  auto host = make_host_device(1);
  std::vector<run_outcome> runs;
  for (uint32_t draw = 1; draw <= draws; ++draw)
    runs.push_back(train_steps(*host, model, options, draw));
  const auto deviation = [&](auto member, size_t step) {
    double mean = 0, squares = 0;
    for (const auto& run : runs) mean += (run.*member)[step] / draws;
    for (const auto& run : runs) squares += std::pow((run.*member)[step] - mean, 2);
    return std::sqrt(squares / (draws - 1));
  };
  run_bounds out;
  for (size_t i = 0; i < run_steps; ++i) {
    out.losses.push_back(most * deviation(&run_outcome::losses, i));
    out.norms.push_back(most * deviation(&run_outcome::norms, i));
  }
  for (size_t i = 1; i < runs.size(); ++i)
    out.weights = std::max(out.weights, 2 * distance(runs[i].weights, runs[0].weights));
  return out;
}

/// AdamW's first steps go by the sign of a gradient, and that of a tiny one is rounding's to say:
/// single weights may differ by a step, most may not.
inline void check_runs(const run_outcome& got, const run_outcome& want, const run_bounds& bounds) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got.losses[i] - want.losses[i]) <= bounds.losses[i]);
    CHECK(std::abs(got.norms[i] - want.norms[i]) <= bounds.norms[i]);
  }
  CHECK(distance(got.weights, want.weights) <= bounds.weights);
  CHECK(want.losses.back() < want.losses.front());
}

/// With room for the rows of these runs.
inline model_config longer(model_config m) {
  m.max_positions = 32;
  return m;
}

/// Heads of 64, grouped, so that the tensor cores' kernels are taken.
inline model_config wide(model_config m) {
  m.layers = 2;
  m.heads = 2;
  m.kv_heads = m.family == model_family::gpt2 ? 2 : 1;
  m.head_width = 64;
  m.hidden = 128;
  m.ffn = 160;
  m.vocab = 67;
  m.max_positions = 32;
  m.init_std = 0.1;
  return m;
}

inline local_options run_options(dtype compute) {
  local_options o;
  o.compute = compute;
  o.optimizer.clip_norm = 1.0f;
  o.optimizer.weight_decay = 0.1f;
  return o;
}

}  // namespace troupe::gpu::testing
