// A tiny model trained by one stage, some of which may be on disk, for tests.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/model/init.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/optim/optimizer.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "gpu/swap/spiller.hpp"
#include "gpu/swap/swapper.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu::testing {

/// What is trained, and how.
struct swap_case {
  model_config model = tiny_gpt2();
  dtype type = dtype::f32;
  int64_t group_elements = 2048;
  int groups = 2;
  bool shares_frames = true;  ///< of weights and gradients; else each chunk has its own
  bool speculates = false;    ///< there is a second version of each file
  bool starts = true;         ///< with first weights; else its state comes from a checkpoint
  optimizer_step_args::rule rule = optimizer_step_args::rule::adamw;
  bool spills = false;  ///< every layer does, where anything is on disk
  int replicas = 1;     ///< of which this is the first
  bool rows_first = false;  ///< of the token table, whose batch is another one each step
  residency where = {};     ///< empty: the least, by the members above
  bool derives_weights = false;           ///< SWP-18
  std::optional<uint64_t> rounding = {};  ///< of weights by chance, with this seed
  /// Of several, each another batch, updates come behind all of them, and gradients that share
  /// frames are on disk in between.
  int micro_batches = 1;
};

/// Trains without clipping, each chunk updated as soon as backward has passed it.
class swap_trainer {
 public:
  /// In memory where `swap` has no folder.
  swap_trainer(device& owner, const swap_case& c, swap_options swap)
      : rows_first_(c.rows_first), micro_batches_(c.micro_batches) {
    const uint32_t batches = c.rows_first || c.micro_batches > 1 ? 3 : 1;
    for (uint32_t salt = 1; salt <= batches; ++salt) tokens_.push_back(some(c, 10 * salt - 9));
    stage_shape shape = whole_model(c.model, rows, seq, c.type);
    shape.replica.ranks = c.replicas;
    shape.rounding_seed = c.rounding;
    const bool swaps = !swap.places.empty();
    if (swaps) {
      if (c.spills)
        shape.activations.assign(static_cast<size_t>(shape.layers()), activation_choice::spill);
      shape.where = least_residency(c.model, shape, {0, false, 1});
      shape.where.group_elements = c.group_elements;
      shape.where.groups_in_memory = c.groups;
      shape.where.speculates = c.speculates;
      shape.where.derives_weights = c.derives_weights;
      shape.where.gradients_on_disk = c.micro_batches > 1;
      for (auto& chunk : shape.where.chunks)
        if (!c.shares_frames) chunk.weight_frame = chunk.grad_frame = -1;
      if (!c.where.chunks.empty()) shape.where = c.where;
    }
    auto stage = stage_model::make(owner, c.model, shape);
    REQUIRE(stage);
    stage_ = std::move(*stage);
    if (swaps) {
      swap.failed = [this](const status& s) {
        std::lock_guard lock(mutex_);
        if (failure_) failure_ = s;
      };
      spill_options spilt;
      for (const auto& place : swap.places) spilt.files.push_back(place.folder / "activations");
      spilt.failed = swap.failed;
      auto made = swapper::make(store(), shape.where, std::move(swap));
      REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
      swap_ = std::move(*made);
      store().set_mover(swap_.get());
      spilt.wait = swap_->wait_for_room();
      if (c.spills) spill(owner, spilt);
    }
    if (c.starts) REQUIRE(initialize(store(), c.model, 42));
    optimizer_settings settings;
    settings.clip_norm = 0;
    settings.kind = c.rule;
    settings.norm_elements = c.group_elements;
    auto rule = optimizer::make(store(), settings);
    REQUIRE(rule);
    rule_ = std::move(*rule);
    auto s = owner.make_stream({});
    REQUIRE(s);
    stream_ = std::move(*s);
    targets_ = some(c, 2);
  }

  /// Enqueues one step.
  void enqueue_step(int64_t step) {
    if (micro_batches_ > 1) return enqueue_held_step(step);
    stream& s = *stream_;
    const std::array one{batch_of(step)};
    stage_->forward(s, one, 1.0f / static_cast<float>(rows * seq));
    rule_->clip(s);  // behind the forward pass, which waits for updates that read the factor before
    stage_->backward(s, one, [&](int chunk) {
      const bool moves = swap_ && store().options().where.of(chunk).state_on_disk;
      if (moves && rows_first_ && chunk == stage_->table_chunk())
        swap_->update_for_rows(s, *rule_, chunk, lr, step);
      else if (moves)
        swap_->update(s, *rule_, chunk, lr, step);
      else
        rule_->step(s, chunk, lr, step);
    });
  }

