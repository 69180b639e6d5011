// The order of a step, as operations: see chunk_policy.hpp.
#include "gpu/swap/chunk_policy.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe::gpu {

namespace {

using kind = chunk_point::kind;
using lane = chunk_lane;

chunk_op on_lane(lane on, chunk_act what = chunk_act::none, int chunk = chunk_op::no_chunk) {
  chunk_op out;
  out.on = on;
  out.what = what;
  out.chunk = chunk;
  return out;
}

chunk_op marking(lane on, chunk_point point) {
  auto out = on_lane(on);
  out.marks = point;
  return out;
}

/// `chunk`: of what.
chunk_op waiting(chunk_point point, int chunk = chunk_op::no_chunk) {
  auto out = on_lane(lane::compute, chunk_act::none, chunk);
  out.behind[0] = point;
  return out;
}

/// CHP-9.
chunk_op gathering(int chunk, chunk_point own_slice, chunk_point whole) {
  auto out = on_lane(lane::gather, chunk_act::gather_weights, chunk);
  out.behind[0] = own_slice;
  out.marks = whole;
  return out;
}

}  // namespace

chunk_policy::chunk_policy(std::vector<chunk_place> chunks, int slots, bool gathers)
    : slots_(slots), gathers_(gathers) {
  assert(slots >= 1);
  for (const auto& c : chunks) {
    assert(!c.grad_on_disk || (c.on_disk && c.grad_frame >= 0));
    shared_weights_ = std::max(shared_weights_, c.weight_frame + 1);
    shared_grads_ = std::max(shared_grads_, c.grad_frame + 1);
    chunks_.push_back({c});
  }
  occupants_.assign(static_cast<size_t>(shared_weights_), -1);
  gathered_behind_ = occupants_;
  freed_behind_.assign(static_cast<size_t>(frames(kind::gradient_free)), -1);
}

int chunk_policy::frames(chunk_point::kind what) const {
  const bool of_gradients =
      what == kind::gradient_free || what == kind::summed || what == kind::gradient_read;
  return (of_gradients ? shared_grads_ : shared_weights_) + chunks();
}

int chunk_policy::weight_frame(int chunk) const {
  const int shared = at(chunk).place.weight_frame;
  return shared >= 0 ? shared : shared_weights_ + chunk;
}

int chunk_policy::grad_frame(int chunk) const {
  const int shared = at(chunk).place.grad_frame;
  return shared >= 0 ? shared : shared_grads_ + chunk;
}

/// CHP-4.
int chunk_policy::take_slot() {
  const int out = next_slot_;
  next_slot_ = (next_slot_ + 1) % slots_;
  return out;
}

void chunk_policy::forget_weights(int chunk) {
  at(chunk).gathered = false;
  if (!shares_weights(chunk)) return;
  auto& occupant = occupants_[static_cast<size_t>(weight_frame(chunk))];
  if (occupant == chunk) occupant = -1;
}

/// Into their frame; of replicas the own slice, and then the others'.
void chunk_policy::read_weights(ops& out, int chunk) const {
  const int frame = weight_frame(chunk);
  auto read = on_lane(lane::weights_in, chunk_act::read_weights, chunk);
  read.behind[0] = {kind::weights_free, frame};  // CHP-3
  read.behind[1] = {kind::written, chunk};       // CHP-1
  read.marks = {gathers_ ? kind::slice_read : kind::weights_ready, frame};
  out.push_back(read);
  if (gathers_)
    out.push_back(gathering(chunk, {kind::slice_read, frame}, {kind::weights_ready, frame}));
}

chunk_policy::ops chunk_policy::bring_weights(int chunk) {
  ops out;
  auto& c = at(chunk);
  if (shares_weights(chunk)) {
    auto& occupant = occupants_[static_cast<size_t>(weight_frame(chunk))];
    if (std::exchange(occupant, chunk) == chunk) return out;
    read_weights(out, chunk);
    gathered_behind_[static_cast<size_t>(weight_frame(chunk))] = measured_;
  } else if (gathers_ && c.place.on_disk && !std::exchange(c.gathered, true)) {
    out.push_back(gathering(chunk, {kind::arrived, chunk}, {kind::arrived, chunk}));
  }
  return out;
}

