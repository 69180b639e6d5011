// What layers keep of a forward pass for their backward: any choice for each of them comes to the
// same bits (SM-4), holds the bytes that the plan says, and makes no product that it need not make.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "gpu/model/init.hpp"
#include "gpu/model/layer.hpp"
#include "gpu/model/stage_memory.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/model/stage_weights.hpp"
#include "gpu/swap/spiller.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/gpu/document_rows.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu {

namespace {

using choices = std::vector<activation_choice>;
using testing::some_tokens;

constexpr int64_t rows_each = 2, row_tokens = 7;

/// Every family in every form of a block.
std::vector<model_config> layer_kinds() {
  std::vector<model_config> out;
  for (const auto block : {block_form::sequential, block_form::shared_norm, block_form::two_norms})
    for (auto model : {testing::tiny_gpt2(), testing::tiny_llama()}) {
      model.block = block;
      model.layers = 5;
      out.push_back(model);
    }
  return out;
}

choices drawn(int64_t layers, uint32_t seed) {
  std::mt19937 random(seed);
  choices out;
  for (int64_t i = 0; i < layers; ++i)
    out.push_back(static_cast<activation_choice>(std::uniform_int_distribution(0, 3)(random)));
  return out;
}

/// On a drive that answers when and how it likes; none where no layer spills.
std::unique_ptr<spiller> spiller_of(device& owner, stage_model& stage, unsigned seed) {
  if (stage.shape().spilling().empty()) return nullptr;
  io::swap_io_options options;
  options.piece_bytes = io::disk_block;
  options.depth = 3;
  options.open_disk = [seed](size_t depth) -> result<std::unique_ptr<io::disk>> {
    io::faulty_options how;
    how.seed = seed;
    how.reorder = true;
    how.short_move = 0.2;
    how.depth = depth;
    return std::unique_ptr<io::disk>(
        std::make_unique<io::faulty_disk>(io::crash_store::make(uint64_t{64} << 20), how));
  };
  auto io = io::swap_io::make(options);
  REQUIRE(io);
  auto made = spiller::make(owner, stage, std::move(*io), {{"/activations", "/second"}});
  REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
  stage.set_activation_mover(made->get());
  return std::move(*made);
}

std::string names_of(const choices& all) {
  std::string out;
  for (const auto c : all) out += fmt::format("{} ", to_string(c));
  return out;
}

/// How the micro-batches of a step go through a stage.
struct step_order {
  int micro_batches;
  bool by_layer;
  int ahead = 1;  ///< where not by_layer: forwards before their backward, as "1F1B" has them
  bool documents = false;  ///< rows hold several, in each micro-batch others
};

constexpr int32_t some_end = 4;  // ends documents in each micro-batch

struct trained {
  std::vector<std::byte> bytes;  ///< of the loss and of all gradients
  bool operator==(const trained&) const = default;
};

void add_bytes(trained& to, const void* from, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  to.bytes.insert(to.bytes.end(), first, first + bytes);
}

/// Both passes of a step.
void make_passes(stage_model& stage, stream& s, const step_order& order,
                 std::span<const stage_model::micro_batch> step) {
  if (order.by_layer) {
    stage.forward(s, step, 0.125f);
    stage.backward(s, step);
  }
  for (size_t begun = 0, done = 0; !order.by_layer && done < step.size(); ++done) {
    for (; begun < step.size() && begun < done + static_cast<size_t>(order.ahead); ++begun)
      stage.forward(s, step.subspan(begun, 1), 0.125f);
    stage.backward(s, step.subspan(done, 1));
  }
}

/// Forward and backward of a step of a model whose layers keep what `kept` says; empty: everything.
/// Several steps, whose gradients add up, with those that spill from another layer on in each.
trained train(device& owner, const model_config& model, dtype type, const step_order& order,
              const choices& kept, const std::vector<int>& spills_from = {0}) {
  auto shape = whole_model(model, rows_each, row_tokens, type);
  shape.by_layer = order.by_layer;
  shape.slots = order.by_layer ? order.micro_batches : order.ahead;
  shape.activations = kept;
  shape.documents = order.documents;
  auto stage = stage_model::make(owner, model, shape);
  REQUIRE(stage);
  const auto spill = spiller_of(owner, **stage, static_cast<unsigned>(order.micro_batches));
  REQUIRE(initialize((*stage)->store(), model, 42));
  auto s = owner.make_stream({});
  REQUIRE(s);
  const auto each = static_cast<size_t>(shape.tokens());
  const auto count = each * static_cast<size_t>(order.micro_batches);
  const auto tokens = some_tokens(count, model.vocab, 1),
             targets = some_tokens(count, model.vocab, 2);
  const testing::document_rows documents(tokens, row_tokens, some_end);
  std::vector<stage_model::micro_batch> all;
  for (size_t i = 0; i < static_cast<size_t>(order.micro_batches); ++i)
    all.push_back({static_cast<int>(i) % static_cast<int>(shape.slots), &tokens[each * i],
                   &targets[each * i],
                   order.documents ? documents.from(each * i) : row_documents{}});
  for (const int from : spills_from) {
    (*stage)->set_spills_from(from);
    make_passes(**stage, **s, order, all);
  }
  REQUIRE((**s).synchronize());
  trained out;
  add_bytes(out, (*stage)->loss_sum(), sizeof(double));
  auto& store = (*stage)->store();
  for (int c = 0; c < store.chunk_count(); ++c)
    add_bytes(out, store.grad(c), store.bytes(c, part::grad));
  return out;
}

constexpr std::array step_orders{step_order{1, false},         step_order{4, true},
                                 step_order{4, false},         step_order{4, false, 3},
                                 step_order{4, true, 1, true}, step_order{4, false, 3, true}};

/// A layer's activations in memory of their own, all of it NaN at first.
struct layer_room {
  layer_activations acts;
  std::vector<float> memory;

