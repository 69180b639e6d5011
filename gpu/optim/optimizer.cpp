// The optimizer's calls into the device's operations.
#include "gpu/optim/optimizer.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe::gpu {

result<std::unique_ptr<optimizer>> optimizer::make(parameter_store& store,
                                                   const optimizer_settings& settings) {
  std::unique_ptr<optimizer> out(new optimizer(store, settings));
  for (int c = 0; c < store.chunk_count(); ++c) {
    out->first_tensor_.push_back(out->tensors_);
    out->tensors_ += static_cast<int64_t>(store.info(c).tensors.size());
  }
  const auto make = [&](size_t doubles, buffer& into) -> status {
    auto memory = store.owner().allocate(doubles * sizeof(double));
    if (!memory) return memory.error().within("optimizer");
    into = std::move(*memory);
    return {};
  };
  TROUPE_CHECK(make(3, out->scalars_));
  TROUPE_CHECK(make(static_cast<size_t>(out->tensors_), out->tensor_norms_));
  if (settings.kind != optimizer_step_args::rule::lamb) return out;
  out->lay_out_parts();
  const auto rows = static_cast<size_t>(store.options().replica.ranks) + 1;
  TROUPE_CHECK(make(2 * static_cast<size_t>(out->tensors_) * rows, out->trust_norms_));
  if (store.options().replica.ranks == 1) return out;
  size_t tensors = 0;  // of a chunk, at most
  for (int c = 0; c < store.chunk_count(); ++c)
    tensors = std::max(tensors, store.info(c).tensors.size());
  TROUPE_CHECK(make(2 * tensors * (rows - 1), out->gathered_norms_));
  return out;
}

/// OP-4.
void optimizer::lay_out_parts() {
  residency cut;
  cut.group_elements = settings_.norm_elements;
  for (int c = 0; c < store_->chunk_count(); ++c) {
    const auto file = swap_layout(store_->slice(c), cut, store_->options().compute);
    auto& parts = parts_.emplace_back();
    for (int g = 0; g < file.groups(); ++g) {
      int64_t skipped = 0;
      auto spans = spans_within(store_->spans(c), file.first(g), file.count(g), skipped);
      parts.push_back({file.first(g), file.count(g), first_span(c) + skipped, std::move(spans)});
    }
  }
}

void optimizer::begin(stream& s) {
  s.zero(norm_squared(), sizeof(double));
}

const double* optimizer::tensor_norms_squared(int chunk) const {
  return tensor_norms_.as<double>() + first_tensor_[static_cast<size_t>(chunk)];
}

void optimizer::norm(stream& s, int chunk) {
  norm_into(s, chunk, norm_squared());
}

void optimizer::note_norm(stream& s, int chunk) {
  norm_into(s, chunk, scalars_.as<double>() + 2);
}

void optimizer::norm_into(stream& s, int chunk, double* sum) {
  if (store_->info(chunk).tied_copy) return;  // OP-1
  const auto& spans = store_->spans(chunk);
  double* of_tensors = tensor_norms_.as<double>();
  s.zero(of_tensors + first_tensor_[static_cast<size_t>(chunk)],
         store_->info(chunk).tensors.size() * sizeof(double));
  if (spans.empty()) return;
  store_->owner().ops().norm_squared(
      s, {store_->grad_slice(chunk), spans.data(), static_cast<int64_t>(spans.size()), sum,
          of_tensors + first_span(chunk)});
}

void optimizer::total_norm(stream& s) {
  noted_.resize(static_cast<size_t>(tensors_));
  s.copy(noted_.data(), tensor_norms_.data(), noted_.size() * sizeof(double));
  s.host_task([this]() -> status {
    noted_sum_ = 0;
    for (const double squares : noted_) noted_sum_ += squares;
    return {};
  });
  s.copy(norm_squared(), &noted_sum_, sizeof(double));
}

void optimizer::clip(stream& s) {
  store_->owner().ops().clip_scale(s, {norm_squared(), settings_.clip_norm, clip_factor()});
}

void optimizer::allow_unclipped(stream& s) {
  static constexpr float one = 1;
  s.copy(unclipped_factor(), &one, sizeof one);
}

void optimizer::step(stream& s, int chunk, float lr, int64_t t) {
  store_->await_readers(s, chunk);  // OP-2
  const bool shared = shared_norms().part_bytes > 0;
  if (shared || measures_pieces(chunk)) {
    const auto& parts = parts_of(chunk);
    if (!shared)
      for (const auto& part : parts) measure(s, in_memory(chunk, part), lr, t);
    for (const auto& part : parts) apply(s, in_memory(chunk, part), lr, t);
  } else if (const auto& spans = store_->spans(chunk); !spans.empty()) {
    const auto whole = in_memory(chunk, 0, store_->slice(chunk).count, spans);
    store_->owner().ops().optimizer_step(s, arguments(whole, lr, t));
  }
  store_->weights_changed(chunk);  // PS-4
}

void optimizer::step(stream& s, const piece& p, float lr, int64_t t) {
  if (settings_.kind == optimizer_step_args::rule::adamw) {
    if (!p.spans->empty()) store_->owner().ops().optimizer_step(s, arguments(p, lr, t));
    return;
  }
  if (shared_norms().part_bytes > 0 || measures_pieces(p.chunk)) {
    const int nobodys = replica().ranks;  // the norms are known: m and v are to be moved again
    forget_norms(s, p.chunk, nobodys);
    note(s, p, lr, t, nobodys);
  } else {
    measure(s, p, lr, t);
  }
  apply(s, p, lr, t);
}

