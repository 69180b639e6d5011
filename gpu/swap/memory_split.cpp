// Sums over chunks on a drive.
#include "gpu/swap/memory_split.hpp"

#include <algorithm>

#include "gpu/model/spill_layout.hpp"
#include "gpu/store/store.hpp"
#include "io/disk/buffer_size.hpp"

namespace troupe::gpu {

memory_split split_of(const model_config& model, const stage_shape& shape) {
  const auto plan = plan_stage(model, shape);
  const auto& where = shape.where;
  if (!where.any_on_disk()) return {plan.total(), 0};
  uint64_t slot = 0, masters = 0, weights = 0, gradient = 0;
  const auto chunks = stage_chunks(model, shape);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const auto chunk = static_cast<int>(c);
    if (!where.of(chunk).state_on_disk) continue;
    const auto slice = slice_of(chunks[c].count, shape.replica);
    const auto file = swap_layout(slice, where, shape.compute);
    slot = std::max(slot, swap_slot_bytes(file, where, chunk));
    masters = std::max(masters, masters_slot_bytes(file, where, chunk));
    if (where.gradient_on_disk(chunk))  // SWP-17
      gradient = std::max(gradient, gradient_file(slice, file).whole_bytes());
    const auto slice_bytes = static_cast<size_t>(slice.part) * size_of(shape.compute);
    if (where.brings_weights(chunk) && !file.derives_weights())
      weights = std::max<uint64_t>(weights, frame_size(slice_bytes));
  }
  memory_split out{plan.total() - plan.swap_slots, plan.swap_slots};
  out.device_bytes += slot * static_cast<uint64_t>(where.groups_in_memory);
  out.device_bytes += masters_slots * masters;  // whose twins are among the plan's slots
  if (weights > 0) out.host_bytes += io::buffer_bytes(weights);
  if (gradient > 0) out.host_bytes += 2 * io::buffer_bytes(gradient);  // out, and in
  const spill_layout spill(shape);
  if (spill.records() == 0) return out;
  const auto frame = plan.spill_bytes / static_cast<uint64_t>(spill.records());
  out.host_bytes += static_cast<uint64_t>(spill.frames()) * io::buffer_bytes(frame);
  return out;
}

}  // namespace troupe::gpu
