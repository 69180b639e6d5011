// In which order the chunks of a stage move between a drive and memory: which operation waits for
// which, what memory it has meanwhile, and which of a chunk's files it is for.
//
// Pure: it knows no stream, no disk and no byte. Who asks it (swapper.hpp) carries out what it
// answers, operation by operation, and keeps an event for each point that one marks. So the order
// can be tried against every pace that streams and disks may have, without either
// (tests/gpu/chunk_policy_test.cpp).
//
// An operation is in the queue of its lane, behind all that was there before, and waits for points
// besides. A point stands for the operation that marked it last; one that was never marked is
// waited for by nobody.
//
// Invariants; SWP numbers are the swapper's
//   CHP-1  Weights and state of a chunk are read behind the last write of all of it (SWP-3).
//   CHP-2  A group is updated behind its read and its gradient, written behind its update (SWP-1).
//   CHP-3  Memory takes something else behind the last operation that uses what is in it: a slot
//          behind its write, a frame of weights behind their last use, a gradient's behind the
//          update that took it (SWP-1, SWP-2).
//   CHP-4  There are as many slots as there were: each takes its turn, whatever is updated, kept or
//          dropped.
//   CHP-5  What a checkpoint reads or has is not written: an update waits for the readers, and goes
//          into another file where a checkpoint has this one (SWP-4, SWP-7).
//   CHP-6  Updates that may be dropped go into a file that nobody reads until they count (SWP-9).
//   CHP-7  When all is done, every chunk's file is of its last update that counts.
//   CHP-8  Where an update needs to know all of a chunk (LAMB), every group is read and measured
//          before the first of them is updated; of that reading nothing is written. Where it needs
//          to know what other ranks measure, the compute lane, which tells them, goes on behind it.
//   CHP-9  Of replicas weights are whole behind a gathering, which is behind the own slice of them,
//          as of the updates that count: where some were dropped that slice was read again before.
//          Which ones there are, and in which order, is a matter of what was asked for alone, in
//          its order: where all replicas ask for the same, all gather the same. What one waits for
//          was there before it, as for every operation, so that none waits for a later one. Sums
//          of gradients that the order knows (CHP-11) are in the same lane, and all this holds for
//          them.
//   CHP-10 Rows that the next pass reads first are updated before all groups of their chunk, out of
//          state and by a gradient as these take them; of that nothing is written. Who uses these
//          rows waits for that alone, who uses all weights for all groups. Slots into which groups
//          were read before anybody knew the rows are nobody else's until the update.
//   CHP-11 Of replicas a gradient is whole behind its sum, which is behind the backward that made
//          the own one. What takes it then, an update or that it is dropped, is behind the sum and
//          not behind the compute lane, which goes on meanwhile; who needs its frame waits for the
//          sum, which is others' matter, and then for what took it.
//   CHP-12 Of replicas whose updates need to know what all have measured of a chunk, and which
//          update it as soon as its gradient is whole, what they have measured is gathered in the
//          lane of sums, behind the own measuring, and the update is behind that. The compute lane
//          goes on; weights that are gathered behind such a measuring have it wait for that first,
//          which is the drive's matter, as has a gradient's frame, and for the others' norms then,
//          which are theirs.
//   CHP-13 A gradient that leaves its frame is written behind what has made it, and its frame takes
//          another one, or none, behind that write; it is read back only behind its own last write,
//          and only as of this step: behind its update there is none. It is read as soon as its
//          frame is free and is its next, whoever asks for it later; and one that is whole only by
//          the update, group by group, which leaves the frame to whoever has it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::gpu {

/// When an update counts.
enum class counts : uint8_t { at_once, once_settled };

/// A queue of operations, each begun when the one before it is over.
enum class chunk_lane : uint8_t {
  compute,
  weights_in,
  state_in,
  update,
  state_out,
  gather,
  rows_in,
  gradients_in,
  gradients_out,
};
inline constexpr size_t chunk_lanes = 9;

enum class chunk_act : uint8_t {
  none,  ///< waits and marks alone
  read_weights,
  gather_weights,  ///< others' slices come beside the own one
  sum_gradient,    ///< the own slice becomes that of all replicas' gradients
  gather_norms,    ///< what others have measured comes beside the own
  read_state,
  read_rows,    ///< state of some rows into a slot
  update_rows,  ///< in that slot, and in memory; nothing else is to take it from there
  measure,      ///< what all groups' updates need to know of this one
  update,
  write_state,
  read_gradient,   ///< of some micro-batches, into its frame
  write_gradient,  ///< out of its frame
  clear_gradient,  ///< that frame becomes zero
  settle,          ///< updates count, or are dropped
  keep,            ///< a checkpoint takes the files
};

