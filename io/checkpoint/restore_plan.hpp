// The restore plan: which slots of which shards to read, and where their bytes go. Pure.
//
// A reader says what it wants in elements of whole tensors; who wrote them and how is the
// manifest's affair. So any layout restores any other, and what is moved is bits.
//
// Invariants
// RP-1 Every wanted byte is copied exactly once.
// RP-2 Reads are of whole slots, each at most once, by file and offset: each byte that is used is
//      under a checksum that was computed over what was read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint/manifest.hpp"

namespace troupe::io::checkpoint {

/// A range of elements of one part of a tensor, and where its bytes shall go.
struct want {
  std::string tensor;  ///< full Hugging Face name
  part which = part::master;
  uint64_t first = 0;        ///< element of the row-major whole tensor
  uint64_t count = 0;        ///< elements
  uint64_t destination = 0;  ///< byte of the caller's own space
};

/// Bytes of a slot and where they go. May begin or end within an element.
struct slot_copy {
  uint64_t from = 0;  ///< byte of the slot
  uint64_t bytes = 0;
  uint64_t to = 0;  ///< byte of the caller's own space
  bool operator==(const slot_copy&) const = default;
};

/// One whole slot to read, check and copy from.
struct slot_read {
  uint32_t file = 0;        ///< index into manifest::files
  uint64_t slot = 0;        ///< of its CRC32C in the shard's footer
  uint64_t offset = 0;      ///< in the file, in bytes
  uint64_t bytes = 0;       ///< slot_bytes, less for the last
  size_t copies_begin = 0;  ///< into restore_plan::copies
  size_t copies_end = 0;
};

struct restore_plan {
  std::vector<slot_read> reads;   ///< RP-2
  std::vector<slot_copy> copies;  ///< of the reads, in their order; merged where they touch
  uint64_t read_bytes = 0;
  uint64_t wanted_bytes = 0;
};

/// Errors: not_found naming a tensor or part the checkpoint lacks; bad_data for elements outside.
result<restore_plan> plan_restore(const manifest& m, std::span<const want> wants);

/// Everything of the given parts, a batch at a time: wants of at most `batch_bytes` together, with
/// destinations packed from 0 in each batch. Tensors larger than a batch are cut, in elements.
std::vector<std::vector<want>> batches_of(const manifest& m, std::span<const part> parts,
                                          uint64_t batch_bytes);

}  // namespace troupe::io::checkpoint
