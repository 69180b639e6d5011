// Counters and the process's tag.
#include "actors/capture/identities.hpp"

#include <atomic>
#include <random>

namespace troupe {

namespace {

uint32_t draw_tag() {
  std::random_device entropy;
  uint32_t tag = 0;
  while (tag == 0) tag = entropy();
  return tag;
}

std::atomic<uint32_t> tag{0};
std::atomic<uint32_t> actors{0};

/// Threads take spans by the block, so that they do not fight over one counter.
constexpr uint32_t span_block = 1024;
std::atomic<uint32_t> blocks{0};
thread_local uint32_t span_at = 0;

}  // namespace

uint32_t process_tag() noexcept {
  auto now = tag.load(std::memory_order_relaxed);
  if (now != 0) return now;
  const auto drawn = draw_tag();
  return tag.compare_exchange_strong(now, drawn) ? drawn : now;
}

void fix_identities(uint32_t fixed) noexcept {
  tag = fixed;
  actors = 0;
  blocks = 0;
  span_at = 0;
}

uint64_t next_span() noexcept {
  if (span_at % span_block == 0)
    span_at = blocks.fetch_add(1, std::memory_order_relaxed) * span_block;
  return uint64_t{process_tag()} << 32 | ++span_at;  // never 0 below: the block's first is 1
}

uint32_t next_actor_number() noexcept {
  return actors.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace troupe
