// What operations take beside the stage's plan is what was planned for them, or less.
#include "gpu/host/scratch_plan.hpp"

#include <array>

#include <doctest/doctest.h>

#include "gpu/back_end.hpp"
#include "gpu/host/memory.hpp"
#include "gpu/model/init.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/optim/optimizer.hpp"
#include "io/base/memory_account.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/model_samples.hpp"

using namespace troupe;
using namespace troupe::gpu;

namespace {

/// Bytes that are held under names of scratch.
uint64_t scratch_held() {
  uint64_t out = 0;
  for (const auto& h : io::process_memory().held().holders)
    if (h.holder.starts_with("scratch of")) out += h.bytes;
  return out;
}

/// Of a step with its norm and update.
uint64_t scratch_of_step(const model_config& model, int64_t batch, int64_t seq, dtype type,
                         int threads) {
  const auto before = scratch_held();
  auto device = open_device("host", threads);
  REQUIRE(device);
  auto stage = stage_model::make(**device, model, whole_model(model, batch, seq, type));
  REQUIRE(stage);
  auto& store = (*stage)->store();
  REQUIRE(initialize(store, model, 1));
  optimizer_settings settings;
  auto rule = optimizer::make(store, settings);
  REQUIRE(rule);
  auto s = (*device)->make_stream({});
  REQUIRE(s);
  const auto tokens = testing::some_tokens(batch * seq, model.vocab, 1);
  const auto targets = testing::some_tokens(batch * seq, model.vocab, 2);
  const std::array one{stage_model::micro_batch{0, tokens.data(), targets.data()}};
  (*stage)->forward(**s, one, 1.0f);
  (*stage)->backward(**s, one, [](int) {});
  (*rule)->begin(**s);
  for (int c = 0; c < store.chunk_count(); ++c) (*rule)->norm(**s, c);
  (*rule)->clip(**s);
  for (int c = 0; c < store.chunk_count(); ++c) (*rule)->step(**s, c, 1e-3f, 1);
  REQUIRE((*s)->synchronize());
  return scratch_held() - before;
}

}  // namespace

TEST_CASE("scratch: a step takes no more of it than is planned, and not much less") {
  auto wide = testing::tiny_gpt2();
  wide.hidden = 256, wide.heads = 4, wide.head_width = 64, wide.ffn = 1024, wide.vocab = 5000;
  wide.kv_heads = 4;
  auto deep = testing::tiny_llama();
  deep.hidden = 64, deep.heads = 4, deep.kv_heads = 2, deep.head_width = 16, deep.ffn = 4100;
  for (auto model : {testing::tiny_gpt2(), testing::tiny_llama(), wide, deep})
    for (const auto type : {dtype::f32, dtype::bf16})
      for (const int threads : {1, 3}) {
        model.max_positions = 64;
        CAPTURE(model.hidden);
        CAPTURE(model.vocab);
        CAPTURE(threads);
        const int64_t batch = 2, seq = 33;
        const auto taken = scratch_of_step(model, batch, seq, type, threads);
        const auto planned = host::scratch_bytes(model, {batch, seq, type, true, threads});
        CHECK(taken <= planned);
        CHECK(planned <= 2 * taken + (uint64_t{2} << 20));
      }
}

TEST_CASE("scratch: a stream that makes norms of gradients takes no more of it than is planned") {
  auto wide = testing::tiny_gpt2();
  wide.hidden = 256, wide.heads = wide.kv_heads = 4, wide.head_width = 64, wide.vocab = 300'000;
  for (const auto& model : {testing::tiny_gpt2(), wide}) {
    auto device = open_device("host", 3);
    REQUIRE(device);
    auto store = parameter_store::make(
        **device, stage_chunks(model, whole_model(model, 1, 8, dtype::bf16)), {});
    REQUIRE(store);
    auto rule = optimizer::make(**store, {});
    REQUIRE(rule);
    auto s = (*device)->make_stream({"norms", 1});
    REQUIRE(s);
    const auto before = scratch_held();
    for (int c = 0; c < (*store)->chunk_count(); ++c) (*rule)->note_norm(**s, c);
    REQUIRE((*s)->synchronize());
    const auto taken = scratch_held() - before;
    CHECK(taken > 0);
    CHECK(taken <= host::norm_scratch_bytes(model));
  }
}

TEST_CASE("scratch: what operations take is booked under its name, and refused beyond the budget") {
  constexpr uint64_t mib = 1 << 20;
  auto& account = io::process_memory();
  const auto before = scratch_held();
  {
    host::scratch_memory scratch;
    REQUIRE(scratch.get(3 * mib) != nullptr);
    const auto taken = scratch_held() - before;
    CHECK(taken >= 3 * mib);
    const auto limit = account.limit_to(account.held().held_bytes + 2 * mib);
    CHECK(scratch.get(3 * mib) != nullptr);
    error why;
    try {
      scratch.get(8 * mib);
    } catch (const io::memory_refused& e) {
      why = e.why;
    }
    CHECK(why.code == errc::no_memory);
    CHECK(is_error(why, io::memory_used_up));
  }
  CHECK(scratch_held() == before);
}
