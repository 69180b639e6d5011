// 1F1B and the bookkeeping of what may be issued: see the header for the invariants kept here.
#include "actors/train/schedule_policy.hpp"

#include <algorithm>
#include <cassert>

namespace troupe::train {

std::vector<scheduled_op> one_forward_one_backward(int stage, int stages, int micro_batches) {
  assert(stage >= 0 && stage < stages && micro_batches >= 1);
  const int warm_up = std::min(micro_batches, stages - stage - 1);
  std::vector<scheduled_op> order;
  order.reserve(2 * static_cast<size_t>(micro_batches));
  for (int m = 0; m < warm_up; ++m) order.push_back({pipeline_op::forward, m});
  for (int m = warm_up; m < micro_batches; ++m) {
    order.push_back({pipeline_op::forward, m});
    order.push_back({pipeline_op::backward, m - warm_up});
  }
  for (int m = micro_batches - warm_up; m < micro_batches; ++m)
    order.push_back({pipeline_op::backward, m});
  return order;
}

int slots_needed(const schedule_of& job) {
  return job.by_layer ? job.micro_batches : std::min(job.stages - job.stage, job.micro_batches);
}

step_policy::step_policy(const schedule_of& job, bool train)
    : stage_(job.stage),
      stages_(job.stages),
      slots_(slots_needed(job)),
      train_(train),
      micro_batches_(static_cast<size_t>(job.micro_batches)) {
  assert(!job.by_layer || job.stages == 1);
  if (job.by_layer && train) {
    order_ = {{pipeline_op::forward, 0, job.micro_batches},
              {pipeline_op::backward, 0, job.micro_batches}};
  } else if (job.by_layer) {
    order_ = {{pipeline_op::evaluate, 0, job.micro_batches}};
  } else if (train) {
    order_ = one_forward_one_backward(job.stage, job.stages, job.micro_batches);
  } else {
    for (int m = 0; m < job.micro_batches; ++m) order_.push_back({pipeline_op::evaluate, m});
  }
}

bool step_policy::activation_ready(int micro_batch) {
  if (stage_ == 0 || micro_batch < 0 || micro_batch >= static_cast<int>(micro_batches_.size()))
    return false;
  auto& p = micro_batches_[static_cast<size_t>(micro_batch)];
  if (p.activation_announced) return false;
  return p.activation_announced = true;
}

bool step_policy::gradient_ready(int micro_batch) {
  if (!train_ || stage_ + 1 == stages_ || micro_batch < 0 ||
      micro_batch >= static_cast<int>(micro_batches_.size()))
    return false;
  auto& p = micro_batches_[static_cast<size_t>(micro_batch)];
  if (p.gradient_announced || !p.computed) return false;
  return p.gradient_announced = true;
}

bool step_policy::slot_is_free(int micro_batch) const {
  const int previous = micro_batch - slots_;
  if (previous < 0) return true;
  return micro_batches_[static_cast<size_t>(previous)].slot_freed;  // SCH-4
}

void step_policy::receive_what_fits(std::vector<action>& out) {
  if (stage_ == 0) return;
  for (int m = 0; m < static_cast<int>(micro_batches_.size()); ++m) {
    auto& p = micro_batches_[static_cast<size_t>(m)];
    if (p.activation_received) continue;
    if (!p.activation_announced || !slot_is_free(m)) return;  // in order: tags are matched in order
    p.activation_received = true;
    out.push_back({pipeline_op::receive_activation, m, m % slots_});
  }
}

bool step_policy::input_available(const scheduled_op& op) const {
  const auto& p = micro_batches_[static_cast<size_t>(op.micro_batch)];
  if (op.kind != pipeline_op::backward)  // SCH-2
    return (stage_ == 0 || p.activation_received) && slot_is_free(op.micro_batch);
  return stage_ + 1 == stages_ ? p.computed : p.gradient_announced;
}

std::vector<action> step_policy::next() {
  std::vector<action> out;
  for (;;) {
    receive_what_fits(out);
    if (issued_ == order_.size() || !input_available(order_[issued_])) break;
    const auto op = order_[issued_++];  // SCH-1
    const int slot = op.micro_batch % slots_;
    for (int m = op.micro_batch; m < op.micro_batch + op.count; ++m) {
      auto& p = micro_batches_[static_cast<size_t>(m)];
      p.computed = true;
      p.slot_freed = facts_of(op.kind).frees_slot;
    }
    if (op.kind == pipeline_op::backward && stage_ + 1 < stages_)
      out.push_back({pipeline_op::receive_gradient, op.micro_batch, slot});
    out.push_back({op.kind, op.micro_batch, slot, op.count});
  }
  if (issued_ == order_.size() && !finished_) {
    finished_ = true;
    out.push_back({pipeline_op::update, 0, 0});
  }
  return out;
}

std::optional<scheduled_op> step_policy::awaited() const noexcept {
  if (issued_ == order_.size()) return std::nullopt;
  return order_[issued_];
}

}  // namespace troupe::train
