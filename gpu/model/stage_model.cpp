// The stage's forward and backward pass; the layers' operations are in layer.cpp.
#include "gpu/model/stage_model.hpp"

#include <atomic>
#include <cassert>
#include <vector>

#include "gpu/model/rope_table.hpp"
#include "gpu/model/spill_layout.hpp"
#include "gpu/model/stage_memory.hpp"
#include "gpu/model/stage_weights.hpp"
#include "gpu/model/tensor_names.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::gpu {

class stage_model::impl {
 public:
  impl(device& owner, const model_config& model, const stage_shape& shape)
      : owner_(owner), model_(model), shape_(shape), plan_(plan_stage(model, shape)) {}

  /// Allocates and fills the constant tables.
  status set_up() {
    auto store = parameter_store::make(owner_, stage_chunks(model_, shape_),
                                       {.compute = shape_.compute,
                                        .training = shape_.training,
                                        .replica = shape_.replica,
                                        .rounding_seed = shape_.rounding_seed,
                                        .where = shape_.where});
    if (!store) return store.error();
    store_ = std::move(*store);
    const io::memory_holder holder("activations and workspace");
    auto arena = owner_.allocate(stage_memory::lay_out(model_, shape_, nullptr).total_bytes);
    if (!arena) return arena.error().within("activations");
    arena_ = std::make_shared<buffer>(std::move(*arena));
    memory_ = stage_memory::lay_out(model_, shape_, arena_->data());
    find_parameters();
    if (shape_.documents) {
      whole_first_.assign(static_cast<size_t>(shape_.tokens()), 0);
      whole_end_.assign(static_cast<size_t>(shape_.tokens()), static_cast<int32_t>(shape_.seq));
    }
    return fill_rope();
  }

  /// A layer's pass over a slot; `chunk`: its weights.
  layer_pass pass(stream& s, const slot_memory& at, int chunk) const {
    layer_pass p;
    p.s = &s;
    p.ops = &ops();
    p.model = &model_;
    p.type = shape_.compute;
    p.batch = shape_.micro_batch;
    p.seq = shape_.seq;
    p.documents = documents_of(at);
    p.cosine = memory_.cosine;
    p.sine = memory_.sine;
    p.weight_version = store_->weight_version(chunk);
    return p;
  }

  using batches = std::span<const micro_batch>;

  static row_documents documents_of(const slot_memory& at) {
    return {at.document_first, at.document_end};
  }

  /// Where a row begins anew, in a slot. SM-7.
  void set_documents(stream& s, slot_memory& at, const row_documents& given) {
    if (!shape_.documents) return;
    const size_t bytes = static_cast<size_t>(shape_.tokens()) * sizeof(int32_t);
    const bool whole = given.first == nullptr;
    s.copy(at.document_first, whole ? whole_first_.data() : given.first, bytes);
    s.copy(at.document_end, whole ? whole_end_.data() : given.end, bytes);
  }

  void embed(stream& s, const micro_batch& b) {
    if (!shape_.has_embedding) return;
    slot_memory& at = slot(b.slot);
    s.copy(at.tokens, b.tokens, static_cast<size_t>(shape_.tokens()) * sizeof(int32_t));
    fetch_weights(s, positions_);
    ops().embedding_forward(
        s, {shape_.micro_batch, shape_.seq, model_.hidden, model_.vocab, shape_.compute, at.tokens,
            table_.weight, positions_.weight, at.x[0], documents_of(at)});
  }

  /// The table's rows of these tokens; false: all of it.
  bool fetch_rows(stream& s, batches all) {
    if (!shape_.has_embedding) return false;
    std::vector<std::span<const int32_t>> ids;
    for (const auto& b : all) ids.emplace_back(b.tokens, static_cast<size_t>(shape_.tokens()));
    return store_->fetch_rows(s, table_.chunk, model_.hidden, ids);
  }

  /// Whether a pass is followed by its backward.
  enum class then : uint8_t { backward, nothing };