chunk_policy::ops chunk_policy::fetch_weights(int chunk) {
  auto out = bring_weights(chunk);
  if (!shares_weights(chunk)) return out;
  const auto wait_for = [&](kind what) {
    out.push_back(waiting({what, weight_frame(chunk)}, chunk));
  };
  if (gathers_) wait_for(kind::slice_read);
  const int before = gathered_behind_[static_cast<size_t>(weight_frame(chunk))];
  if (before >= 0) {  // CHP-12
    out.push_back(waiting({kind::summed, grad_frame(before)}, before));
    out.push_back(waiting({kind::measured, before}, before));
  }
  wait_for(kind::weights_ready);
  return out;
}

chunk_policy::ops chunk_policy::release_weights(int chunk) {
  if (!shares_weights(chunk)) return {};
  return {marking(lane::compute, {kind::weights_free, weight_frame(chunk)})};
}

chunk_policy::ops chunk_policy::fetch_gradient(int chunk) {
  ops out;
  const int frame = grad_frame(chunk);
  const bool stored = is_stored(chunk);
  at(chunk).in_frame = at(chunk).place.grad_on_disk;
  if (stored && !std::exchange(at(chunk).brought, false)) read_gradient(out, chunk);
  if (gathers_) out.push_back(waiting({kind::summed, frame}, chunk));  // CHP-11
  const int before = freed_behind_[static_cast<size_t>(frame)];
  if (before >= 0) {  // CHP-12
    out.push_back(waiting({kind::measured, before}, before));
    out.push_back(waiting({kind::norms_known, before}, before));
  }
  const auto there = stored ? kind::gradient_read : kind::gradient_free;  // CHP-3, CHP-13
  out.push_back(waiting({there, frame}, chunk));
  return out;
}

/// CHP-13
void chunk_policy::read_gradient(ops& out, int chunk) {
  const auto& c = at(chunk);
  assert(!c.whole);
  auto read = on_lane(lane::gradients_in, chunk_act::read_gradient, chunk);
  read.passes = c.passes;
  read.behind[0] = {kind::gradient_free, grad_frame(chunk)};
  read.behind[1] = {kind::gradient_written, chunk};
  read.marks = {kind::gradient_read, grad_frame(chunk)};
  out.push_back(read);
}

/// Into the frame that this chunk leaves: backward goes through chunks in reverse, and begins anew
/// with the next micro-batch. What is whole comes no more.
void chunk_policy::bring_next_gradient(ops& out, int chunk) {
  for (int back = 1; back < chunks(); ++back) {
    const int next = (chunk - back + chunks()) % chunks();
    auto& c = at(next);
    if (!c.place.grad_on_disk || grad_frame(next) != grad_frame(chunk)) continue;
    if (!is_stored(next) || c.whole || std::exchange(c.brought, true)) return;
    return read_gradient(out, next);
  }
}

chunk_policy::ops chunk_policy::store_gradient(int chunk, bool whole) {
  auto& c = at(chunk);
  assert(c.place.grad_on_disk && c.in_frame && !c.whole && !c.shared);
  c.in_frame = false;
  c.whole = whole;
  auto write = on_lane(lane::gradients_out, chunk_act::write_gradient, chunk);
  write.passes = ++c.passes;
  write.whole = whole;
  write.behind[0] = whole_gradient(chunk);
  write.marks = {kind::gradient_written, chunk};
  ops out;
  if (!std::exchange(c.summed, false)) out.push_back(marking(lane::compute, {kind::computed}));
  auto clear = on_lane(lane::gradients_out, chunk_act::clear_gradient, chunk);
  clear.marks = {kind::gradient_free, grad_frame(chunk)};
  out.push_back(write);
  out.push_back(clear);
  bring_next_gradient(out, chunk);
  return out;
}

/// CHP-11.
chunk_policy::ops chunk_policy::sum_gradient(int chunk) {
  assert(gathers_);
  at(chunk).summed = true;
  freed_behind_[static_cast<size_t>(grad_frame(chunk))] = -1;
  auto sum = on_lane(lane::gather, chunk_act::sum_gradient, chunk);
  sum.behind[0] = {kind::computed};
  sum.marks = {kind::summed, grad_frame(chunk)};
  return {marking(lane::compute, {kind::computed}), sum};
}

chunk_policy::ops chunk_policy::drop_gradient(int chunk) {
  assert(at(chunk).passes == 0);
  const bool summed = std::exchange(at(chunk).summed, false);
  const auto on = summed ? lane::gather : lane::compute;
  return {marking(on, {kind::gradient_free, grad_frame(chunk)})};
}

