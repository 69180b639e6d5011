// Gradients that leave their frames for the drive: see swapper.hpp (SWP-17).
//
//   out     behind each micro-batch but the last the frame is summed and written, and zeroed for
//           the chunk that has it next; behind the last, where the update is not yet to take it,
//           what the update is to take: of replicas the own slice of the sum
//   in      as soon as its frame is free and it is the next there, the gradient comes back, and the
//           next micro-batch adds to it
//   a write fails  the gradient goes into another file, out of its frame (swapper_move.cpp)
//   update  reads each group beside the group's state (swapper_read.cpp)
//
// So each element has the terms that it has in memory, added in the same order.
#include <utility>

#include <fmt/format.h>

#include "gpu/swap/swapper.hpp"

namespace troupe::gpu {

status swapper::make_gradients() {
  uint64_t most = 0;
  for (int c = 0; c < store_.chunk_count(); ++c) {
    if (!where_.gradient_on_disk(c)) continue;
    if (!gradients_) gradients_.emplace(io_, options_.verify, store_.chunk_count());
    const gradient_file layout(store_.slice(c), at(c).layout);
    const auto place = place_of_chunk(c, options_.places.size());
    const auto name = root(place) / fmt::format("gradients-{:04}", c);
    TROUPE_CHECK(gradients_->make(c, {name, io::file_id::none, place}, layout));
    most = std::max(most, layout.whole_bytes());
  }
  if (most == 0 || store_.owner().host_accessible()) return {};
  TROUPE_TRY(out, make_slot(most, true));
  gradient_out_ = std::move(out);
  TROUPE_TRY(in, make_slot(most, true));
  gradient_in_ = std::move(in);
  return {};
}

void swapper::store_gradient(stream& compute, int chunk, bool whole) {
  for (const auto& op : order_->store_gradient(chunk, whole))
    carry_out(op, &compute, [&](stream& s) { use_gradient(s, op); });
}

/// What an operation does with a frame, if it is of one.
void swapper::use_gradient(stream& s, const chunk_op& op) {
  if (op.what == chunk_act::clear_gradient)
    return s.zero(store_.grad(op.chunk), store_.bytes(op.chunk, part::grad));
  const bool writes = op.what == chunk_act::write_gradient;
  if (!writes && op.what != chunk_act::read_gradient) return;
  const auto& layout = gradients_->layout(op.chunk);
  const auto bytes = op.whole ? layout.slice_bytes() : layout.whole_bytes();
  enqueue(s, writes ? swap_op::write_state : swap_op::read_state, op.chunk, bytes,
          [&] { writes ? write_gradient(s, op) : read_gradient(s, op); });
}

/// What a disk reads and writes, and whoever keeps it alive.
std::pair<std::span<std::byte>, std::shared_ptr<void>> swapper::gradient_memory(
    int chunk, const slot& twin) const {
  const auto bytes = gradients_->layout(chunk).whole_bytes();
  if (twin.host != nullptr) return {{twin.host, bytes}, twin.owner};
  auto* frame = reinterpret_cast<std::byte*>(store_.grad(chunk));
  return {{frame, bytes}, store_.memory_of(chunk, part::grad)};
}

/// Of replicas the own slice goes to the frame's beginning, as a disk needs it, with zeros up to
/// the end of its last block; what was there is others' part of the sum.
void swapper::write_gradient(stream& s, const chunk_op& op) {
  const auto& layout = gradients_->layout(op.chunk);
  const auto& slice = store_.slice(op.chunk);
  auto* frame = reinterpret_cast<std::byte*>(store_.grad(op.chunk));
  if (op.whole && layout.slice_offset() > 0) {
    const auto there = static_cast<size_t>(slice.part) * sizeof(float);
    if (slice.first > 0) s.copy(frame, store_.grad_slice(op.chunk), there);
    if (there < layout.slice_bytes()) s.zero(frame + there, layout.slice_bytes() - there);
  }
  const auto [memory, owner] = gradient_memory(op.chunk, gradient_out_);
  if (gradient_out_.host != nullptr) s.copy(memory.data(), frame, memory.size());
  work_.enqueue(s, [this, op, memory = memory, owner = owner] {
    return gradients_->write(
        op.chunk, {op.passes, op.whole}, memory, [&](placed_file& file, io::swap_io::range what) {
          const target one{op.chunk, &file, contents::gradient, nullptr, 0, what};
          return put({&one, 1}, owner);
        });
  });
}

void swapper::read_gradient(stream& s, const chunk_op& op) {
  const auto [memory, owner] = gradient_memory(op.chunk, gradient_in_);
  work_.enqueue(s, [this, op, memory = memory, owner = owner] {
    return gradients_->read(op.chunk, {op.passes, false}, memory, owner);
  });
  if (gradient_in_.host != nullptr) s.copy(store_.grad(op.chunk), memory.data(), memory.size());
}

}  // namespace troupe::gpu