/// What an operation marks and others wait for.
struct chunk_point {
  enum class kind : uint8_t {
    computed,       ///< what the compute lane had
    weights_read,   ///< what weights_in had
    slice_read,     ///< a frame has the own slice of its weights; by frame
    weights_ready,  ///< a frame has its weights; by frame
    weights_free,   ///< nobody uses them any more; by frame
    arrived,        ///< weights in memory of their own are the chunk's, or the own slice; by chunk
    summed,         ///< a gradient is that of all replicas; by frame
    gradient_free,  ///< a gradient's frame is zero; by frame
    group_read,     ///< by slot
    group_updated,  ///< by slot
    slot_free,      ///< what was in it is written; by slot
    written,        ///< all that was enqueued for a chunk's files; by chunk
    measured,       ///< all groups; by chunk
    rows_ready,     ///< rows that were to be updated first; by chunk
    norms_known,    ///< what all replicas have measured; by chunk
    gradient_read,  ///< a frame has what earlier micro-batches have made; by frame
    gradient_written,  ///< by chunk
  };
  static constexpr int all = -1;  ///< of `written`: every chunk

  kind what = kind::computed;
  int index = 0;
  bool operator==(const chunk_point&) const = default;
};
inline constexpr size_t chunk_point_kinds = 17;

/// Of replicas: whether other ranks, and not the own drive, are what a point is mostly behind once
/// all that is waited for before it is there.
constexpr bool is_of_others(chunk_point::kind what) noexcept {
  using enum chunk_point::kind;
  return what == weights_ready || what == summed || what == norms_known;
}

/// One operation.
struct chunk_op {
  static constexpr int every_chunk = -1, no_chunk = -2;

  chunk_lane on = chunk_lane::compute;
  chunk_act what = chunk_act::none;
  int chunk = no_chunk, group = 0, slot = 0;
  bool moments_are_zero = false;  ///< read_state: those of the file were never written
  counts when = counts::at_once;  ///< update, write_state
  /// Of how many micro-batches a gradient is that is read or written; of read_state, measure and
  /// update whether it is the file's, read with the group: 0: it is in its frame.
  int passes = 0;
  bool whole = false;  ///< write_gradient: behind the last of them
  std::array<std::optional<chunk_point>, 3> behind = {};
  int behind_readers = no_chunk;  ///< checkpoints that read this chunk, or every_chunk
  std::optional<chunk_point> marks = {};
};

/// Where a chunk lives, and in how many groups.
struct chunk_place {
  bool on_disk = false;
  int weight_frame = -1;  ///< shared with others of that number; -1: its own
  int grad_frame = -1;
  int groups = 0;
  bool grad_on_disk = false;  ///< between what is done with it; others have its frame, too
};

class chunk_policy {
 public:
  using ops = std::vector<chunk_op>;

  /// `slots` >= 1 groups are in memory at once. `gathers`: one of several replicas (CHP-9).
  chunk_policy(std::vector<chunk_place> chunks, int slots, bool gathers = false);

  /// The chunk's weights are fetched soon, and no others of their frame before: they may come.
  ops bring_weights(int chunk);
  /// The compute lane uses the chunk's weights from here on, and up to here. Of replicas it waits
  /// for the own slice first, which is the drive's matter, and then for others'.
  ops fetch_weights(int chunk);
  ops release_weights(int chunk);
  /// It makes the chunk's gradient from here on, or adds to what was stored of it. Of replicas it
  /// waits first for the sum of the one before in that frame, which is others' matter, and for what
  /// its update is behind (CHP-12).
  ops fetch_gradient(int chunk);
  /// Of replicas: what that lane has made of it is summed over all. Who takes the gradient next
  /// does so behind that (CHP-11).
  ops sum_gradient(int chunk);
  /// Of one that is on disk: what the compute lane has made so far goes there, or, where it was
  /// summed, that. `whole`: behind the step's last micro-batch, for the update.
  ops store_gradient(int chunk, bool whole);
  /// The gradient is not taken: its frame is free, zeroed.
  ops drop_gradient(int chunk);
  /// It waits for all that is written of the chunk.
  ops await_state(int chunk);
  /// The chunk is measured behind what the compute lane has: its gradient, which stays. That lane
  /// goes on behind it (CHP-8).
  ops measure(int chunk);
  /// Of replicas: the chunk is measured behind the sum of its gradient, which stays, and what all
  /// have measured is gathered. Its update, which is the next that takes slots, is behind that
  /// (CHP-12), and is measured as what it will be: `when` is that of both.
  ops share_norms(int chunk, counts when = counts::at_once);
  /// The chunk is updated behind what the compute lane has, its gradient, or behind the sum of that
  /// (CHP-11), or behind what share_norms() gathers. `measured`: right before that (CHP-8). `rows`:
  /// some of its rows before all groups (CHP-10); of weights in memory of their own,
  /// whose updates count at once and are not measured.
  ops update(int chunk, counts when, bool measured = false, bool rows = false);
  /// Groups are read for the chunk's update, which is the next that takes slots: as many as leave
  /// one for rows. That is the one which is free last: nobody knows rows before the next pass
  /// begins, whose first layer's weights wait for the same writes (CHP-1), and groups, which are
  /// many, begin to come as slots become free.
  ops begin_update(int chunk);
  /// The compute lane uses the rows that are updated first from here on.
  ops fetch_rows(int chunk);
  /// Updates that were to be settled count, or are dropped, behind what the compute lane has now;
  /// that may be past the next step's norm by then.
  ops settle();
  /// They were: weights in memory of their own are brought back.
  ops dropped();
  /// A checkpoint takes the files behind the updates so far.
  ops keep();