  layer_room(const model_config& model, int64_t batch, int64_t seq) {
    const auto bytes = lay_out_layer(model, batch, seq, dtype::f32, nullptr, acts);
    memory.assign(bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    lay_out_layer(model, batch, seq, dtype::f32, memory.data(), acts);
  }
};

/// SM-4
void check_choices(device& owner, uint32_t seed) {
  for (const auto& model : layer_kinds())
    for (const auto type : {dtype::f32, dtype::bf16})
      for (const auto& order : step_orders) {
        const auto kept = train(owner, model, type, order, {});
        for (const auto choice : {activation_choice::recompute, activation_choice::half,
                                  activation_choice::keep, activation_choice::spill})
          CHECK(train(owner, model, type, order, choices(5, choice)) == kept);
        for (int i = 0; i < 4; ++i) {
          const auto some = drawn(model.layers, ++seed);
          INFO("block " << static_cast<int>(model.block) << ", family "
                        << static_cast<int>(model.family) << ", " << order.micro_batches
                        << " micro-batches, by layer " << order.by_layer << ", documents "
                        << order.documents << ": " << names_of(some));
          CHECK(train(owner, model, type, order, some) == kept);
        }
      }
}

}  // namespace

TEST_CASE("SM-4: whatever each layer keeps, loss and gradients have the same bits: reference") {
  check_choices(*make_reference_device(), 0);
}

TEST_CASE("SM-4: whatever each layer keeps, loss and gradients have the same bits: host") {
  check_choices(*make_host_device(2), 1000);
}

TEST_CASE("SM-8: whichever layers compute again what they spill, step by step, bits are the same") {
  using enum activation_choice;
  auto owner = make_host_device(2);
  const std::vector<int> turns{0, 3, 5, 1, 0, 4};
  const choices all(5, spill), some{spill, half, spill, spill, keep};
  for (const auto& model : layer_kinds())
    for (const auto type : {dtype::f32, dtype::bf16})
      for (const auto& order : step_orders) {
        INFO("block " << static_cast<int>(model.block) << ", family "
                      << static_cast<int>(model.family) << ", " << order.micro_batches
                      << " micro-batches, by layer " << order.by_layer);
        const auto kept = train(*owner, model, type, order, {}, std::vector<int>(turns.size()));
        CHECK(train(*owner, model, type, order, all, turns) == kept);
        CHECK(train(*owner, model, type, order, some, turns) == kept);
      }
}

TEST_CASE("SM-4: where x + attention is kept, neither its product nor the last one is made again") {
  constexpr int64_t seq = 5;
  for (const auto& model : layer_kinds()) {
    if (model.block != block_form::sequential) continue;
    auto owner = make_reference_device();
    auto stage = stage_model::make(*owner, model, whole_model(model, 1, seq, dtype::f32));
    REQUIRE(stage);
    REQUIRE(initialize((*stage)->store(), model, 7));
    auto s = owner->make_stream({});
    REQUIRE(s);
    const auto weights = find_layer((*stage)->store(), model, 1).weights;
    const std::vector<float> turns(static_cast<size_t>(seq * model.head_width / 2), 0.5f);
    layer_pass pass;
    pass.s = s->get();
    pass.ops = &owner->ops();
    pass.model = &model;
    pass.batch = 1;
    pass.seq = seq;
    pass.cosine = pass.sine = turns.data();
    std::vector<float> x(static_cast<size_t>(seq * model.hidden)), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    layer_room first(model, 1, seq), again(model, 1, seq);
    forward_layer(pass, weights, x.data(), first.acts, y.data());
    REQUIRE((**s).synchronize());
    // What is made again with these would not be a number.
    const std::vector<float> nothing(static_cast<size_t>((*stage)->store().info(2).count),
                                     std::numeric_limits<float>::quiet_NaN());
    auto without = weights;
    without.o = without.down = nothing.data();
    std::memcpy(again.acts.middle, first.acts.middle, x.size() * sizeof(float));
    recompute_layer(pass, without, x.data(), again.acts, true);
    REQUIRE((**s).synchronize());
    CHECK(std::memcmp(first.memory.data(), again.memory.data(),
                      first.memory.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("the plan counts what each layer keeps") {
  for (const auto& model : layer_kinds())
    for (const auto type : {dtype::f32, dtype::bf16}) {
      auto shape = whole_model(model, rows_each, row_tokens, type);
      shape.slots = 3;
      const auto bytes_of = [&](const choices& kept) {
        shape.activations = kept;
        return plan_stage(model, shape);
      };
      const choices none(5, activation_choice::recompute);
      auto one_half = none, one_kept = none;
      one_half[3] = activation_choice::half;
      one_kept[3] = activation_choice::keep;
      const bool has_middle = model.block == block_form::sequential;
      const auto middle = static_cast<uint64_t>(shape.tokens() * model.hidden) * size_of(type);
      layer_activations unused;
      const auto whole = lay_out_layer(model, rows_each, row_tokens, type, nullptr, unused);
      const auto least = bytes_of(none);
      CHECK(bytes_of(one_half).activations_per_slot - least.activations_per_slot ==
            (has_middle ? (middle + 63) / 64 * 64 : 0));
      CHECK(bytes_of(one_kept).activations_per_slot - least.activations_per_slot == whole);
      CHECK(bytes_of(one_kept).workspace == least.workspace);
      CHECK(bytes_of(choices(5, activation_choice::keep)).workspace + whole == least.workspace);
      auto one_spilt = none;
      one_spilt[3] = activation_choice::spill;
      const auto spilt = bytes_of(one_spilt), all = bytes_of(choices(5, activation_choice::spill));
      CHECK(spilt.activations_per_slot == least.activations_per_slot);
      CHECK(spilt.workspace >= least.workspace + 2 * whole);
      CHECK(spilt.workspace < least.workspace + 2 * frame_size(whole) + 2 * io::disk_block);
      CHECK(all.workspace + whole <= spilt.workspace + io::disk_block);
      CHECK(spilt.spill_bytes == 3 * frame_size(whole));
      CHECK(all.spill_bytes == 15 * frame_size(whole));
      CHECK(all.on_disk == all.spill_bytes);
      CHECK(least.spill_bytes == 0);
      shape.recompute = true;
      CHECK(bytes_of({}).total() == least.total());
      shape.recompute = false;
      CHECK(bytes_of({}).total() == bytes_of(choices(5, activation_choice::keep)).total());
    }
}

TEST_CASE("a choice for some layers only is no shape of a stage") {
  const auto model = testing::tiny_gpt2();
  auto shape = whole_model(model, 1, row_tokens, dtype::f32);
  shape.activations.assign(2, activation_choice::half);
  const auto refused = check(model, shape);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_config);
  shape.activations.push_back(activation_choice::keep);
  CHECK(check(model, shape));
}

}  // namespace troupe::gpu
