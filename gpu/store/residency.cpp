// Sizes by the layout of the files.
#include "gpu/store/residency.hpp"

#include <algorithm>

#include "gpu/store/store.hpp"
#include "io/disk/buffer_size.hpp"

namespace troupe::gpu {

io::chunk_file swap_layout(const chunk_slice& slice, const residency& where, dtype compute) {
  using enum io::chunk_weights;
  const auto rounded = where.derives_weights ? derived : stored;
  return {slice.part, where.group_elements, compute == dtype::f32 ? masters : rounded};
}

uint64_t weights_read_bytes(const io::chunk_file& file) {
  uint64_t out = 0;
  for (int g = 0; g < file.groups(); ++g)
    out += file.used_bytes(g, file.has_weights() ? 2 : sizeof(float));
  return out;
}

uint64_t swap_slot_bytes(const io::chunk_file& file) {
  return file.group_bytes() + file.rounded_array_bytes();
}

uint64_t swap_write_bytes(const io::chunk_file& file) {
  return file.group_bytes() + file.weights_array_bytes();
}

uint64_t masters_slot_bytes(const io::chunk_file& file, const residency& where, int chunk) {
  return file.derives_weights() && where.brings_weights(chunk) ? file.array_bytes() : 0;
}

uint64_t swap_slot_bytes(const io::chunk_file& file, const residency& where, int chunk) {
  return swap_slot_bytes(file) + (where.gradient_on_disk(chunk) ? file.array_bytes() : 0);
}

gradient_file::gradient_file(const chunk_slice& slice, const io::chunk_file& state)
    : state_(state),
      whole_bytes_(frame_size(static_cast<size_t>(slice.whole) * sizeof(float))),
      slice_offset_(slice.whole > slice.part ? whole_bytes_ : 0) {
  for (int g = 0; g < state.groups(); ++g) slice_bytes_ += group_bytes(g);
}

uint64_t swap_file_bytes(const chunk_slice& slice, const io::chunk_file& file,
                         const residency& where, int chunk) {
  const uint64_t versions = where.speculates ? 2 : 1;
  return versions * (file.state_bytes() + file.all_weights_bytes()) +
         (where.gradient_on_disk(chunk) ? gradient_file(slice, file).file_bytes() : 0);
}

swap_sizes swap_sizes_of(const std::vector<chunk_info>& chunks, const residency& where,
                         dtype compute, const replica_place& replica) {
  swap_sizes out;
  uint64_t slot = 0, group = 0, masters = 0;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const auto chunk = static_cast<int>(c);
    if (!where.of(chunk).state_on_disk) continue;
    const auto slice = slice_of(chunks[c].count, replica);
    const auto file = swap_layout(slice, where, compute);
    const auto bytes = swap_slot_bytes(file, where, chunk);
    slot = std::max(slot, io::buffer_bytes(bytes));
    group = std::max({group, io::buffer_bytes(file.group_bytes()),
                      io::state_parts * io::buffer_bytes(file.array_bytes())});
    masters = std::max(masters, masters_slot_bytes(file, where, chunk));
    out.file_bytes += swap_file_bytes(slice, file, where, chunk);
  }
  // And one group that a checkpoint reads meanwhile (swapper::read).
  out.slots_bytes = slot * static_cast<uint64_t>(where.groups_in_memory) + group;
  if (masters > 0) out.slots_bytes += masters_slots * io::buffer_bytes(masters);
  return out;
}

}  // namespace troupe::gpu
