// What lies in files, slots and frames while somebody carries out a chunk_policy's operations, and
// whether each of them may be done when it is.
//
// Bytes are numbers of steps: a group of state is of the step whose update made it. A machine of
// the caller's says when each operation begins and ends (order_machine): one whose lanes go on as
// chance has it tries the order against every pace (tests/gpu/chunk_policy_test.cpp), one on
// virtual time makes a simulated rank's drive of it (actors/sim/swapping.hpp). What the order lets
// happen too early is seen here, whatever it would do to bytes.
//
// Invariants that are looked after, beside those of chunk_policy.hpp
//   OWA-1  What is used is of the step before: weights, state, and a gradient that is whole.
//   OWA-2  A file is read by nobody while it is written, and the other way round; one that a
//          checkpoint has is never written.
//   OWA-3  Slots and frames hold one thing at a time.
//   OWA-4  A gradient that is added to, or taken, is that of all micro-batches before: in its
//          frame, or as it was written last, in this step (CHP-13).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/swap/chunk_policy.hpp"
#include "gpu/swap/spill_policy.hpp"

namespace troupe::gpu {

/// One operation, for a machine.
struct watched_op {
  chunk_op what = {};          ///< compute's own have no chunk_act
  size_t lane = 0;             ///< a chunk_lane, or one of order_machine's
  int64_t takes = 0;           ///< of compute's own, as whoever asked for it has said
  std::vector<size_t> behind;  ///< numbers of operations, all of which end before it begins
  std::function<void()> begin = {}, end = {};
  spill_op spill = {};  ///< of what brings activations (spill_watch.hpp); else of no record
};

/// Lanes that each do one operation after the other.
class order_machine {
 public:
  static constexpr size_t lanes = chunk_lanes + 3;
  static constexpr size_t snapshot = chunk_lanes;  ///< of checkpoints that copy
  static constexpr size_t spill_out = chunk_lanes + 1, spill_in = chunk_lanes + 2;

  virtual ~order_machine() = default;
  /// Behind what its lane has. Numbers count from 0.
  virtual size_t enqueue(watched_op op) = 0;
};

/// A stage that trains by a policy's orders.
class order_watch {
 public:
  /// `machine` outlives it. `measured`: updates need to know all of a chunk (CHP-8). `gathers`: one
  /// of several replicas (CHP-9).
  order_watch(std::vector<chunk_place> chunks, int slots, order_machine& machine,
              bool measured = false, bool gathers = false);

  /// What went wrong first; empty: nothing.
  const std::string& wrong() const { return wrong_; }
  void check(bool good, std::string_view what);

  // -- what a step does, in its order ------------------------------------------------------------

  /// Work of the compute lane; its number.
  size_t compute(int64_t takes, std::function<void()> end = {});
  /// Weights that are used soon, and no others of their frame before.
  void bring_weights(int chunk) { carry_out(policy_.bring_weights(chunk)); }
  /// With weights of the step before this one.
  size_t use_weights(int chunk, int step, int64_t takes = 0);
  /// The same by what `passes` enqueues.
  size_t use_weights(int chunk, int step, const std::function<void()>& passes);
  /// A pass over one of several micro-batches, or the only one: the first begins the gradient, the
  /// last makes it whole.
  size_t make_gradient(int chunk, int step, bool first = true, bool whole = true);
  /// Of replicas: what the passes so far have made is whole behind this alone (CHP-11).
  void sum_gradient(int chunk, int step) { carry_out(policy_.sum_gradient(chunk), step); }
  /// Of a gradient that is on disk between what is done with it: it goes there. `whole`: for the
  /// update.
  void store_gradient(int chunk, int step, bool whole) {
    carry_out(policy_.store_gradient(chunk, whole), step);
  }
  void drop_gradient(int chunk);
  /// For what other ranks need to know before the update; else that begins with it.
  void measure(int chunk, int step);
  /// The same under backward, behind the sum of the gradient (CHP-12).
  void share_norms(int chunk, int step, counts when = counts::at_once);
  /// `dropped`: the update will not count. `rows`: some are updated first (CHP-10).
  void update(int chunk, int step, counts when, bool dropped = false, bool rows = false);
  /// Groups are read for the next update, which is this chunk's.
  void begin_update(int chunk) { carry_out(policy_.begin_update(chunk)); }
  /// With the rows that the last update of the chunk began with, as of the step before this one.
  void use_rows(int chunk, int step);
  /// Whether the updates of this step count is known; behind the norm, which the compute lane makes
  /// now.
  void settle(int step, bool hold);

  // -- checkpoints -------------------------------------------------------------------------------

  /// Copies the state of a chunk out of its file; the operation's number.
  size_t capture(int chunk, int step);
  /// Takes the files of chunks on disk, all or those that it `takes`, where `may_keep` says so when
  /// it comes to that: there is room for those behind them, or none is needed. The operation's
  /// number.
  size_t keep(int step, std::function<bool()> may_keep, std::function<bool(int chunk)> takes = {});

  // -- while nothing is under way ----------------------------------------------------------------