  /// The same of several micro-batches.
  void enqueue_held_step(int64_t step) {
    stream& s = *stream_;
    for (int m = 0; m < micro_batches_; ++m) {
      const std::array one{batch_of(step + m)};
      stage_->forward(s, one, 1.0f / static_cast<float>(rows * seq * micro_batches_));
      if (m == 0) rule_->clip(s);
      stage_->backward(s, one, [&](int chunk) {
        if (store().options().where.gradient_on_disk(chunk))
          swap_->store_gradient(s, chunk, m + 1 == micro_batches_);
      });
    }
    for (int c = 0; c < store().chunk_count(); ++c)
      swap_ ? swap_->update(s, *rule_, c, lr, step) : rule_->step(s, c, lr, step);
  }

  /// The same with updates that count only if they hold; else it is made once more.
  void enqueue_speculating_step(int64_t step, bool holds) {
    stream& s = *stream_;
    const std::array one{batch_of(step)};
    stage_->forward(s, one, 1.0f / static_cast<float>(rows * seq));
    rule_->allow_unclipped(s);
    stage_->backward(s, one, [&](int chunk) {
      swap_->update(s, *rule_, chunk, lr, step, counts::once_settled);
    });
    swap_->settle(s, [holds] { return holds; });
    if (holds) return;
    swap_->were_dropped();
    enqueue_step(step);
  }

  /// Waits for all that was enqueued, writes included, however it went.
  void wait() {
    static_cast<void>(stream_->synchronize());
    for (int c = 0; c < store().chunk_count(); ++c) store().await_state(*stream_, c);
    static_cast<void>(stream_->synchronize());
  }

  /// Trains and gives back every weight, moment and master.
  std::vector<float> train(int steps) {
    for (int i = 1; i <= steps; ++i) enqueue_step(i);
    REQUIRE(stream_->synchronize());
    return state();
  }

  std::vector<float> state() {
    std::vector<float> out;
    for (int c = 0; c < store().chunk_count(); ++c)
      for (const auto which : {part::master, part::m, part::v}) {
        std::vector<float> values(static_cast<size_t>(store().slice(c).count));
        REQUIRE(store().read(c, which, values.data()));
        out.insert(out.end(), values.begin(), values.end());
      }
    return out;
  }

  /// The sum of all passes' so far, once they are over.
  double losses() const { return *stage_->loss_sum(); }

  /// Enqueues the forward pass of a step alone.
  void enqueue_evaluation(int64_t step) {
    const std::array one{batch_of(step)};
    stage_->evaluate(*stream_, one);
  }

  /// As of the next step, layers before that one compute again what they would spill.
  void spill_from(int layer) { stage_->set_spills_from(layer); }

  parameter_store& store() { return stage_->store(); }
  swapper& swap() { return *swap_; }
  optimizer& rule() { return *rule_; }
  stream& compute() { return *stream_; }
  status failure() {
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void spill(device& owner, const spill_options& how) {
    auto made = spiller::make(owner, *stage_, swap_->io(), how);
    REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
    spill_ = std::move(*made);
    stage_->set_activation_mover(spill_.get());
  }

  stage_model::micro_batch batch_of(int64_t step) const {
    const auto& tokens = tokens_[static_cast<size_t>(step) % tokens_.size()];
    return {0, tokens.data(), targets_.data()};
  }

  static constexpr int64_t rows = 2, seq = 7;
  static constexpr float lr = 1e-2f;
  static std::vector<int32_t> some(const swap_case& c, uint32_t salt) {
    return some_tokens(rows * seq, c.model.vocab, salt);
  }

  const bool rows_first_;
  const int micro_batches_;
  std::vector<std::vector<int32_t>> tokens_;  ///< of steps, in turn
  std::vector<int32_t> targets_;
  std::mutex mutex_;
  status failure_;  ///< guarded by mutex_
  std::unique_ptr<stage_model> stage_;
  std::unique_ptr<optimizer> rule_;
  std::unique_ptr<swapper> swap_;
  std::unique_ptr<spiller> spill_;
  std::unique_ptr<stream> stream_;
};

}  // namespace troupe::gpu::testing
