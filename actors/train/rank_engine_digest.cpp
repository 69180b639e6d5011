// What replicas compare of their weights.
//
// These are equal to the bit from one gathering to the next update. Those in frames that layers
// share are digested when the step's last backward leaves them: for a later look they would be read
// and gathered anew, alike for all. All others are digested at the step's very end, right before
// the update, or before the backward that makes it: what changed anywhere since they were gathered
// is still there. A step whose passes are made twice, or again, digests in the first of them.
#include <utility>
#include <vector>

#include "actors/train/rank_engine.hpp"

namespace troupe::train {

void rank_engine::digest_chunk(int chunk) {
  const auto& store = model_->store();
  digested_.push_back(chunk);
  digests_->enqueue(*compute_, store.weight(chunk), store.bytes(chunk, gpu::part::weight));
}

bool rank_engine::shares_frame(int chunk) const {
  return options_.shape.where.of(chunk).weight_frame >= 0;
}

/// Within the operation that leaves it: its time is no part of that one's.
void rank_engine::digest_leaving(int chunk) {
  if (!shares_frame(chunk)) return;
  compute_->stamp([this](double at_ms) { digest_begun_ms_ = at_ms; });
  digest_chunk(chunk);
  const auto bytes = model_->store().bytes(chunk, gpu::part::weight);
  compute_->stamp([this, bytes](double at_ms) {
    clock_.did_within(pipeline_op::digest, at_ms - digest_begun_ms_, bytes);
  });
}

void rank_engine::digest_weights() {
  if (!replicas_) return;
  auto& store = model_->store();
  size_t all = 0;
  for (int c = 0; c < store.chunk_count(); ++c)
    all += shares_frame(c) ? 0 : store.bytes(c, gpu::part::weight);
  probed({pipeline_op::digest, 0, all}, [&] {
    for (int c = 0; c < store.chunk_count(); ++c) {
      if (shares_frame(c)) continue;
      store.fetch_weights(*compute_, c);  // PS-6
      digest_chunk(c);
      store.release_weights(*compute_, c);
    }
  });
}

/// By chunk, as the compute stream has made them in this order; 0 of one that nobody was to digest.
std::vector<uint64_t> rank_engine::digests_of(const std::vector<int>& chunks) {
  const auto made = digests_->take();
  if (made.empty()) return {};
  std::vector<uint64_t> out(static_cast<size_t>(model_->store().chunk_count()));
  for (size_t i = 0; i < chunks.size() && i < made.size(); ++i)
    out[static_cast<size_t>(chunks[i])] = made[i];
  return out;
}

}  // namespace troupe::train
