// Where the parts of a stage's chunks live, and who brings those that are not in memory.
//
// Why here: the store hands out the same pointers whether a chunk has memory of its own or shares a
// frame with others, and whoever uses one says when: fetch, use, release. Training in memory is the
// case in which every fetch is trivial, so there is one code path. Who moves bytes is swap/swapper.
//
// A frame is memory for the weights, or the gradient, of one chunk at a time. Which frame a chunk
// uses never changes: pointers stay valid for ever, and what a device has noted for replays too.
//
// Invariants
//   RES-1  A chunk whose state is on disk has no master, m or v in memory; its weights may have a
//          frame of their own all the same, which is then a copy kept current.
//   RES-2  Chunks that share a frame are used one after the other: between fetch and release of one
//          nobody fetches another.
//   RES-3  Where the state is in memory, so are weights and gradient, each alone in its frame.
//   RES-4  Of replicas each has its slice of the state and the weights alone on its disk; others'
//          slices are gathered behind it. Gradients are of whole chunks while they are in a frame:
//          each replica makes all of one before its slice is summed.
//   RES-5  A gradient that several passes of a step add to, or that is held until all norms are
//          known, has a frame of its own, or leaves a shared one for the drive in between
//          (gradients_on_disk).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/device.hpp"
#include "io/base/result.hpp"
#include "io/swap/chunk_file.hpp"

namespace troupe::gpu {

enum class part : uint8_t;
struct chunk_info;
struct chunk_slice;
struct replica_place;

/// Of one chunk.
struct chunk_residency {
  int weight_frame = -1;  ///< shared with others of that number; -1: its own
  int grad_frame = -1;    ///< the same of the gradient
  bool state_on_disk = false;
  bool operator==(const chunk_residency&) const = default;
};

/// Of a stage's chunks, in their order; empty: all in memory.
struct residency {
  /// With three arrays of 4 bytes 12 MiB, which any disk reads at its full rate.
  static constexpr int64_t usual_group_elements = int64_t{1} << 20;

  std::vector<chunk_residency> chunks;
  int64_t group_elements = 0;  ///< of state that is on the way at once, at most
  int groups_in_memory = 0;    ///< so many such pieces are under way
  /// What is on disk has a second version there, for updates that may be dropped (SWP-9).
  bool speculates = false;
  /// Gradients whose frame has others', too, are on disk between what is done with them (SWP-17).
  bool gradients_on_disk = false;
  /// Weights in bfloat16 have no files: who reads them reads masters, and rounds them (SWP-18).
  bool derives_weights = false;

  chunk_residency of(int chunk) const {
    return chunks.empty() ? chunk_residency{} : chunks[static_cast<size_t>(chunk)];
  }
  /// Whether the chunk's gradient is not alone in its frame, and on disk in between.
  bool gradient_on_disk(int chunk) const {
    const int frame = of(chunk).grad_frame;
    if (!gradients_on_disk || frame < 0) return false;
    int users = 0;
    for (const auto& c : chunks) users += c.grad_frame == frame ? 1 : 0;
    return users > 1;
  }
  /// Whether weights of a chunk come from its files: of layers that share frames, and of all where
  /// an update may be dropped (SWP-9).
  bool brings_weights(int chunk) const {
    const auto home = of(chunk);
    return home.state_on_disk && (home.weight_frame >= 0 || speculates);
  }
  bool any_on_disk() const {
    for (const auto& c : chunks)
      if (c.state_on_disk) return true;
    return false;
  }
  bool operator==(const residency&) const = default;
};

/// Bytes of a frame for chunks of at most `bytes`: whole blocks of a disk.
constexpr size_t frame_size(size_t bytes) noexcept {
  constexpr size_t block = 4096;
  return (bytes + block - 1) / block * block;
}

/// How the state of a slice lies in its file.
io::chunk_file swap_layout(const chunk_slice& slice, const residency& where, dtype compute);
/// What is read of such a file for a chunk's weights: its masters where they are these, or are
/// rounded from them.
uint64_t weights_read_bytes(const io::chunk_file& file);
/// What an update writes of one group.
uint64_t swap_write_bytes(const io::chunk_file& file);
/// Memory for one group's masters that become weights in memory (SWP-18); 0 where none do. There
/// are so many: one is read while another is rounded.
uint64_t masters_slot_bytes(const io::chunk_file& file, const residency& where, int chunk);
inline constexpr int masters_slots = 2;
/// Memory for one group of such a file on its way.
uint64_t swap_slot_bytes(const io::chunk_file& file);
/// The same with the group's gradient, where that of the chunk comes from a file, too.
uint64_t swap_slot_bytes(const io::chunk_file& file, const residency& where, int chunk);

/// How the gradient of a chunk lies in its file: what several passes of a step add to, of all of
/// the chunk, and what its update takes, of the own slice. Of one replica both are the same.
class gradient_file {
 public:
  gradient_file(const chunk_slice& slice, const io::chunk_file& state);