  /// All chunks are about to be set anew, on all replicas: none of their weights count.
  void all_set_anew();
  /// A chunk that is quiet has other masters; or moments: its file's are written then.
  void masters_set(int chunk);
  /// True the first time, where the file's moments were never written.
  bool moments_set(int chunk);

  int chunks() const { return static_cast<int>(chunks_.size()); }
  /// Frames of weights, of gradients: shared ones, then one for each chunk.
  int frames(chunk_point::kind what) const;
  int slots() const { return slots_; }
  int weight_frame(int chunk) const;
  int grad_frame(int chunk) const;

 private:
  struct state {
    chunk_place place;
    bool gathered = false;  ///< weights in memory of their own are whole
    bool summed = false;    ///< who takes the gradient next does so behind its sum
    bool shared = false;    ///< and behind what others have measured (CHP-12)
    int passes = 0;         ///< micro-batches that the gradient's file is of; 0: it has none
    bool whole = false;     ///< that are all of the step
    bool brought = false;   ///< it is on its way into its frame
    bool in_frame = false;  ///< and was used there: the file's does not count
    bool moments_are_zero = true;
    bool moments_were_zero = true;  ///< before updates that are to be settled
    ops begun = {};                 ///< groups that were read for the next update
  };

  state& at(int chunk) { return chunks_[static_cast<size_t>(chunk)]; }
  const state& at(int chunk) const { return chunks_[static_cast<size_t>(chunk)]; }
  bool shares_weights(int chunk) const { return at(chunk).place.weight_frame >= 0; }
  int take_slot();
  void forget_weights(int chunk);
  chunk_point whole_gradient(int chunk) const;
  bool is_stored(int chunk) const { return at(chunk).passes > 0 && !at(chunk).in_frame; }
  void read_gradient(ops& out, int chunk);
  void bring_next_gradient(ops& out, int chunk);
  void read_weights(ops& out, int chunk) const;
  chunk_op group_of(int chunk, int number, bool moments_are_zero);
  void read_group(ops& out, const chunk_op& group) const;
  chunk_op& use_read(ops& out, const chunk_op& group, chunk_act what) const;
  chunk_op& use_group(ops& out, const chunk_op& group, chunk_act what) const;
  void measure_group(ops& out, const chunk_op& group) const;
  void update_rows(ops& out, const chunk_op& rows) const;
  void update_read(ops& out, const chunk_op& group) const;

  std::vector<state> chunks_;
  int shared_weights_ = 0, shared_grads_ = 0;
  std::vector<int> occupants_;  ///< of frames of weights; -1: none
  /// By frame of weights: of whose measuring the gathering of those is behind; -1: nobody's.
  std::vector<int> gathered_behind_;
  int measured_ = -1;  ///< the last chunk whose norms were gathered
  /// By frame of gradients: of whose norms what frees it is behind; -1: nobody's.
  std::vector<int> freed_behind_;
  int slots_;
  int next_slot_ = 0;
  bool gathers_;
};

/// Which of a chunk's files is which, as the lane that writes them knows it.
class chunk_versions {
 public:
  enum class file : uint8_t { own, next };

  /// A checkpoint has the chunk's file.
  bool kept() const { return kept_; }
  void keep() { kept_ = true; }
  /// The chunk has a file that is its alone: the next one took its name, or the checkpoint is gone.
  void own() { kept_ = false; }

  /// CHP-5, CHP-6.
  file target(counts when) const {
    return kept_ || when == counts::once_settled ? file::next : file::own;
  }
  /// Behind a write of the chunk's last group, the next file takes its name.
  bool taken_over(counts when, bool last_group) const {
    return when == counts::at_once && kept_ && last_group;
  }

 private:
  bool kept_ = false;
};

}  // namespace troupe::gpu