  /// Embedding and layers: slot.x.back() is the result. SM-6. Of a table whose rows came first the
  /// rest is awaited behind the layers: the head may be its second use, and who follows this pass
  /// changes what its update reads.
  void trunk(stream& s, batches all, then what) {
    const bool rows = fetch_rows(s, all);
    for (const auto& b : all) {
      set_documents(s, slot(b.slot), b.documents);
      embed(s, b);
    }
    for (size_t i = 0; i < layers_.size(); ++i) {
      store_->fetch_weights(s, layers_[i].chunk);
      for (size_t k = all.size(); k-- > 0;) {  // backward begins with what this ends with
        const auto& b = all[k];
        take_frame(s, b.slot, i);
        forward(s, slot(b.slot), i);
        leave_frame(s, b.slot, i, computes_again(i) ? then::nothing : what);
      }
      store_->release_weights(s, layers_[i].chunk);
    }
    if (rows) fetch_weights(s, table_);
  }

  /// Of a layer that spills, until somebody says otherwise, too (SM-8).
  activation_choice kept_of(size_t i) const {
    const bool spared = spills(i) && static_cast<int>(i) < spills_from_;
    return spared ? activation_choice::recompute : shape_.activations_of(i);
  }
  bool computes_again(size_t i) const { return gpu::computes_again(kept_of(i)); }
  bool spills(size_t i) const { return spill_.spills(static_cast<int>(i)); }
  void take_frame(stream& s, int slot, size_t i) {
    assert(!spills(i) || mover_ != nullptr);
    if (spills(i)) mover_->take_frame(s, slot, static_cast<int>(i));
  }
  void leave_frame(stream& s, int slot, size_t i, then what) {
    if (!spills(i)) return;
    if (what == then::backward)
      mover_->spill(s, slot, static_cast<int>(i));
    else
      mover_->release(s, slot, static_cast<int>(i));
  }
  void fetch_frame(stream& s, int slot, size_t i) {
    if (!spills(i)) return;
    if (computes_again(i))
      mover_->take_frame(s, slot, static_cast<int>(i));
    else
      mover_->fetch(s, slot, static_cast<int>(i));
  }

  void forward(stream& s, slot_memory& at, size_t i) {
    s.replay(key(at, i, direction::forward), [&] {
      forward_layer(pass(s, at, layers_[i].chunk), layers_[i].weights, at.x[i], at.layers[i],
                    at.x[i + 1]);
    });
  }

  /// Of the layer's output: the layer behind has left it there, as the head does.
  void* output_grad(const slot_memory& at, size_t i) const {
    const bool from_next_stage = i + 1 == layers_.size() && !shape_.has_head;
    return from_next_stage ? at.output_grad : at.gradient;
  }
  void* input_grad(const slot_memory& at, size_t i) const {
    return i == 0 && at.input_grad ? at.input_grad : at.gradient;
  }

  void backward(stream& s, slot_memory& at, size_t i) {
    const layer_parameters& layer = layers_[i];
    const auto kept = kept_of(i);
    const bool again = gpu::computes_again(kept);
    s.replay(key(at, i, again ? direction::again : direction::backward), [&] {
      const layer_pass p = pass(s, at, layer.chunk);
      if (again)  // SM-4
        recompute_layer(p, layer.weights, at.x[i], at.layers[i], kept == activation_choice::half);
      backward_layer(p, layer.weights, layer.gradients, at.x[i], at.layers[i], memory_.scratch,
                     output_grad(at, i), input_grad(at, i));
    });
  }

  /// PS-6, before anything is captured for replays. The ends of the model are released by nobody:
  /// they share no frame.
  void fetch_weights(stream& s, const matrix_parameters& read) {
    if (read.chunk >= 0) store_->fetch_weights(s, read.chunk);
  }

  /// PS-9. A tied table's gradient begins in the head.
  void fetch_gradient(stream& s, const matrix_parameters& added) {
    if (added.chunk >= 0) store_->fetch_gradient(s, added.chunk);
  }

