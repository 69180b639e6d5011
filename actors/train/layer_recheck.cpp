// Numbers in, digests out, piece by piece.
#include "actors/train/layer_recheck.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "io/base/splitmix.hpp"

namespace troupe::train {

namespace {

/// Of odd length, so that a matrix which is made of many has no two equal rows near each other.
constexpr size_t piece_bytes = stream_hash::usual_piece_bytes - 97 * sizeof(float);

uint64_t likeness_of(const gpu::device& d, int threads) {
  const auto facts = d.facts();
  const auto what = fmt::format("{}\n{}\n{}", facts.name, facts.instruction_set,
                                d.host_accessible() ? threads : 0);
  return XXH64(what.data(), what.size(), 0);
}

}  // namespace

result<std::unique_ptr<layer_recheck>> layer_recheck::make(gpu::stage_model& model, int threads) {
  std::unique_ptr<layer_recheck> made(new layer_recheck(model, threads));
  TROUPE_TRY(hash, stream_hash::make(model.store().owner(), piece_bytes));
  made->hash_ = std::move(hash);
  return made;
}

layer_recheck::layer_recheck(gpu::stage_model& model, int threads)
    : model_(model), likeness_(likeness_of(model.store().owner(), threads)) {}

/// Of mean 0 and deviation 1 in the model's type.
void layer_recheck::fill_piece(uint64_t seed, size_t bytes) {
  const float width = 2 * std::sqrt(3.0f);
  const auto type = model_.shape().compute;
  const size_t each = gpu::size_of(type);
  for (size_t i = 0; i * each < bytes; ++i) {
    const auto whole = static_cast<float>(splitmix(seed + i) >> 40);  // 24 bits: exact
    const float value = (whole / float{1 << 24} - 0.5f) * width;
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto half = static_cast<uint16_t>(bits >> 16);
    std::memcpy(hash_->piece().data() + i * each,
                type == gpu::dtype::bf16 ? static_cast<const void*>(&half) : &bits, each);
  }
}

void layer_recheck::make_up(gpu::stream& s, void* into, size_t bytes, uint64_t seed) {
  const auto piece = hash_->piece();
  s.host_task([this, seed, some = std::min(bytes, piece.size())]() -> status {
    fill_piece(seed, some);
    return {};
  });
  for (size_t at = 0; at < bytes; at += piece.size())
    s.copy(static_cast<std::byte*>(into) + at, piece.data(), std::min(bytes - at, piece.size()));
}

/// LRC-1: behind it the layer's gradient is zero, as it was.
void layer_recheck::compute(gpu::stream& s, int slot, int layer, uint64_t number,
                            const spoiler& spoil) {
  auto& store = model_.store();
  const auto memory = model_.memory_of(slot, layer);
  const size_t bytes = model_.boundary_bytes();
  const auto seed =
      splitmix(splitmix(number) + static_cast<uint64_t>(store.info(memory.chunk).layer));
  make_up(s, memory.x, bytes, splitmix(seed + 1));
  make_up(s, memory.output_grad, bytes, splitmix(seed + 2));
  model_.run_layer(s, slot, layer);
  if (spoil) spoil(s, memory.y);
  hash_->enqueue(s, memory.y, bytes);
  hash_->enqueue(s, memory.input_grad, bytes);
  float* const gradient = store.grad(memory.chunk);
  for (const auto& t : store.info(memory.chunk).tensors)
    hash_->enqueue(s, gradient + t.offset, static_cast<size_t>(t.count) * sizeof(float));
  s.zero(gradient, store.bytes(memory.chunk, gpu::part::grad));
}

void layer_recheck::enqueue(gpu::stream& s, int slot, uint64_t number, bool twice,
                            const spoiler& spoil) {
  const int layer = static_cast<int>(number % static_cast<uint64_t>(model_.shape().layers()));
  compute(s, slot, layer, number, spoil);
  if (twice) compute(s, slot, layer, number, {});
  s.host_task([this, layer, twice]() -> status {
    health::recheck_result told;
    told.layer = static_cast<int>(model_.shape().first_layer) + layer;
    told.likeness = likeness_;
    told.digests = hash_->take();
    if (twice) {
      const auto half = told.digests.begin() + std::ssize(told.digests) / 2;
      told.again.assign(half, told.digests.end());
      told.digests.erase(half, told.digests.end());
      if (!known_) known_.emplace();
      // Where there is no memory for it nothing is known, which accuses nobody.
      if (const auto answer = known_->on_device(model_.store().owner()))
        told.known_wrong = answer->wrong;
    }
    told_ = std::move(told);
    return {};
  });
}

}  // namespace troupe::train
