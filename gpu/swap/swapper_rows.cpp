// How chunks are updated, and rows of a table before the rest of it: see swapper.hpp (SWP-14).
//
//   update  what backward has made the gradient of last, a token table, is left; groups of its
//           state are read meanwhile, into all slots but one
//   rows    the next pass says which rows its embedding reads: these are read into that slot, their
//           gradients copied beside them, and updated by the optimizer's kernel as any element is;
//           the embedding waits for their weights
//   groups  behind that all groups are updated and written as ever, these rows among them: out of
//           the state as it was, into the state as it is to be
//
// An update's elements do not know each other, so these rows get the same bits twice.
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "gpu/swap/swapper.hpp"

namespace troupe::gpu {

namespace {

using io::state_part;
using range = io::swap_io::range;

}  // namespace

void swapper::update(stream& compute, optimizer& rule, int chunk, float lr, int64_t step,
                     counts when) {
  finish_update();
  enqueue_update(compute, chunk, {&rule, lr, step}, when);
  store_.weights_changed(chunk);
}

void swapper::update_for_rows(stream& compute, optimizer& rule, int chunk, float lr, int64_t step) {
  if (!may_wait_for_rows(rule, chunk)) return update(compute, rule, chunk, lr, step);
  finish_update();
  late_ = late_update{&compute, chunk, {&rule, lr, step}};
  for (const auto& op : order_->begin_update(chunk))
    carry_out(op, &compute, [&](stream& s) { use_group(s, op, late_->how); });
  store_.weights_changed(chunk);
}

/// Whether the host can update some of its elements by themselves, in weights that are all there.
bool swapper::may_wait_for_rows(const optimizer& rule, int chunk) const {
  const auto home = where_.of(chunk);
  return rule.settings().kind == optimizer_step_args::rule::adamw &&
         store_.owner().host_accessible() && store_.options().replica.ranks == 1 &&
         home.state_on_disk && home.weight_frame < 0 && home.grad_frame < 0;
}

/// What was left is enqueued, with the rows that are known by now.
void swapper::finish_update() {
  if (!late_) return;
  const auto left = *std::exchange(late_, std::nullopt);
  enqueue_update(*left.compute, left.chunk, left.how, counts::at_once);
}

void swapper::enqueue_update(stream& compute, int chunk, const update_call& how, counts when) {
  assert(when == counts::at_once || where_.speculates);
  const bool measured = how.rule->measures_pieces(chunk);
  assert(!measured || how.rule->settings().norm_elements == where_.group_elements);
  at(chunk).rounded.updated(how.step, when);
  for (const auto& op : order_->update(chunk, when, measured, how.rows != nullptr))
    carry_out(op, &compute, [&](stream& s) { use_group(s, op, how); });
}

bool swapper::fetch_rows(stream& s, int chunk, int64_t width, row_ids ids) {
  if (!late_ || late_->chunk != chunk) return false;
  assert(store_.info(chunk).tensors.front().offset == 0);
  const auto& c = at(chunk);
  first_rows rows;
  rows.pieces = pieces_of_rows(c.layout, {width, store_.slice(chunk).count / width}, ids,
                               swap_slot_bytes(c.layout));
  if (rows.pieces.empty()) return false;
  int64_t elements = 0, skipped = 0;
  for (const auto& p : rows.pieces) {
    rows.spans.push_back(spans_within(store_.spans(chunk), p.first, p.count, skipped));
    elements += p.count;
  }
  rows_first_ += static_cast<uint64_t>(elements / width);
  late_->how.rows = std::make_shared<const first_rows>(std::move(rows));
  finish_update();
  for (const auto& op : order_->fetch_rows(chunk)) await(s, chunk, op);
  return true;
}

/// What an operation does with a group, or with rows, if it is of any.
void swapper::use_group(stream& s, const chunk_op& op, const update_call& how) {
  if (op.what == chunk_act::none) return;
  const auto& layout = at(op.chunk).layout;
  const auto probed = [&](swap_op kind, uint64_t bytes, const std::function<void()>& work) {
    enqueue(s, kind, op.chunk, bytes, work);
  };
  if (op.what == chunk_act::read_gradient) return use_gradient(s, op);
  const auto with_gradient = op.passes > 0 ? gradients_->layout(op.chunk).group_bytes(op.group) : 0;
  if (op.what == chunk_act::read_state)
    probed(swap_op::read_state, layout.group_bytes() + with_gradient, [&] { read_group(op); });
  else if (op.what == chunk_act::read_rows)
    read_rows(op, how);
  else if (op.what == chunk_act::update_rows)
    probed(swap_op::update, 0, [&] { update_rows(op, how); });
  else if (op.what == chunk_act::measure)
    probed(swap_op::update, 0, [&] { how.rule->measure(s, piece_of(op), how.lr, how.step); });
  else if (op.what == chunk_act::update)
    probed(swap_op::update, 0, [&] { update_group(op, how); });
  else if (op.what == chunk_act::write_state)
    probed(swap_op::write_state, swap_write_bytes(layout), [&] { write_group(op); });
}

void swapper::read_rows(const chunk_op& op, const update_call& how) {
  // No bytes are told: they are others each step, and no part of what steps have in common.
  enqueue(*rows_in_, swap_op::read_state, op.chunk, 0, [&] {
    work_.enqueue(*rows_in_, [this, &s = slot_of(op), op, rows = how.rows] {
      return read_rows(s, op, *rows);
    });
  });
}

/// On a stream's thread. Sums are of whole groups: see compare_rows().
status swapper::read_rows(const slot& s, const chunk_op& op, const first_rows& rows) {
  const auto& c = at(op.chunk);
  const size_t there = op.moments_are_zero ? 1 : io::state_parts;
  for (;;) {
    const auto file = state_file_of(c);
    std::vector<range> all;
    for (const auto& p : rows.pieces)
      for (size_t i = 0; i < there; ++i)
        all.push_back({file.id,
                       c.layout.offset(p.group, static_cast<state_part>(i)) + p.offset,
                       {s.host + p.at + i * p.span, p.span}});
    const auto read = io_->read(all, s.owner);
    if (read) break;
    if (!await_moved(c, file.id)) return read;  // SWP-11
  }
  for (const auto& p : rows.pieces)
    std::memset(s.host + p.at + there * p.span, 0, (io::state_parts - there) * p.span);
  return {};
}

std::byte* swapper::frame_at(int chunk, int64_t element) const {
  return static_cast<std::byte*>(store_.weight_slice(chunk)) +
         static_cast<size_t>(element) * size_of(store_.options().compute);
}

void swapper::update_rows(const chunk_op& op, const update_call& how) {
  const auto& rows = *how.rows;
  auto* memory = slot_of(op).host;
  const bool separate = !at(op.chunk).layout.weights_are_masters();
  const auto floats = [=](uint64_t offset) { return reinterpret_cast<float*>(memory + offset); };
  for (size_t i = 0; i < rows.pieces.size(); ++i) {
    const auto& row = rows.pieces[i];
    const size_t bytes = static_cast<size_t>(row.count) * sizeof(float);
    auto* gradient = floats(row.gradient());
    update_->copy(gradient, store_.grad_slice(op.chunk) + row.first, bytes);
    optimizer::piece p;
    p.chunk = op.chunk;
    p.first = row.first;
    p.count = row.count;
    p.spans = &rows.spans[i];
    p.master = floats(row.array(state_part::master));
    p.m = floats(row.array(state_part::exp_avg));
    p.v = floats(row.array(state_part::exp_avg_sq));
    p.weight = separate ? static_cast<void*>(frame_at(op.chunk, row.first)) : p.master;
    p.grad = gradient;  // which an update zeroes: the group's takes the store's
    how.rule->step(*update_, p, how.lr, how.step);
    if (!separate) update_->copy(frame_at(op.chunk, row.first), p.master, bytes);
  }
  update_->notify([rows = how.rows](const status&) {});  // until here they are used
}

/// Between tensors an update writes nothing: weights have zeros there, as they have in memory, and
/// not what the slot had before.
void swapper::update_group(const chunk_op& op, const update_call& how) {
  const auto p = piece_of(op);
  int64_t covered = 0;
  for (const auto& span : *p.spans) covered += span.count;
  if (!at(op.chunk).layout.weights_are_masters() && covered < p.count)
    update_->zero(p.weight, static_cast<size_t>(p.count) * size_of(store_.options().compute));
  how.rule->step(*update_, p, how.lr, how.step);
  if (where_.of(op.chunk).weight_frame < 0) copy_to_frame(op, p, how);  // RES-1
}

/// A copy that is kept current: of what rows have not brought there before (SWP-14).
void swapper::copy_to_frame(const chunk_op& op, const optimizer::piece& p, const update_call& how) {
  const auto size = size_of(store_.options().compute);
  int64_t from = p.first;
  const auto copy_up_to = [&](int64_t end) {
    if (from < end)
      update_->copy(frame_at(op.chunk, from),
                    static_cast<std::byte*>(p.weight) + static_cast<size_t>(from - p.first) * size,
                    static_cast<size_t>(end - from) * size);
  };
  if (how.rows)
    for (const auto& row : how.rows->pieces) {
      if (row.group != op.group) continue;
      copy_up_to(row.first);
      from = row.first + row.count;
    }
  copy_up_to(p.first + p.count);
  if (!how.rows || !options_.verify) return;
  work_.enqueue(*update_, [this, op, p, rows = how.rows] { return compare_rows(op, p, *rows); });
}

/// On a stream's thread. What the group's sum vouches for is what the rows were updated to.
status swapper::compare_rows(const chunk_op& op, const optimizer::piece& p,
                             const first_rows& rows) {
  const auto size = size_of(store_.options().compute);
  for (const auto& row : rows.pieces) {
    if (row.group != op.group) continue;
    const auto* whole =
        static_cast<const std::byte*>(p.weight) + static_cast<size_t>(row.first - p.first) * size;
    if (std::memcmp(whole, frame_at(op.chunk, row.first), static_cast<size_t>(row.count) * size) !=
        0)
      return swap_rows_differ(
          state_file_of(at(op.chunk)).name.string(),
          fmt::format("elements {} to {}", row.first, row.first + row.count - 1));
  }
  return {};
}

void swapper::all_set_anew() {
  finish_update();
  order_->all_set_anew();
}

}  // namespace troupe::gpu