  void final_norm(stream& s, const slot_memory& slot) {
    norm_forward_args a{};
    a.kind = model_.norm();
    a.tokens = shape_.tokens();
    a.width = model_.hidden;
    a.type = shape_.compute;
    a.eps = static_cast<float>(model_.norm_eps);
    a.x = slot.x.back();
    a.weight = norm_.weight;
    a.bias = norm_bias_.weight;
    a.y = memory_.final_normed;
    a.mean = slot.final_mean;
    a.rstd = slot.final_rstd;
    fetch_weights(s, norm_);
    ops().norm_forward(s, a);
  }

  void loss(stream& s, slot_memory& slot, const int32_t* targets, float scale, bool gradients) {
    s.copy(slot.targets, targets, static_cast<size_t>(shape_.tokens()) * sizeof(int32_t));
    head_loss_args a{};
    a.tokens = shape_.tokens();
    a.width = model_.hidden;
    a.vocab = model_.vocab;
    a.type = shape_.compute;
    a.x = memory_.final_normed;
    a.w = head_.weight;
    a.targets = slot.targets;
    a.scale = scale;
    a.loss_sum = memory_.loss_sum;
    a.dx = gradients ? slot.output_grad : nullptr;
    a.dw = gradients ? head_.gradient : nullptr;
    a.weight_version = store_->weight_version(head_.chunk);
    fetch_weights(s, head_);
    if (gradients) fetch_gradient(s, head_);
    ops().head_loss(s, a);
  }

  /// Final norm and loss of every micro-batch: they use the same final_normed one after the other.
  void head(stream& s, batches all, float scale, bool gradients) {
    if (!shape_.has_head) return;
    for (const auto& b : all) {
      final_norm(s, slot(b.slot));
      loss(s, slot(b.slot), b.targets, scale, gradients);
    }
  }

  /// The gradient of the last layer's output, to slot.gradient.
  void backward_head(stream& s, batches all, const chunk_done& done) {
    if (!shape_.has_head) return;
    fetch_gradient(s, norm_);
    for (const auto& b : all) {
      const slot_memory& at = slot(b.slot);
      ops().norm_backward(
          s, {model_.norm(), shape_.tokens(), model_.hidden, shape_.compute, at.output_grad,
              at.x.back(), norm_.weight, at.final_mean, at.final_rstd, nullptr, at.gradient,
              norm_.gradient, norm_bias_.gradient});
    }
    if (done) done(norm_.chunk);
    if (done && head_.chunk != norm_.chunk && !shape_.has_embedding) done(head_.chunk);
  }

  void backward_layers(stream& s, batches all, const chunk_done& done, const weights_done& leaves) {
    for (size_t i = layers_.size(); i-- > 0;) {
      store_->fetch_weights(s, layers_[i].chunk);
      store_->fetch_gradient(s, layers_[i].chunk);
      for (const auto& b : all) {
        fetch_frame(s, b.slot, i);
        backward(s, slot(b.slot), i);
        leave_frame(s, b.slot, i, then::nothing);
      }
      if (leaves) leaves(layers_[i].chunk);
      store_->release_weights(s, layers_[i].chunk);
      if (done) done(layers_[i].chunk);
    }
  }

  void backward_embedding(stream& s, batches all, const chunk_done& done) {
    if (!shape_.has_embedding) return;
    fetch_gradient(s, table_);
    fetch_gradient(s, positions_);
    for (const auto& b : all) {
      const slot_memory& at = slot(b.slot);
      ops().embedding_backward(
          s, {shape_.micro_batch, shape_.seq, model_.hidden, model_.vocab, shape_.compute,
              at.tokens, at.gradient, table_.gradient, positions_.gradient, documents_of(at)});
    }
    if (done && positions_.chunk >= 0) done(positions_.chunk);
    if (done) done(table_.chunk);
  }