  /// Of the chunk, from the file's beginning on.
  uint64_t whole_bytes() const noexcept { return whole_bytes_; }
  /// Of the slice, from here on.
  uint64_t slice_offset() const noexcept { return slice_offset_; }
  uint64_t slice_bytes() const noexcept { return slice_bytes_; }
  /// Groups are those of the state; what they are summed by.
  uint64_t piece_bytes() const noexcept { return state_.array_bytes(); }
  uint64_t group_offset(int group) const noexcept {
    return slice_offset_ + static_cast<uint64_t>(group) * piece_bytes();
  }
  uint64_t group_bytes(int group) const noexcept { return state_.used_bytes(group, sizeof(float)); }
  uint64_t file_bytes() const noexcept {
    return slice_offset_ > 0 ? slice_offset_ + slice_bytes_ : whole_bytes_;
  }

 private:
  io::chunk_file state_;
  uint64_t whole_bytes_, slice_offset_, slice_bytes_ = 0;
};

/// What all files of a chunk whose state is on disk take there: with a second version, and with its
/// gradient's.
uint64_t swap_file_bytes(const chunk_slice& slice, const io::chunk_file& file,
                         const residency& where, int chunk);

/// What residency takes of memory and disk beside frames, on each replica.
struct swap_sizes {
  uint64_t slots_bytes = 0;  ///< of groups on their way, all together
  uint64_t file_bytes = 0;
};
swap_sizes swap_sizes_of(const std::vector<chunk_info>& chunks, const residency& where,
                         dtype compute, const replica_place& replica);

/// Gives `count` values of a chunk from element `first` on, in ascending pieces; what is between
/// tensors is zero. Errors: whatever keeps it from it.
using value_source = std::function<status(int64_t first, int64_t count, float* out)>;

/// Rows of a table that are read, some of them perhaps more than once.
using row_ids = std::span<const std::span<const int32_t>>;

/// Moves the parts of chunks whose state is on disk. Of one store, which calls it; by the thread
/// that enqueues, but for the blocking ones.
class chunk_mover {
 public:
  virtual ~chunk_mover() = default;

  /// Makes `s` wait until the chunk's weights are in their frame.
  virtual void fetch_weights(stream& s, int chunk) = 0;
  /// Makes `s` wait until these rows are in their frame, of the table of `width` elements a row
  /// that the chunk begins with; others may come later. False where it takes all: nothing is done.
  virtual bool fetch_rows(stream& s, int chunk, int64_t width, row_ids ids) = 0;
  /// Behind what `s` has now, the frame may have another chunk's.
  virtual void release_weights(stream& s, int chunk) = 0;
  /// Makes `s` wait until the gradient's frame is free and zero.
  virtual void fetch_gradient(stream& s, int chunk) = 0;
  /// Makes `s` wait until the last update of the chunk is on the disk.
  virtual void await_state(stream& s, int chunk) = 0;

  // -- blocking; the chunk is quiet --------------------------------------------------------------

  /// Sets master, m or v of the whole slice; with master its weights too.
  virtual status write(int chunk, part which, const value_source& values) = 0;
  /// Reads elements of the slice. From any thread, also while others read.
  virtual status read(int chunk, part which, int64_t first, int64_t count, float* host) = 0;
  /// Makes the weights of the masters, rounded as the update of step `after` did.
  virtual status publish(int chunk, int64_t after) = 0;
};

}  // namespace troupe::gpu
