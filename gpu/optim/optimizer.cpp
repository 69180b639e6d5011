// The optimizer's calls into the device's operations.
#include "gpu/optim/optimizer.hpp"

namespace troupe::gpu {

result<std::unique_ptr<optimizer>> optimizer::make(parameter_store& store,
                                                   const optimizer_settings& settings) {
  std::unique_ptr<optimizer> out(new optimizer(store, settings));
  int64_t tensors = 0;
  for (int c = 0; c < store.chunk_count(); ++c) {
    out->first_tensor_.push_back(tensors);
    tensors += static_cast<int64_t>(store.info(c).tensors.size());
  }
  auto scalars = store.owner().allocate(2 * sizeof(double));
  if (!scalars) return scalars.error().within("optimizer");
  auto norms = store.owner().allocate(static_cast<size_t>(tensors) * sizeof(double));
  if (!norms) return norms.error().within("optimizer");
  out->scalars_ = std::move(*scalars);
  out->tensor_norms_ = std::move(*norms);
  return out;
}

void optimizer::begin(stream& s) {
  s.zero(norm_squared(), sizeof(double));
}

const double* optimizer::tensor_norms_squared(int chunk) const {
  return tensor_norms_.as<double>() + first_tensor_[static_cast<size_t>(chunk)];
}

void optimizer::norm(stream& s, int chunk) {
  if (store_->info(chunk).tied_copy) return;  // OP-1
  const auto& spans = store_->spans(chunk);
  double* per_tensor = tensor_norms_.as<double>() + first_tensor_[static_cast<size_t>(chunk)];
  s.zero(per_tensor, spans.size() * sizeof(double));
  store_->owner().ops().norm_squared(s, store_->grad(chunk), spans.data(),
                                     static_cast<int64_t>(spans.size()), norm_squared(),
                                     per_tensor);
}

void optimizer::clip(stream& s) {
  store_->owner().ops().clip_scale(s, norm_squared(), settings_.clip_norm, clip_factor());
}

void optimizer::step(stream& s, int chunk, float lr, int64_t t) {
  store_->await_readers(s, chunk);  // OP-2
  const auto& spans = store_->spans(chunk);
  optimizer_args a{};
  a.kind = settings_.kind;
  a.count = store_->info(chunk).count;
  a.spans = spans.data();
  a.span_count = static_cast<int64_t>(spans.size());
  a.master = store_->master(chunk);
  a.weight = store_->weight(chunk);
  a.weight_type = store_->options().compute;
  a.m = store_->m(chunk);
  a.v = store_->v(chunk);
  a.grad = store_->grad(chunk);
  a.grad_scale = clip_factor();
  a.lr = lr;
  a.beta1 = settings_.beta1;
  a.beta2 = settings_.beta2;
  a.eps = settings_.eps;
  a.weight_decay = settings_.weight_decay;
  a.step = t;
  a.trust_always = settings_.trust_always;
  a.stochastic_rounding = store_->rounds_by_chance();  // PS-6
  if (a.stochastic_rounding) a.rounding_seed = store_->rounding_seed(chunk);
  store_->owner().ops().optimizer_step(s, a);
  store_->weights_changed(chunk);  // PS-4
}

}  // namespace troupe::gpu