// -- LAMB's norms ---------------------------------------------------------------------------------

optimizer::gathered optimizer::shared_norms() const noexcept {
  if (trust_norms_.data() == nullptr || replica().ranks == 1) return {};
  return {trust_norms_.data(), static_cast<size_t>(2 * tensors_) * sizeof(double)};
}

void optimizer::gather_norms(stream& s, int chunk,
                             const std::function<void(const gathered&)>& all_gather) {
  assert(shared_norms().part_bytes > 0);
  const auto count = static_cast<int64_t>(2 * store_->info(chunk).tensors.size());
  const auto bytes = static_cast<size_t>(count) * sizeof(double);
  double* const parts = gathered_norms_.as<double>();
  double* const first = trust_norms_.as<double>() + 2 * first_tensor_[static_cast<size_t>(chunk)];
  const auto [own, ranks] = replica();
  s.copy(parts + own * count, first + 2 * tensors_ * own, bytes);
  all_gather({parts, bytes});
  for (int r = 0; r < ranks; ++r)
    if (r != own) s.copy(first + 2 * tensors_ * r, parts + r * count, bytes);
}

bool optimizer::measures_pieces(int chunk) const {
  return !parts_.empty() && replica().ranks == 1 && parts_of(chunk).size() > 1;
}

/// Elements of a slice whose state the store has.
optimizer::piece optimizer::in_memory(int chunk, int64_t first, int64_t count,
                                      const std::vector<parameter_span>& spans) const {
  piece p;
  p.chunk = chunk;
  p.first = first;
  p.count = count;
  p.spans = &spans;
  p.master = store_->master(chunk) + first;
  p.m = store_->m(chunk) + first;
  p.v = store_->v(chunk) + first;
  p.weight = static_cast<std::byte*>(store_->weight_slice(chunk)) +
             static_cast<size_t>(first) * size_of(store_->options().compute);
  return p;
}

/// Of a part's first tensor, in a row.
double* optimizer::norms_of(const piece& p, int row) const {
  const auto& parts = parts_of(p.chunk);
  const auto& part = parts[static_cast<size_t>(p.first / parts.front().count)];
  assert(part.first == p.first && part.count == p.count);
  return trust_norms_.as<double>() + 2 * (tensors_ * row + part.first_tensor);
}

void optimizer::forget_norms(stream& s, int chunk, int row) {
  const auto first = tensors_ * row + first_tensor_[static_cast<size_t>(chunk)];
  s.zero(trust_norms_.as<double>() + 2 * first,
         2 * store_->info(chunk).tensors.size() * sizeof(double));
}

void optimizer::measure(stream& s, int chunk, float lr, int64_t t) {
  assert(shared_norms().part_bytes > 0);
  store_->await_readers(s, chunk);  // OP-2
  for (const auto& part : parts_of(chunk)) measure(s, in_memory(chunk, part), lr, t);
}

void optimizer::measure(stream& s, const piece& p, float lr, int64_t t) {
  if (p.first == 0) forget_norms(s, p.chunk, replica().rank);
  note(s, p, lr, t, replica().rank);
}

/// Adds a part's norms to a row, behind those of the parts before it.
void optimizer::note(stream& s, const piece& p, float lr, int64_t t, int row) {
  if (p.spans->empty()) return;
  auto a = arguments(p, lr, t);
  a.part = optimizer_step_args::phase::norms;
  a.norms = norms_of(p, row);
  store_->owner().ops().optimizer_step(s, a);
}

/// With the norms of all parts of all replicas, behind measure() of this one (OP-3).
void optimizer::apply(stream& s, const piece& p, float lr, int64_t t) {
  if (p.spans->empty()) return;
  auto a = arguments(p, lr, t);
  a.part = optimizer_step_args::phase::apply;
  a.norms = norms_of(p, 0);
  a.norm_rows = replica().ranks;
  a.norm_stride = 2 * tensors_;
  store_->owner().ops().optimizer_step(s, a);
}

optimizer_step_args optimizer::arguments(const piece& p, float lr, int64_t t) const {
  optimizer_step_args a{};
  a.kind = settings_.kind;
  a.count = p.count;
  a.spans = p.spans->data();
  a.span_count = static_cast<int64_t>(p.spans->size());
  a.master = p.master;
  a.weight = p.weight;
  a.weight_type = store_->options().compute;
  a.m = p.m;
  a.v = p.v;
  a.grad = p.grad != nullptr ? p.grad : store_->grad_slice(p.chunk) + p.first;
  a.grad_scale = p.clipped ? clip_factor() : unclipped_factor();
  a.lr = lr;
  a.beta1 = settings_.beta1;
  a.beta2 = settings_.beta2;
  a.eps = settings_.eps;
  a.weight_decay = settings_.weight_decay;
  a.step = t;
  a.trust_always = settings_.trust_always;
  a.stochastic_rounding = store_->rounds_by_chance();  // PS-8
  if (a.stochastic_rounding) {
    a.rounding_seed = store_->rounding_seed(p.chunk);
    a.rounding_first = store_->slice(p.chunk).first + p.first;
  }
  return a;
}

}  // namespace troupe::gpu
