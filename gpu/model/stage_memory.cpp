// The arena's layout and the plan made from it.
#include "gpu/model/stage_memory.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "gpu/model/spill_layout.hpp"

namespace troupe::gpu {

namespace {

/// Hands out aligned pieces of an arena that may not exist yet.
class arena {
 public:
  explicit arena(void* base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  template <class T>
  T* take(int64_t elements, size_t element_bytes = sizeof(T)) {
    const uintptr_t at = base_ + used_;
    used_ += (static_cast<size_t>(elements) * element_bytes + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  void* take(int64_t elements, dtype type) { return take<char>(elements, size_of(type)); }
  /// What is taken next begins a block of a disk.
  std::byte* begin_block() {
    used_ = frame_size(used_);
    return reinterpret_cast<std::byte*>(base_ + used_);
  }
  size_t used() const { return used_; }

 private:
  uintptr_t base_;
  size_t used_ = 0;
};

layer_activations take_layer(const model_config& model, int64_t batch, int64_t seq, dtype type,
                             arena& memory) {
  const int64_t n = batch * seq;
  const bool layer_norm = model.norm() == norm_kind::layer;
  layer_activations acts;
  acts.norm1 = memory.take(n * model.hidden, type);
  acts.qkv = memory.take(n * model.qkv_width(), type);
  if (model.qk_norm) {
    const int64_t heads = model.heads + model.kv_heads;
    acts.heads = memory.take(n * heads * model.head_width, type);
    acts.head_rstd = memory.take<float>(n * heads);
  }
  acts.attended = memory.take(n * model.attention_width(), type);
  acts.lse = memory.take<float>(batch * model.heads * seq);
  acts.rstd1 = memory.take<float>(n);
  if (layer_norm) acts.mean1 = memory.take<float>(n);
  if (model.block == block_form::sequential) acts.middle = memory.take(n * model.hidden, type);
  if (model.block != block_form::shared_norm) {
    acts.norm2 = memory.take(n * model.hidden, type);
    acts.rstd2 = memory.take<float>(n);
    if (layer_norm) acts.mean2 = memory.take<float>(n);
  }
  acts.hidden = memory.take(n * model.ffn_in_width(), type);
  acts.active = memory.take(n * model.ffn, type);
  return acts;
}

/// What a layer of a slot has of its own.
activation_choice kept_of(const stage_shape& shape, size_t layer) {
  return shape.training ? shape.activations_of(layer) : activation_choice::recompute;
}

/// Whether a layer uses what all layers and slots have in common.
bool any_shares(const stage_shape& shape) {
  for (size_t i = 0; i < static_cast<size_t>(shape.layers()); ++i)
    if (computes_again(kept_of(shape, i))) return true;
  return false;
}

/// What several layers use, one after the other.
struct shared_activations {
  layer_activations all;                   ///< of those that compute theirs again
  std::vector<layer_activations> spilled;  ///< by frame
};

shared_activations take_shared(const model_config& model, const stage_shape& shape,
                               stage_memory& out, arena& memory) {
  const auto take = [&] {
    return take_layer(model, shape.micro_batch, shape.seq, shape.compute, memory);
  };
  shared_activations shared;
  if (any_shares(shape)) shared.all = take();
  for (int f = 0; f < spill_layout(shape).frames(); ++f) {
    auto* begin = memory.begin_block();
    shared.spilled.push_back(take());
    out.spill_frames.emplace_back(begin, static_cast<size_t>(memory.begin_block() - begin));
  }
  return shared;
}

/// `shared` and `gradient`: what all slots use, unless each has its own.
slot_memory take_slot(const model_config& model, const stage_shape& shape,
                      const shared_activations& shared, int number, void* gradient, arena& memory) {
  const int64_t n = shape.tokens(), boundary = n * model.hidden;
  const auto layers = static_cast<size_t>(shape.layers());
  const dtype type = shape.compute;
  slot_memory slot;
  if (shape.has_embedding) slot.tokens = memory.take<int32_t>(n);
  if (shape.has_head) slot.targets = memory.take<int32_t>(n);
  if (shape.documents) {
    slot.document_first = memory.take<int32_t>(n);
    slot.document_end = memory.take<int32_t>(n);
  }
  for (size_t i = 0; i <= layers; ++i) {
    const bool reuse = !shape.training && i >= 2;
    slot.x.push_back(reuse ? slot.x[i - 2] : memory.take(boundary, type));
  }
  const spill_layout spill(shape);
  for (size_t i = 0; i < layers; ++i) {
    const auto kept = kept_of(shape, i);
    if (kept == activation_choice::spill) {
      const auto frame = spill.frame_of(spill.record_of(number, static_cast<int>(i)));
      slot.layers.push_back(shared.spilled[static_cast<size_t>(frame)]);
      continue;
    }
    slot.layers.push_back(kept == activation_choice::keep
                              ? take_layer(model, shape.micro_batch, shape.seq, type, memory)
                              : shared.all);
    if (kept == activation_choice::half && model.block == block_form::sequential)
      slot.layers.back().middle = memory.take(boundary, type);
  }
  if (shape.has_head) {
    slot.final_rstd = memory.take<float>(n);
    if (model.norm() == norm_kind::layer) slot.final_mean = memory.take<float>(n);
  }
  if (shape.training) {
    slot.output_grad = memory.take(boundary, type);
    slot.gradient = shape.by_layer ? memory.take(boundary, type) : gradient;
    if (!shape.has_embedding) slot.input_grad = memory.take(boundary, type);
  }
  return slot;
}

}  // namespace

stage_memory stage_memory::lay_out(const model_config& model, const stage_shape& shape,
                                   void* base) {
  const int64_t n = shape.tokens(), boundary = n * model.hidden;
  const dtype type = shape.compute;
  stage_memory out;
  arena memory(base);
  out.loss_sum = memory.take<double>(1);
  if (model.family == model_family::llama) {
    out.cosine = memory.take<float>(shape.seq * model.head_width / 2);
    out.sine = memory.take<float>(shape.seq * model.head_width / 2);
  }
  const auto shared = take_shared(model, shape, out, memory);
  if (shape.has_head) out.final_normed = memory.take(boundary, type);
  if (shape.training) {
    out.scratch.gradient = memory.take(boundary, type);
    out.scratch.d_normed = memory.take(boundary, type);
    out.scratch.d_attended = memory.take(n * model.attention_width(), type);
    out.scratch.d_qkv = memory.take(n * model.qkv_width(), type);
    out.scratch.d_active = memory.take(n * model.ffn, type);
  }
  const size_t before = memory.used();
  for (int i = 0; i < shape.slots; ++i) {
    out.slots.push_back(take_slot(model, shape, shared, i, out.scratch.gradient, memory));
    if (i == 0) out.slot_bytes = memory.used() - before;
  }
  out.total_bytes = memory.used();
  return out;
}

size_t lay_out_layer(const model_config& model, int64_t batch, int64_t seq, dtype type, void* base,
                     layer_activations& out) {
  arena memory(base);
  out = take_layer(model, batch, seq, type, memory);
  return memory.used();
}

namespace {

/// Frames that chunks share, each of the size of the largest in it.
class frame_sizes {
 public:
  /// False: the chunk has a frame of its own.
  bool add(int frame, uint64_t bytes) {
    if (frame < 0) return false;
    const auto number = static_cast<size_t>(frame);
    frames_.resize(std::max(frames_.size(), number + 1));
    frames_[number] = std::max<uint64_t>(frames_[number], frame_size(bytes));
    return true;
  }
  uint64_t total() const { return std::accumulate(frames_.begin(), frames_.end(), uint64_t{0}); }

 private:
  std::vector<uint64_t> frames_;
};

}  // namespace

stage_plan plan_stage(const model_config& model, const stage_shape& shape) {
  stage_plan plan;
  const auto chunks = stage_chunks(model, shape);
  frame_sizes weights, gradients;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const auto home = shape.where.of(static_cast<int>(c));
    const auto slice = slice_of(chunks[c].count, shape.replica);
    const auto whole = static_cast<uint64_t>(slice.whole), part = static_cast<uint64_t>(slice.part);
    const auto weight_bytes = whole * size_of(shape.compute);
    if (!weights.add(home.weight_frame, weight_bytes))
      plan.weights += home.state_on_disk ? frame_size(weight_bytes) : weight_bytes;
    if (shape.compute != dtype::f32 && !home.state_on_disk) plan.masters += part * 4;
    if (!shape.training) continue;
    if (!gradients.add(home.grad_frame, whole * 4)) plan.gradients += whole * 4;
    if (!home.state_on_disk) plan.optimizer += part * 8;
  }
  plan.weights += weights.total();
  plan.gradients += gradients.total();
  const auto swap = swap_sizes_of(chunks, shape.where, shape.compute, shape.replica);
  plan.swap_slots = swap.slots_bytes;
  const stage_memory memory = stage_memory::lay_out(model, shape, nullptr);
  if (!memory.spill_frames.empty())
    plan.spill_bytes =
        memory.spill_frames.front().size() * static_cast<uint64_t>(spill_layout(shape).records());
  plan.on_disk = swap.file_bytes + plan.spill_bytes;
  plan.activations_per_slot = memory.slot_bytes;
  plan.slots = static_cast<uint64_t>(shape.slots);
  plan.workspace = memory.total_bytes - plan.slots * memory.slot_bytes;
  return plan;
}

std::string stage_plan::text() const {
  auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return fmt::format(
      "weights     {:10.1f} MiB\nmasters     {:10.1f} MiB\ngradients   {:10.1f} MiB\n"
      "optimizer   {:10.1f} MiB\nactivations {:10.1f} MiB ({} x {:.1f})\n"
      "workspace   {:10.1f} MiB\ntotal       {:10.1f} MiB\n",
      mib(weights), mib(masters), mib(gradients), mib(optimizer), mib(activations_per_slot * slots),
      slots, mib(activations_per_slot), mib(workspace), mib(total()));
}

}  // namespace troupe::gpu
