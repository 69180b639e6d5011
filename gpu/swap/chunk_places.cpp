// Sums over chunks.
#include "gpu/swap/chunk_places.hpp"

#include "gpu/model/spill_layout.hpp"
#include "gpu/model/stage_model.hpp"

namespace troupe::gpu {

std::vector<place_bytes> bytes_of_places(const model_config& model, const stage_shape& shape,
                                         size_t places) {
  std::vector<place_bytes> out(places);
  const auto chunks = stage_chunks(model, shape);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const auto chunk = static_cast<int>(c);
    if (!shape.where.of(chunk).state_on_disk) continue;
    const auto slice = slice_of(chunks[c].count, shape.replica);
    const auto file = swap_layout(slice, shape.where, shape.compute);
    auto& at = out[place_of_chunk(chunk, places)];
    at.files += swap_file_bytes(slice, file, shape.where, chunk);
    if (!chunks[c].tied_copy) at.state += file.state_bytes();
  }
  const spill_layout spill(shape);
  if (spill.records() == 0) return out;
  const auto each = plan_stage(model, shape).spill_bytes / static_cast<uint64_t>(spill.records());
  for (size_t i = 0; i < places; ++i) out[i].files += each * spill.records_of(i, places);
  return out;
}

}  // namespace troupe::gpu
