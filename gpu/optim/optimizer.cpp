// The optimizer's calls into the device's operations.
#include "gpu/optim/optimizer.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>

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
  const int replicas = store.options().replica.ranks;
  if (settings.kind != optimizer_step_args::rule::lamb) return out;
  if (replicas > 1) {
    TROUPE_CHECK(make(static_cast<size_t>(2 * out->tensors_ * replicas), out->trust_norms_));
    return out;
  }
  TROUPE_CHECK(make(out->lay_out_parts(), out->part_norms_));
  return out;
}

/// OP-4. How many doubles the rows of all chunks take.
size_t optimizer::lay_out_parts() {
  int64_t doubles = 0;
  for (int c = 0; c < store_->chunk_count(); ++c) {
    auto& p = parts_.emplace_back();
    p.first_row = doubles;
    const auto count = store_->slice(c).count;
    for (int64_t first = 0; first < count; first += settings_.norm_elements) {
      int64_t tensor = 0;
      const auto some = std::min(settings_.norm_elements, count - first);
      p.spans.push_back(spans_within(store_->spans(c), first, some, tensor));
      p.first_tensor.push_back(tensor);
    }
    doubles += std::ssize(p.spans) * row_doubles(c);
  }
  return static_cast<size_t>(std::max<int64_t>(1, doubles));
}

int64_t optimizer::row_doubles(int chunk) const {
  return 2 * std::ssize(store_->info(chunk).tensors);
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

optimizer::gathered optimizer::shared_norms() const noexcept {
  if (trust_norms_.data() == nullptr) return {};
  return {trust_norms_.data(), static_cast<size_t>(2 * tensors_) * sizeof(double)};
}

void optimizer::measure(stream& s, int chunk, float lr, int64_t t) {
  assert(shared_norms().part_bytes > 0);
  double* own = trust_norms_.as<double>() + 2 * tensors_ * replica().rank;
  s.zero(own + 2 * first_tensor_[static_cast<size_t>(chunk)],
         2 * store_->info(chunk).tensors.size() * sizeof(double));
  update(s, chunk, lr, t, optimizer_step_args::phase::norms);
}

void optimizer::step(stream& s, int chunk, float lr, int64_t t) {
  const bool measured = shared_norms().part_bytes > 0;
  if (measures_pieces(chunk))
    update_by_parts(s, chunk, lr, t);
  else
    update(s, chunk, lr, t,
           measured ? optimizer_step_args::phase::apply : optimizer_step_args::phase::whole);
  store_->weights_changed(chunk);  // PS-4
}

void optimizer::update(stream& s, int chunk, float lr, int64_t t, optimizer_step_args::phase part) {
  store_->await_readers(s, chunk);  // OP-2
  const auto& spans = store_->spans(chunk);
  if (spans.empty()) return;
  auto a = arguments({chunk, 0, store_->slice(chunk).count, &spans, store_->master(chunk),
                      store_->m(chunk), store_->v(chunk), store_->weight_slice(chunk)},
                     lr, t);
  a.part = part;
  if (part != optimizer_step_args::phase::whole) {  // OP-3
    a.norm_rows = replica().ranks;
    a.norm_stride = 2 * tensors_;
    a.norms = trust_norms_.as<double>() + 2 * first_span(chunk);
    if (part == optimizer_step_args::phase::norms) a.norms += a.norm_stride * replica().rank;
  }
  store_->owner().ops().optimizer_step(s, a);
}

void optimizer::step(stream& s, const piece& p, float lr, int64_t t) {
  if (settings_.kind == optimizer_step_args::rule::adamw) {
    if (!p.spans->empty()) store_->owner().ops().optimizer_step(s, arguments(p, lr, t));
    return;
  }
  measure(s, p, lr, t);  // what was noted before is noted again, with m and v as they are to be
  apply(s, p, lr, t);
}

// -- LAMB by parts (OP-4) -------------------------------------------------------------------------

bool optimizer::measures_pieces(int chunk) const {
  return !parts_.empty() && parts_[static_cast<size_t>(chunk)].spans.size() > 1;
}

/// The first part's row.
double* optimizer::rows_of(int chunk) const {
  return part_norms_.as<double>() + parts_[static_cast<size_t>(chunk)].first_row;
}

void optimizer::measure(stream& s, const piece& p, float lr, int64_t t) {
  assert(!parts_.empty() && p.first % settings_.norm_elements == 0);
  const auto part = p.first / settings_.norm_elements;
  const auto first = parts_[static_cast<size_t>(p.chunk)].first_tensor[static_cast<size_t>(part)];
  double* row = rows_of(p.chunk) + part * row_doubles(p.chunk);
  s.zero(row, static_cast<size_t>(row_doubles(p.chunk)) * sizeof(double));
  if (p.spans->empty()) return;
  auto a = arguments(p, lr, t);
  a.part = optimizer_step_args::phase::norms;
  a.norms = row + 2 * first;
  store_->owner().ops().optimizer_step(s, a);
}

/// With the norms of all parts, behind measure() of this one.
void optimizer::apply(stream& s, const piece& p, float lr, int64_t t) {
  const auto& parts = parts_[static_cast<size_t>(p.chunk)];
  const auto part = static_cast<size_t>(p.first / settings_.norm_elements);
  if (p.spans->empty()) return;
  auto a = arguments(p, lr, t);
  a.part = optimizer_step_args::phase::apply;
  a.norms = rows_of(p.chunk) + 2 * parts.first_tensor[part];
  a.norm_rows = std::ssize(parts.spans);
  a.norm_stride = row_doubles(p.chunk);
  store_->owner().ops().optimizer_step(s, a);
}

void optimizer::update_by_parts(stream& s, int chunk, float lr, int64_t t) {
  store_->await_readers(s, chunk);  // OP-2
  const auto& parts = parts_[static_cast<size_t>(chunk)];
  const auto in_memory = [&](size_t part) {
    const auto first = static_cast<int64_t>(part) * settings_.norm_elements;
    const auto count = std::min(settings_.norm_elements, store_->slice(chunk).count - first);
    auto* weights = static_cast<std::byte*>(store_->weight_slice(chunk)) +
                    static_cast<size_t>(first) * size_of(store_->options().compute);
    return piece{chunk,
                 first,
                 count,
                 &parts.spans[part],
                 store_->master(chunk) + first,
                 store_->m(chunk) + first,
                 store_->v(chunk) + first,
                 weights};
  };
  for (size_t part = 0; part < parts.spans.size(); ++part) measure(s, in_memory(part), lr, t);
  for (size_t part = 0; part < parts.spans.size(); ++part) apply(s, in_memory(part), lr, t);
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
  a.grad = store_->grad_slice(p.chunk) + p.first;
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
