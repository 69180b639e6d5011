// block_pool: the memory of messages, kept by each thread for its next messages.
//
// A message lives for microseconds and is mostly freed where messages are also made. malloc's own
// cache holds seven pieces of a size up to 1 KiB; beyond it a message of 200 bytes or of 4 KiB
// takes the slow path of malloc and of free. Here a thread keeps up to 64 pieces of a size.
//
// BP-1  Pieces are 16-byte aligned and come from malloc; any thread may give back what another
//       took.
// BP-2  What a thread keeps is bounded by keep_bytes for each class of sizes; the rest goes to
//       free.
#pragma once

#include <cstddef>

namespace troupe::detail {

/// Sizes up to this are kept; larger ones come and go by malloc and free.
inline constexpr size_t largest_kept_bytes = size_t{64} << 10;

/// The most a thread keeps of one class of sizes, in bytes (but always room for two pieces).
inline constexpr size_t keep_bytes = size_t{64} << 10;

/// At least `bytes` of memory; nullptr where there is none.
void* take_memory(size_t bytes) noexcept;

/// Gives memory back; `bytes` as it was asked for.
void give_memory(void* memory, size_t bytes) noexcept;

/// What the calling thread keeps at the moment, in bytes.
size_t kept_memory() noexcept;

}  // namespace troupe::detail
