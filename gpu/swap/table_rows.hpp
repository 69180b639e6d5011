// Which bytes of a chunk's file hold some rows of its table, and where they lie in a slot.
//
// Why: an embedding reads of a token table the rows of its batch, a small part of it. These can be
// updated before the rest (CHP-10), by state that is read for them alone.
//
//   slot  := piece*
//   piece := master exp_avg exp_avg_sq gradient     each of whole blocks of a disk
//
// Pure: a function of the layout, the ids and the slot's bytes.
//
// Invariants
//   TBR-1  Pieces are of different elements, in ascending order, each within one group; together
//          they are the rows.
//   TBR-2  What is read of a file for a piece is whole blocks within its array, and has a place of
//          its own in the slot.
//   TBR-3  There are none where the rows have no room in one slot, or where reading them is no less
//          than an eighth of reading all: who wants them wants the whole table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/store/residency.hpp"
#include "io/swap/chunk_file.hpp"

namespace troupe::gpu {

/// Elements of a row that lie in one group.
struct row_piece {
  int group = 0;
  int64_t first = 0, count = 0;   ///< elements of the slice
  uint64_t offset = 0, span = 0;  ///< bytes of each of the group's arrays that are read
  uint64_t skip = 0;              ///< of them before the first element
  uint64_t at = 0;                ///< where the piece begins in the slot, in bytes

  /// Where an array of the piece lies in the slot, from its first element on.
  uint64_t array(io::state_part which) const {
    return at + static_cast<uint64_t>(which) * span + skip;
  }
  uint64_t gradient() const { return at + io::state_parts * span; }
  bool operator==(const row_piece&) const = default;
};

/// Of a table that begins with the slice.
struct table_size {
  int64_t width = 0;  ///< elements of a row
  int64_t rows = 0;
};

/// The rows `ids` of a table. Empty: TBR-3, or where one is no row of it: ids come from memory that
/// others write.
std::vector<row_piece> pieces_of_rows(const io::chunk_file& layout, table_size table, row_ids ids,
                                      uint64_t slot_bytes);

}  // namespace troupe::gpu