  void head_rows(stream& s, int64_t first_row, int64_t rows, void* out) {
    const size_t row_bytes = static_cast<size_t>(model_.hidden) * size_of(shape_.compute);
    const auto* x = static_cast<const std::byte*>(memory_.final_normed) +
                    static_cast<size_t>(first_row) * row_bytes;
    fetch_weights(s, head_);
    ops().linear_forward(s, {rows, model_.hidden, model_.vocab, shape_.compute, x, head_.weight,
                             nullptr, nullptr, out, store_->weight_version(head_.chunk)});
  }

  enum class direction : uint8_t { forward, backward, again };  ///< again: and backward

  /// Names one layer's pass of one slot of this model, among all of the process.
  uint64_t key(const slot_memory& slot, size_t layer, direction way) const {
    const auto number = static_cast<uint64_t>(&slot - memory_.slots.data());
    return id_ << 40 | number << 24 | uint64_t{layer} << 2 | static_cast<uint64_t>(way);
  }

  slot_memory& slot(int number) {
    assert(number >= 0 && number < shape_.slots);
    return memory_.slots[static_cast<size_t>(number)];
  }

  gpu::ops& ops() const { return owner_.ops(); }

  static inline std::atomic<uint64_t> models_made_{0};

  device& owner_;
  const uint64_t id_ = ++models_made_;
  const model_config model_;
  const stage_shape shape_;
  const stage_plan plan_;
  std::unique_ptr<parameter_store> store_;
  std::shared_ptr<buffer> arena_;  ///< a disk may use what layers spill for longer than this
  stage_memory memory_;
  std::vector<int32_t> whole_first_, whole_end_;  ///< [B,T] of rows of one document each
  const spill_layout spill_{shape_};
  activation_mover* mover_ = nullptr;
  int spills_from_ = 0;  ///< layers before it do not, whatever the shape says
  std::vector<layer_parameters> layers_;
  matrix_parameters table_, positions_, norm_, norm_bias_, head_;

 private:
  void find_parameters() {
    for (int64_t i = shape_.first_layer; i < shape_.last_layer; ++i)
      layers_.push_back(find_layer(*store_, model_, i));
    if (shape_.has_embedding) {
      table_ = find_matrix(*store_, token_table_name(model_.family));
      if (model_.family == model_family::gpt2)
        positions_ = find_matrix(*store_, position_table_name());
    }
    if (shape_.has_head) {
      norm_ = find_matrix(*store_, final_norm_name(model_.family, false));
      if (model_.family == model_family::gpt2)
        norm_bias_ = find_matrix(*store_, final_norm_name(model_.family, true));
      head_ = find_head(*store_, model_);
    }
  }

  status fill_rope() {
    if (!memory_.cosine) return {};
    const rope_table table = make_rope_table(model_, shape_.seq);
    auto s = owner_.make_stream({.name = "set up"});
    if (!s) return s.error();
    (*s)->copy(memory_.cosine, table.cosine.data(), table.cosine.size() * sizeof(float));
    (*s)->copy(memory_.sine, table.sine.data(), table.sine.size() * sizeof(float));
    return (*s)->synchronize();
  }
};

stage_model::stage_model(std::unique_ptr<impl> body) : impl_(std::move(body)) {}
stage_model::~stage_model() = default;

result<std::unique_ptr<stage_model>> stage_model::make(device& owner, const model_config& model,
                                                       const stage_shape& shape) {
  TROUPE_CHECK(check(model, shape));
  auto body = std::make_unique<impl>(owner, model, shape);
  TROUPE_CHECK(body->set_up());
  return std::unique_ptr<stage_model>(new stage_model(std::move(body)));
}

const model_config& stage_model::config() const noexcept {
  return impl_->model_;
}
const stage_shape& stage_model::shape() const noexcept {
  return impl_->shape_;
}
const stage_plan& stage_model::plan() const noexcept {
  return impl_->plan_;
}
parameter_store& stage_model::store() noexcept {
  return *impl_->store_;
}

