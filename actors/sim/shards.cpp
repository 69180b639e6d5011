// Slots full of one word.
#include "actors/sim/shards.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "actors/sim/rng.hpp"

namespace troupe::sim {

namespace cp = io::checkpoint;

namespace {

constexpr auto patience = std::chrono::seconds(60);

uint32_t word_of(const cp::manifest_head& head) {
  return static_cast<uint32_t>(mix(head.step << 32 | head.epoch));
}

/// Whole words everywhere: a slot and a tensor begin at one.
void fill(std::span<std::byte> bytes, uint32_t word) {
  for (size_t at = 0; at + sizeof(word) <= bytes.size(); at += sizeof(word))
    std::memcpy(bytes.data() + at, &word, sizeof(word));
}

}  // namespace

result<cp::shard_facts> save_share(io::disk& d, const std::shared_ptr<io::slots>& ring,
                                   const std::filesystem::path& partial,
                                   const cp::manifest_head& head, const cp::rank_plan& plan) {
  std::optional<result<cp::shard_facts>> vote;
  TROUPE_TRY(save, cp::rank_save::create(d, partial, head, plan,
                                         [&](const auto& answer) { vote = answer; }));
  const auto take_some = [&] {
    for (auto& done : d.wait(1, patience)) save->take(done);
  };
  const auto& fills = save->captures().fills;
  for (uint64_t number = 0; number < fills.size() && !vote; ++number) {
    auto lease = ring->try_take();
    while (!lease && !vote && d.under_way() > 0) {
      take_some();
      lease = ring->try_take();
    }
    if (!lease) break;
    fill(lease->bytes().first(fills[number].bytes), word_of(head));
    TROUPE_CHECK(save->filled(std::move(*lease), number));
  }
  while (!vote && d.under_way() > 0) take_some();
  if (!vote)
    return error{errc::timeout, fmt::format("the disk does not answer rank {}", plan.rank)};
  return *vote;
}

status check_share(const cp::reader& checkpoint, const cp::rank_plan& plan) {
  if (plan.pieces.empty()) return {};
  const auto& piece = plan.pieces.front().what;
  TROUPE_TRY(bytes, checkpoint.read_tensor(piece.tensor, piece.which));
  const uint32_t word = word_of(checkpoint.content().head);
  for (size_t at = 0; at + sizeof(word) <= bytes.size(); at += sizeof(word))
    if (std::memcmp(bytes.data() + at, &word, sizeof(word)) != 0)
      return error{errc::bad_data,
                   fmt::format("{} is of another save at byte {}", piece.tensor, at)};
  return {};
}

}  // namespace troupe::sim
