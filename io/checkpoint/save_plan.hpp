// The save plan: which rank writes which elements. Pure; every process computes the same plan from
// the same facts, so nothing of it has to be sent.
//
// The replicas of a stage share its state: every chunk is cut into as many equal slices as there
// are replicas, and replica d has, and writes, the d-th of each. A replica's stream is its slices
// of the chunks in the order in which the optimizer touches them, in a slice part after part, in a
// part tensor after tensor.
//
// Invariants
// SP-1 Every element of every part of every tensor is in exactly one piece of one rank.
// SP-2 A rank's pieces are in the order of the stream, so its chunks are captured in the
//      optimizer's order; their stream offsets have no gaps (SF-1).
// SP-3 A rank's pieces lie in its slices, and nowhere else: it needs no element that another has.
// SP-4 A capture plan fills each slot of the rank's stream whole, in order, from chunks in order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "io/checkpoint/format.hpp"

namespace troupe::io::checkpoint {

/// One tensor of a chunk.
struct plan_tensor {
  std::string name;            ///< full Hugging Face name
  std::vector<int64_t> shape;  ///< in the store: [out, in] or [n]
  bool transposed = false;     ///< a Hugging Face file holds it as [in, out]
  uint64_t offset = 0;         ///< its first element in each part of the chunk
};

/// One part that is saved of a chunk.
struct plan_part {
  part which = part::master;
  tensor_dtype type = tensor_dtype::f32;
};

/// A chunk as it is saved. Tied copies and padding are left out by whoever makes it.
struct plan_chunk {
  std::string name;
  std::vector<plan_tensor> tensors;
  /// Of a replica's slice, padding included. 0: as few as are enough, in whole cut_elements.
  uint64_t slice_elements = 0;
  std::vector<plan_part> parts = {{part::master, tensor_dtype::f32},
                                  {part::exp_avg, tensor_dtype::f32},
                                  {part::exp_avg_sq, tensor_dtype::f32}};
};

/// The chunks of a pipeline stage, in the order in which the optimizer touches them.
using plan_stage = std::vector<plan_chunk>;

/// A piece and where its elements are taken from.
struct planned_piece {
  piece what;
  uint32_t chunk = 0;        ///< index in the stage
  uint64_t chunk_first = 0;  ///< first element in that part of the chunk
};

/// What one rank writes.
struct rank_plan {
  uint32_t rank = 0;
  grid_place place;
  uint64_t stream_bytes = 0;
  std::vector<planned_piece> pieces;  ///< SP-2; none is possible
};

struct save_options {
  int data_ranks = 1;
  uint64_t cut_elements = 1024;  ///< of chunks that do not say how they are cut
};

/// The plans of all ranks of the stages' grid, by rank. Error bug for an impossible shape, a name
/// that is there twice, a part twice, or slices that do not cover their chunk.
result<std::vector<rank_plan>> plan_save(std::span<const plan_stage> stages,
                                         const save_options& options);

/// Bytes of one part of a chunk that go into a slot. May begin or end within an element.
struct capture_copy {
  uint32_t chunk = 0;  ///< index in the stage
  part which = part::master;
  uint64_t chunk_byte = 0;   ///< first byte in that part of the chunk
  uint64_t slot_offset = 0;  ///< first byte in the slot
  uint64_t bytes = 0;
  bool operator==(const capture_copy&) const = default;
};

/// One slot of a stream and the copies that fill it.
struct slot_fill {
  uint64_t bytes = 0;       ///< slot_bytes, less for the last
  size_t copies_begin = 0;  ///< into capture_plan::copies
  size_t copies_end = 0;
};

/// A rank's stream, slot by slot.
struct capture_plan {
  std::vector<slot_fill> fills;      ///< by slot (SP-4)
  std::vector<capture_copy> copies;  ///< merged where tensors touch in their chunk
};

/// Cuts a rank's pieces at the slots.
capture_plan plan_capture(const rank_plan& plan, uint32_t slot_bytes);

}  // namespace troupe::io::checkpoint