void* stage_model::input(int slot) const {
  return shape().has_embedding ? nullptr : impl_->slot(slot).x.front();
}

const void* stage_model::output(int slot) const {
  return shape().has_head ? nullptr : impl_->slot(slot).x.back();
}

const void* stage_model::input_grad(int slot) const {
  return impl_->slot(slot).input_grad;
}

void* stage_model::output_grad(int slot) const {
  return shape().has_head ? nullptr : impl_->slot(slot).output_grad;
}

size_t stage_model::boundary_bytes() const noexcept {
  return static_cast<size_t>(shape().tokens() * config().hidden) * size_of(shape().compute);
}

void stage_model::forward(stream& s, std::span<const micro_batch> batches, float scale) {
  assert(shape().training && (batches.size() == 1 || shape().by_layer));
  impl_->trunk(s, batches, impl::then::backward);
  impl_->head(s, batches, scale, true);
}

void stage_model::backward(stream& s, std::span<const micro_batch> batches, const chunk_done& done,
                           const weights_done& leaves) {
  assert(shape().training && (batches.size() == 1 || shape().by_layer));
  impl_->backward_head(s, batches, done);
  impl_->backward_layers(s, batches, done, leaves);
  impl_->backward_embedding(s, batches, done);
}

void stage_model::evaluate(stream& s, std::span<const micro_batch> batches) {
  assert(batches.size() == 1 || shape().by_layer);
  impl_->trunk(s, batches, impl::then::nothing);
  impl_->head(s, batches, 0.0f, false);
}

const double* stage_model::loss_sum() const noexcept {
  return impl_->memory_.loss_sum;
}

void stage_model::reset_loss(stream& s) {
  s.zero(impl_->memory_.loss_sum, sizeof(double));
}

int stage_model::tied_chunk() const noexcept {
  const bool split = shape().has_embedding != shape().has_head;
  return config().tied && split ? impl_->store_->find_chunk("embedding") : -1;
}

int stage_model::table_chunk() const noexcept {
  return impl_->table_.chunk;
}

void stage_model::set_activation_mover(activation_mover* mover) noexcept {
  impl_->mover_ = mover;
}

void stage_model::set_spills_from(int layer) noexcept {
  impl_->spills_from_ = layer;
}

std::span<const std::span<std::byte>> stage_model::spill_frames() const noexcept {
  return impl_->memory_.spill_frames;
}

std::shared_ptr<void> stage_model::spill_memory() const {
  return impl_->arena_;
}

stage_model::layer_memory stage_model::memory_of(int slot, int layer) const {
  const auto& memory = impl_->slot(slot);
  const auto i = static_cast<size_t>(layer);
  return {impl_->layers_[i].chunk, memory.x[i], impl_->output_grad(memory, i), memory.x[i + 1],
          impl_->input_grad(memory, i)};
}

void stage_model::run_layer(stream& s, int slot, int layer) {
  assert(shape().training);
  auto& memory = impl_->slot(slot);
  auto& store = *impl_->store_;
  const auto i = static_cast<size_t>(layer);
  const int chunk = impl_->layers_[i].chunk;
  store.fetch_weights(s, chunk);
  store.fetch_gradient(s, chunk);
  impl_->take_frame(s, slot, i);
  impl_->set_documents(s, memory, {});
  impl_->forward(s, memory, i);
  impl_->backward(s, memory, i);
  impl_->leave_frame(s, slot, i, impl::then::nothing);
  store.release_weights(s, chunk);
}

void stage_model::logits(stream& s, int slot, const int32_t* tokens, int64_t first_row,
                         int64_t rows, void* out) {
  assert(shape().has_embedding && shape().has_head);
  const micro_batch only{slot, tokens, nullptr};
  impl_->trunk(s, {&only, 1}, impl::then::nothing);
  impl_->final_norm(s, impl_->slot(slot));
  impl_->head_rows(s, first_row, rows, out);
}

}  // namespace troupe::gpu
