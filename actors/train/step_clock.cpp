// Sums under a lock that nobody holds for long: a stream tells a few dozen times a step.
#include "actors/train/step_clock.hpp"

#include <algorithm>
#include <utility>

namespace troupe::train {

namespace {

/// Its device works meanwhile: a stream does not wait for something, nor do bytes move.
bool is_work(pipeline_op kind) {
  const bool awaits = kind == pipeline_op::await_copies || kind == pipeline_op::await_weights ||
                      kind == pipeline_op::await_activations || kind == pipeline_op::await_replicas;
  return facts_of(kind).resource == op_resource::device && !awaits;
}

}  // namespace

void step_clock::begin_step(double now_ms) {
  std::lock_guard lock(mutex_);
  lane_of(pipeline_op::begin).idle_since_ms = now_ms;
}

void step_clock::began(pipeline_op kind, double now_ms) {
  std::lock_guard lock(mutex_);
  auto& l = lane_of(kind);
  if (l.under_way++ > 0) return;
  l.began_ms = now_ms;
  l.held_up_ms = 0;
  if (facts_of(kind).stream == op_stream::compute)
    parts_[static_cast<size_t>(kind)].waited_ms += now_ms - l.idle_since_ms;
}

void step_clock::ended(pipeline_op kind, double now_ms, uint64_t work) {
  std::lock_guard lock(mutex_);
  auto& l = lane_of(kind);
  if (l.under_way == 0) return;
  auto& p = parts_[static_cast<size_t>(kind)];
  p.work += work;
  if (--l.under_way > 0) return;
  const double busy_ms = now_ms - l.began_ms - l.held_up_ms;
  p.busy_ms += busy_ms;
  if (is_work(kind)) computed_ms_ += busy_ms;
  l.idle_since_ms = now_ms;
}

void step_clock::held_up(pipeline_op kind, double ms) {
  std::lock_guard lock(mutex_);
  lane_of(kind).held_up_ms += ms;
  parts_[static_cast<size_t>(kind)].waited_ms += ms;
}

void step_clock::did_within(pipeline_op kind, double ms, uint64_t work) {
  std::lock_guard lock(mutex_);
  lane_of(kind).held_up_ms += ms;
  auto& p = parts_[static_cast<size_t>(kind)];
  p.busy_ms += ms;
  p.work += work;
  if (is_work(kind)) computed_ms_ += ms;
}

std::vector<step_part> step_clock::take() {
  std::lock_guard lock(mutex_);
  return parts_in(std::exchange(parts_, {}));
}

uint64_t step_clock::computed_us() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint64_t>(std::max(0.0, computed_ms_) * 1e3);
}

}  // namespace troupe::train