  /// All chunks are as they are after this step; before the first, moments were never written.
  void set_state(int step);
  /// Everything is of that step, and nobody has anything any more.
  void check_quiet(int step);
  /// The same between two steps.
  void check_gradients_taken();

  const chunk_policy& policy() const { return policy_; }
  bool on_disk(int chunk) const { return place(chunk).on_disk; }
  bool gradient_on_disk(int chunk) const { return place(chunk).grad_on_disk; }

 private:
  static constexpr int none = -1, filling = -2, torn = -1000;
  /// Of a gradient's frame: passes of this chunk add to what is in it.
  static constexpr int used_by(int chunk) { return 1'000'000 + chunk; }

  /// One file's groups: the update that each is of, and who is at it.
  struct model_file {
    std::vector<int> groups;
    std::vector<bool> has_moments;  ///< by group: else they read as zeros
    std::vector<int> readers;       ///< by group
    bool of_checkpoint = false;
  };
  struct chunk_model {
    model_file own, next, spare;
    chunk_versions versions;
    std::vector<int> in_memory;  ///< weights of their own
    int rows = 0;                ///< of them those that were updated first
    bool gathered = true;        ///< the same: others' slices are there, too
    int gradient_of = none;
    int passes_asked = 0, passes_made = 0;  ///< that add to its gradient
    int passes_before = 0;                  ///< of them those of steps before
    int passes_written = 0;                 ///< the last of those that went to its file
    int passes_in_file = none;              ///< of this step; OWA-4
    bool gradient_is_read = false;          ///< out of that file
    int groups_measured = 0;      ///< of the update that comes
    bool is_measured = false;     ///< that was asked for before it
    bool is_shared = false;       ///< and that all know it, without the compute lane
    bool norms_known = false;     ///< they do
    counts measured_for = counts::at_once;  ///< the update that they were measured for
    std::vector<size_t> readers;  ///< operations of checkpoints that copy
  };
  struct slot_model {
    enum class holds { nothing, reading, state, updating, updated, writing } what = holds::nothing;
    int chunk = none, group = 0, content = 0;
    int passes = none;  ///< of a gradient beside it, from its file
  };
  struct frame_model {
    int chunk = none, users = 0;
    std::vector<int> content;
    bool filling = false, reading = false;
  };
  using effect = std::pair<std::function<void()>, std::function<void()>>;

  const chunk_place& place(int chunk) const { return places_[static_cast<size_t>(chunk)]; }
  bool shares(int chunk) const { return place(chunk).weight_frame >= 0; }
  chunk_model& at(int chunk) { return chunks_[static_cast<size_t>(chunk)]; }
  slot_model& slot_of(const chunk_op& op) { return slots_[static_cast<size_t>(op.slot)]; }
  frame_model& frame_of(int chunk) {
    return frames_[static_cast<size_t>(policy_.weight_frame(chunk))];
  }
  int& gradient_frame(int chunk) {
    return gradients_[static_cast<size_t>(policy_.grad_frame(chunk))];
  }
  model_file& target(const chunk_op& op);
  void read_all(int chunk, int more);
  static bool is_read_by_nobody(const model_file& f);
  void check_weights(const std::vector<int>& content, int step);
  void check_group(const chunk_op& op, int step);
  int passes_of(int chunk) { return at(chunk).passes_made - at(chunk).passes_before; }

  std::vector<size_t> behind(const chunk_op& op) const;
  size_t enqueue(const chunk_op& op, effect e, int64_t takes = 0);
  void carry_out(const chunk_policy::ops& ops, int step = 0, bool dropped = false);
  void fetch_weights(int chunk);
  effect using_weights(int chunk, int step);
  effect effect_of(const chunk_op& op, int step, bool dropped);
  effect reading_weights(int chunk);
  effect gathering(int chunk);
  effect summing(int chunk, int step);
  effect writing_gradient(const chunk_op& op);
  effect reading_gradient(const chunk_op& op);
  effect clearing_gradient(int chunk);
  effect reading_state(const chunk_op& op);
  effect reading_rows(const chunk_op& op);
  effect updating_rows(const chunk_op& op, int step);
  effect measuring(const chunk_op& op, int step);
  effect gathering_norms(int chunk);
  effect updating(const chunk_op& op, int step, bool dropped);
  effect writing_state(const chunk_op& op);
  void update_in_memory(int chunk, int step);
  void take_over(int chunk);
  void take_updates(int step, bool hold);
  void keep_chunk(int chunk, int step, bool marks);

  std::vector<chunk_place> places_;
  order_machine& machine_;
  const bool measured_, gathers_;
  chunk_policy policy_;
  std::vector<chunk_model> chunks_;
  std::vector<slot_model> slots_;
  std::vector<frame_model> frames_;
  std::vector<int> gradients_;                    ///< by frame: the step that one is whole of
  std::map<std::pair<int, int>, size_t> points_;  ///< who marked each last
  bool keeping_ = false;
  int norm_of_ = 0;  ///< the newest step whose norm is known
  std::string wrong_;
};

}  // namespace troupe::gpu
