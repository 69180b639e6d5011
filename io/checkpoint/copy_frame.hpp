// What an owner and its keeper say to each other of copies in memory: frames over a connection that
// is theirs alone (gpu/collective/copy_link.hpp).
//
//   owner   put: header, sums, bytes    --->
//           <--- done: header                 it is held whole; refused: it is not
//   owner   get: header                 --->
//           <--- share: header, sums, bytes   or refused: header
//
//   header (64 bytes, little-endian): u64 mark | u32 kind | u32 rank | u64 epoch | u64 step |
//     u32 data, u32 tensor, u32 pipeline ranks | u32 slot bytes | u64 stream bytes |
//     u32 zero | u32 crc32c of the 60 bytes before
//   sums: u32 for each slot
//
// Invariants
//   CF-1  Nothing of a header is used before its checksum and its bounds were found right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/base/result.hpp"
#include "io/checkpoint/memory_copies.hpp"

namespace troupe::io::checkpoint {

enum class copy_frame_kind : uint32_t { put = 1, get, done, refused, share };

struct copy_frame {
  static constexpr size_t bytes = 64;
  /// Slots of a share, at most: with their sums they stay far below its bytes.
  static constexpr uint64_t most_slots = uint64_t{1} << 24;

  copy_frame_kind kind = copy_frame_kind::put;
  int rank = 0;
  copy_tag tag;
  copy_shape shape;
  bool operator==(const copy_frame&) const = default;
};

std::array<std::byte, copy_frame::bytes> encode(const copy_frame& f);
/// Foreign: bad_data with what is wrong (CF-1).
result<copy_frame> parse_copy_frame(std::span<const std::byte> bytes);

}  // namespace troupe::io::checkpoint
