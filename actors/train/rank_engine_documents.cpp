// What of an engine's rows lies in one document: what attention that is reset has to do.
#include <span>

#include "actors/train/rank_engine.hpp"
#include "io/data/document_bounds.hpp"

namespace troupe::train {

uint64_t rank_engine::pairs_of(std::span<const gpu::stage_model::micro_batch> batches) const {
  const auto tokens = static_cast<size_t>(options_.shape.micro_batch * options_.shape.seq);
  uint64_t pairs = 0;
  for (const auto& b : batches)
    if (b.documents.first != nullptr)
      pairs += io::document_pairs({b.documents.first, tokens}, {b.documents.end, tokens});
  return pairs;
}

}  // namespace troupe::train