/// Behind what a gradient is whole, and all is known that its update needs. CHP-2, CHP-11.
chunk_point chunk_policy::whole_gradient(int chunk) const {
  if (at(chunk).shared) return {kind::norms_known, chunk};  // CHP-12
  return at(chunk).summed ? chunk_point{kind::summed, grad_frame(chunk)}
                          : chunk_point{kind::computed};
}

chunk_policy::ops chunk_policy::await_state(int chunk) {
  if (!at(chunk).place.on_disk) return {};
  return {waiting({kind::written, chunk})};
}

chunk_policy::ops chunk_policy::measure(int chunk) {
  const auto& c = at(chunk);
  ops out{marking(lane::compute, {kind::computed})};
  for (int g = 0; g < c.place.groups; ++g)
    measure_group(out, group_of(chunk, g, c.moments_are_zero));
  out.push_back(marking(lane::update, {kind::measured, chunk}));
  out.push_back(waiting({kind::measured, chunk}));  // CHP-8
  return out;
}

/// CHP-12.
chunk_policy::ops chunk_policy::share_norms(int chunk, counts when) {
  auto& c = at(chunk);
  assert(gathers_ && c.summed && !c.shared);
  ops out;
  for (int g = 0; g < c.place.groups; ++g) {
    auto group = group_of(chunk, g, c.moments_are_zero);
    group.when = when;
    measure_group(out, group);
  }
  out.push_back(marking(lane::update, {kind::measured, chunk}));
  auto gathered = on_lane(lane::gather, chunk_act::gather_norms, chunk);
  gathered.behind[0] = {kind::measured, chunk};
  gathered.marks = {kind::norms_known, chunk};
  out.push_back(gathered);
  c.shared = true;
  measured_ = chunk;
  freed_behind_[static_cast<size_t>(grad_frame(chunk))] = chunk;
  return out;
}

chunk_policy::ops chunk_policy::begin_update(int chunk) {
  ops out;
  auto& c = at(chunk);
  assert(c.begun.empty());
  for (int g = 0; g < std::min(c.place.groups, slots_ - 1); ++g) {
    c.begun.push_back(group_of(chunk, g, c.moments_are_zero));
    read_group(out, c.begun.back());
  }
  return out;
}

chunk_policy::ops chunk_policy::update(int chunk, counts when, bool measured, bool rows) {
  auto& c = at(chunk);
  assert(!rows || (!measured && !gathers_ && !shares_weights(chunk) && when == counts::at_once));
  const auto begun = std::exchange(c.begun, {});
  assert(begun.empty() || !measured);
  const bool zero = std::exchange(c.moments_are_zero, false);
  if (when == counts::once_settled) c.moments_were_zero = zero;
  ops out;
  if (!c.summed) out.push_back(marking(lane::compute, {kind::computed}));
  const auto next = [&](int g) {
    auto group = group_of(chunk, g, zero);
    group.when = when;
    return group;
  };
  for (int g = 0; measured && g < c.place.groups; ++g) measure_group(out, next(g));  // CHP-8
  if (rows) update_rows(out, next(0));
  for (int g = 0; g < c.place.groups; ++g) {
    const bool is_read = static_cast<size_t>(g) < begun.size();
    auto group = is_read ? begun[static_cast<size_t>(g)] : next(g);
    group.when = when;
    if (!is_read) read_group(out, group);
    update_read(out, group);
  }
  out.push_back(marking(lane::state_out, {kind::written, chunk}));
  const bool from_file = is_stored(chunk);
  if (!from_file) out.push_back(marking(lane::update, {kind::gradient_free, grad_frame(chunk)}));
  if (!shares_weights(chunk)) out.push_back(marking(lane::update, {kind::arrived, chunk}));
  forget_weights(chunk);  // the frame has those before
  c.summed = c.shared = c.whole = c.in_frame = false;
  c.passes = 0;
  if (c.place.grad_on_disk && !from_file) bring_next_gradient(out, chunk);
  return out;
}

chunk_policy::ops chunk_policy::fetch_rows(int chunk) {
  return {waiting({kind::rows_ready, chunk}, chunk)};
}

