// A step as a cluster does it, in a row on one stream.
#include "tests/gpu/local_trainer.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string>

#include "gpu/swap/residency_plan.hpp"

namespace troupe::gpu {

result<std::unique_ptr<local_trainer>> local_trainer::make(device& owner, const model_config& model,
                                                           const local_options& options) {
  TROUPE_CHECK(model.check());
  if (options.stages < 1 || options.stages > model.layers)
    return error{errc::bad_config, "a model has at least one layer for each pipeline stage"};
  std::unique_ptr<local_trainer> out(new local_trainer(owner, options));
  const int threads = options.threads > 0 ? options.threads : owner.facts().threads;
  TROUPE_TRY(compute, owner.make_stream({.name = "compute", .threads = threads}));
  out->stream_ = std::move(compute);
  for (stage_shape shape : split_stages(model, options.stages, options.seq)) {
    shape.micro_batch = options.micro_batch;
    shape.seq = options.seq;
    shape.compute = options.compute;
    shape.recompute = options.recompute;
    shape.documents = options.documents;
    if (!options.activations.empty())
      shape.activations.assign(options.activations.begin() + shape.first_layer,
                               options.activations.begin() + shape.last_layer);
    shape.decay = options.decay;
    shape.rounding_seed = options.rounding_seed;
    if (!options.swap.empty()) {
      shape.where = least_residency(model, shape, {0, options.optimizer.clip_norm > 0, 1});
      for (auto& chunk : shape.where.chunks) chunk.grad_frame = -1;
    }
    TROUPE_TRY(stage, stage_model::make(owner, model, shape));
    TROUPE_TRY(optimizer, optimizer::make(stage->store(), options.optimizer));
    out->stages_.push_back(std::move(stage));
    out->optimizers_.push_back(std::move(optimizer));
    if (!options.swap.empty()) TROUPE_CHECK(out->swap_stage(shape.where));
  }
  out->read_.resize(out->stages_.size() + 1);
  TROUPE_TRY(pinned, owner.pin(out->read_.data(), out->read_.size() * sizeof(double)));
  out->read_pinned_ = std::move(pinned);
  return out;
}

/// Of the last stage so far.
status local_trainer::swap_stage(const residency& where) {
  const auto folder = options_.swap / std::to_string(swappers_.size());
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  swap_options how;
  how.places = {{folder}};
  TROUPE_TRY(made, swapper::make(stages_.back()->store(), where, std::move(how)));
  swappers_.push_back(std::move(made));
  stages_.back()->store().set_mover(swappers_.back().get());
  return {};
}

void local_trainer::micro_batch(const stage_model::micro_batch& batch, float scale) {
  stream& s = *stream_;
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (i > 0)
      s.copy(stages_[i]->input(0), stages_[i - 1]->output(0), stages_[i]->boundary_bytes());
    stages_[i]->forward(s, std::span(&batch, 1), scale);
  }
  for (size_t i = stages_.size(); i-- > 0;) {
    stages_[i]->backward(s, std::array{stage_model::micro_batch{}});
    if (i > 0)
      s.copy(stages_[i - 1]->output_grad(0), stages_[i]->input_grad(0),
             stages_[i]->boundary_bytes());
  }
}

void local_trainer::sum_tied_gradients() {
  const int front = stages_.front()->tied_chunk(), back = stages_.back()->tied_chunk();
  if (front < 0 || back < 0) return;
  parameter_store& a = stages_.front()->store();
  parameter_store& b = stages_.back()->store();
  owner_.ops().add(*stream_, {a.grad(front), b.grad(back), dtype::f32, a.info(front).count});
  stream_->copy(b.grad(back), a.grad(front), a.bytes(front, part::grad));
}

int64_t local_trainer::targets_per_step() const noexcept {
  return options_.micro_batches * options_.micro_batch * options_.seq;
}

void local_trainer::enqueue_gradients(const int32_t* tokens, const int32_t* targets,
                                      const row_documents& documents) {
  const int64_t per_micro = options_.micro_batch * options_.seq;
  const auto scale = 1.0f / static_cast<float>(targets_per_step());
  stages_.back()->reset_loss(*stream_);
  for (int64_t at = 0; at < targets_per_step(); at += per_micro) {
    stage_model::micro_batch batch{0, tokens + at, targets + at};
    if (documents.first != nullptr) batch.documents = {documents.first + at, documents.end + at};
    micro_batch(batch, scale);
  }
  sum_tied_gradients();
  stream_->copy(read_.data(), stages_.back()->loss_sum(), sizeof(double));
  for (size_t i = 0; i < stages_.size(); ++i) {
    optimizers_[i]->begin(*stream_);
    for (int c = 0; c < stages_[i]->store().chunk_count(); ++c) optimizers_[i]->norm(*stream_, c);
    stream_->copy(&read_[i + 1], optimizers_[i]->norm_squared(), sizeof(double));
  }
}

result<local_step> local_trainer::outcome() {
  TROUPE_CHECK(stream_->synchronize());
  norm_squared_ = std::accumulate(read_.begin() + 1, read_.end(), 0.0);
  return local_step{read_[0] / static_cast<double>(targets_per_step()), std::sqrt(norm_squared_)};
}

result<local_step> local_trainer::accumulate(const int32_t* tokens, const int32_t* targets,
                                             const row_documents& documents) {
  enqueue_gradients(tokens, targets, documents);
  return outcome();
}

result<local_step> local_trainer::step(const int32_t* tokens, const int32_t* targets, float lr,
                                       const row_documents& documents) {
  enqueue_gradients(tokens, targets, documents);
  // One stage has the whole norm on the device: nothing waits for the host within the step.
  if (stages_.size() > 1) TROUPE_CHECK(outcome());
  ++steps_;
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stages_.size() > 1)
      stream_->copy(optimizers_[i]->norm_squared(), &norm_squared_, sizeof norm_squared_);
    optimizers_[i]->clip(*stream_);
    for (int c = 0; c < stages_[i]->store().chunk_count(); ++c)
      if (swappers_.empty())
        optimizers_[i]->step(*stream_, c, lr, steps_);
      else
        swappers_[i]->update(*stream_, *optimizers_[i], c, lr, steps_);
  }
  return outcome();
}

result<std::map<std::string, double>> local_trainer::tensor_norms() {
  std::map<std::string, double> out;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const parameter_store& store = stages_[i]->store();
    for (int c = 0; c < store.chunk_count(); ++c) {
      const auto& tensors = store.info(c).tensors;
      if (store.info(c).tied_copy) continue;
      std::vector<double> squared(tensors.size());
      stream_->copy(squared.data(), optimizers_[i]->tensor_norms_squared(c),
                    squared.size() * sizeof(double));
      TROUPE_CHECK(stream_->synchronize());
      for (size_t t = 0; t < tensors.size(); ++t) out[tensors[t].name] = std::sqrt(squared[t]);
    }
  }
  return out;
}

status local_trainer::clear_gradients() {
  for (auto& stage : stages_)
    for (int c = 0; c < stage->store().chunk_count(); ++c)
      stream_->zero(stage->store().grad(c), stage->store().bytes(c, part::grad));
  return stream_->synchronize();
}

}  // namespace troupe::gpu