/// On its way into a slot.
chunk_op chunk_policy::group_of(int chunk, int number, bool moments_are_zero) {
  auto out = on_lane(lane::state_in, chunk_act::read_state, chunk);
  out.group = number;
  out.slot = take_slot();
  out.moments_are_zero = moments_are_zero;
  if (is_stored(chunk)) out.passes = at(chunk).passes;
  return out;
}

/// From a drive into a slot. Of a chunk's groups the others are behind what the first waits for.
void chunk_policy::read_group(ops& out, const chunk_op& group) const {
  const bool first = group.group == 0;
  auto& read = out.emplace_back(group);
  read.behind[0] = {kind::slot_free, group.slot};            // CHP-3
  if (first) read.behind[1] = {kind::written, group.chunk};  // CHP-1
  if (first && group.passes > 0) read.behind[2] = {kind::gradient_written, group.chunk};  // CHP-13
  read.marks = {kind::group_read, group.slot};
}

/// What is done with it there.
chunk_op& chunk_policy::use_read(ops& out, const chunk_op& group, chunk_act what) const {
  const bool first = group.group == 0;
  auto& use = out.emplace_back(group);
  use.on = lane::update;
  use.what = what;
  use.behind[0] = {kind::group_read, group.slot};  // CHP-2
  if (first) use.behind[1] = whole_gradient(group.chunk);
  return use;
}

chunk_op& chunk_policy::use_group(ops& out, const chunk_op& group, chunk_act what) const {
  read_group(out, group);
  return use_read(out, group, what);
}

/// The slot is free again once that was looked at.
void chunk_policy::measure_group(ops& out, const chunk_op& group) const {
  use_group(out, group, chunk_act::measure).marks = {kind::slot_free, group.slot};
}

/// CHP-10. Read beside the groups that are on their way, and updated before all of them.
void chunk_policy::update_rows(ops& out, const chunk_op& rows) const {
  auto read = rows;
  read.on = lane::rows_in;
  read.what = chunk_act::read_rows;
  use_group(out, read, chunk_act::update_rows).marks = {kind::slot_free, rows.slot};
  out.push_back(marking(lane::update, {kind::rows_ready, rows.chunk}));
}

/// From a slot, into which it was read, back to the drive.
void chunk_policy::update_read(ops& out, const chunk_op& group) const {
  use_read(out, group, chunk_act::update).marks = {kind::group_updated, group.slot};
  const bool first = group.group == 0;
  auto& write = out.emplace_back(group);
  write.on = lane::state_out;
  write.what = chunk_act::write_state;
  write.behind[0] = {kind::group_updated, group.slot};                             // CHP-2
  if (first && group.when == counts::at_once) write.behind_readers = group.chunk;  // CHP-5
  write.marks = {kind::slot_free, group.slot};
}

chunk_policy::ops chunk_policy::settle() {
  auto settled = on_lane(lane::state_out, chunk_act::settle);
  settled.behind[0] = {kind::computed};
  settled.behind_readers = chunk_op::every_chunk;  // CHP-5
  settled.marks = {kind::written, chunk_point::all};
  return {marking(lane::compute, {kind::computed}), settled};
}

chunk_policy::ops chunk_policy::dropped() {
  ops out;
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    auto& c = at(chunk);
    if (!c.place.on_disk) continue;
    c.moments_are_zero = c.moments_were_zero;
    if (shares_weights(chunk)) continue;  // read when they are needed
    assert(!c.gathered);  // those of replicas are gathered when they are needed (CHP-9)
    auto back = on_lane(lane::weights_in, chunk_act::read_weights, chunk);
    back.behind[0] = {kind::written, chunk};  // CHP-1
    back.marks = {kind::arrived, chunk};
    out.push_back(back);
  }
  return out;
}

chunk_policy::ops chunk_policy::keep() {
  auto kept = on_lane(lane::state_out, chunk_act::keep);
  kept.behind[0] = {kind::weights_read};  // it may copy what an earlier checkpoint has
  kept.behind_readers = chunk_op::every_chunk;
  kept.marks = {kind::written, chunk_point::all};
  return {marking(lane::weights_in, {kind::weights_read}), kept};
}

void chunk_policy::all_set_anew() {
  for (int chunk = 0; chunk < chunks(); ++chunk) forget_weights(chunk);
}

void chunk_policy::masters_set(int chunk) {
  forget_weights(chunk);
}

bool chunk_policy::moments_set(int chunk) {
  return std::exchange(at(chunk).moments_are_zero, false);
}

}  // namespace troupe::gpu
