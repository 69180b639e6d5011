// The engine of a simulated rank whose stage does not fit into memory: the operations of the real
// swapper's order (gpu/swap/chunk_policy.hpp) on lanes of virtual time and a simulated drive, with
// numbers of steps in place of bytes (gpu/swap/order_watch.hpp looks after them).
//
// Activations that layers spill go by the real spiller's order (gpu/swap/spill_policy.hpp) over the
// same drive, in lanes of their own, with numbers of passes in their place (spill_watch.hpp there).
//
// What it orders is what the real engine does (actors/train/rank_engine_swap.cpp): updates behind
// the norm where gradients are held, else under backward, in two rounds of passes, or into a
// second version that is dropped in some steps, of replicas in the same ones on all; of these
// behind the sum of each gradient (CHP-11), which takes no time here: they meet once a step, for
// the norm. Under backward the rows of a token table that the next pass reads come before the rest
// of it (SWP-14), where in most passes they have room. A write that fails, of state, a gradient or
// activations, goes into a new file, for which it waits while the drive is full (SWP-11, GRF-3,
// SPR-3); a read that fails fails the rank; a checkpoint for whose files there is no room fails
// alone (SWP-8). Where layers of theirs may go over to computing again what they spill, ranks judge
// their steps as real ones do, by the times of virtual drives.
#pragma once

#include <array>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/sim/timed_engine.hpp"
#include "actors/train/spill_replan.hpp"
#include "gpu/model/spill_layout.hpp"
#include "gpu/swap/order_watch.hpp"
#include "gpu/swap/spill_watch.hpp"
#include "gpu/swap/step_traffic.hpp"

namespace troupe::sim {

class swapping_engine final : public timed_engine, private gpu::order_machine {
 public:
  swapping_engine(environment* room, int node, const train::engine_options& o);

  void build(completion done) override;
  void run(const train::op_order& order, completion done) override;
  void update(int64_t step, double lr, outcome_completion done) override;
  void finish_evaluation(outcome_completion done) override;
  void load(std::string folder, bool optimizer, completion done) override;
  void save(uint64_t step, const std::filesystem::path& partial, bool last,
            gpu::state_saver::completion done) override;
  void were_held() override { slowed_ = true; }
  void abort() noexcept override { aborted_ = true; }

 private:
  /// Bytes of a chunk's group and of its weights, as they are moved.
  struct chunk_bytes {
    uint64_t group = 0, weights = 0, state = 0;
    uint64_t gradient = 0, gradient_group = 0;  ///< where it is on the drive (SWP-17)
    uint64_t of_group(bool with_gradient) const {
      return group + (with_gradient ? gradient_group : 0);
    }
    /// Of state of rows that come first: half of what is the most that they may be (TBR-3).
    uint64_t rows() const { return state / 16; }
  };
  enum class pass_kind { gradients, norm_alone, updates, speculates };
  /// What an operation is as a part of the step, and how much it does.
  struct computation {
    train::pipeline_op kind = train::pipeline_op::update;
    uint64_t amount = 0;
  };

  int chunks() const { return watch_.policy().chunks(); }
  drive_fault& drive() { return room_->disks.fault_of(node_); }
  const chunk_bytes& bytes_of(int chunk) const { return bytes_[static_cast<size_t>(chunk)]; }

  // -- the lanes ---------------------------------------------------------------------------------

  size_t enqueue(gpu::watched_op op) override;
  void wake();
  void pump();
  bool may_begin(size_t number) const;
  void begin(size_t number);
  void operate(size_t number);
  void over(size_t number);
  int64_t time_of(const gpu::watched_op& op);
  std::optional<computation> part_of(size_t number) const;
  void note_wait(const gpu::watched_op& op);
  bool fails_to_move(const gpu::watched_op& op);
  void move_file(size_t number, int64_t since_ns);
  int64_t moving_for(const gpu::watched_op& op);
  uint64_t bytes_wanted(const gpu::watched_op& op) const;
  void fail(error why);
  status device_failure();
  void look();
  /// Once the operation is over.
  void then(size_t number, std::function<void()> what);
  void answer(size_t number, completion done);
  void tell(size_t number, int64_t step, bool again, outcome_completion done);

  // -- what a step is ----------------------------------------------------------------------------

  void begin_step(const train::op_order& order);
  void choose_order(int64_t step);
  bool may_speculate() const;
  bool drawn(environment::shared_draw what, int64_t step, double probability);
  void choose_spilling();
  bool tells_nothing() const;
  void share_moves(size_t behind, int64_t step, outcome_completion done);
  gpu::update_order planned_order() const;
  bool updates_under_backward() const { return order_ != gpu::update_order::behind_backward; }
  void pass(train::pipeline_op kind, const train::op_order& order, int chunk, int64_t step);
  size_t forward(int64_t step, const train::op_order& order);
  size_t backward(int64_t step, const train::op_order& order, bool last, pass_kind how,
                  bool dropped = false);
  void update_behind_backward(int64_t step, outcome_completion done);
  void update_under_backward(int64_t step, outcome_completion done);
  void update_with_others(int64_t step, outcome_completion done);
  void settle(int64_t step, bool clipped);
  void settle_with_others(int64_t step, bool clipped, outcome_completion done);
  void pass_again(int64_t step);
  void update_chunk(int chunk, int step);
  void finish_update();
  bool embed_rows(int step, const train::op_order& order);
  void pass_spilling(const train::op_order& order, bool back, int layer, int64_t each_ns);
  size_t step_over();
  bool links_into(const std::filesystem::path& partial) const;
  std::vector<size_t> keep_parts(int step, bool links, bool last, std::shared_ptr<bool> gets);
  void when_quiet(std::function<void()> what);

  const train::engine_options options_;
  std::shared_ptr<const void> using_folder_;
  std::vector<chunk_bytes> bytes_;
  gpu::order_watch watch_;
  std::vector<int> layers_;  ///< by chunk: of the stage; -1 where it is none
  const gpu::spill_layout layout_;
  std::optional<gpu::spill_watch> spills_;  ///< where layers spill
  uint64_t record_bytes_ = 0;
  std::unique_ptr<train::spill_replan> replan_;  ///< null where layers spill as they were chosen to
  int spills_from_ = 0;                          ///< layers before it compute again
  gpu::step_moves moved_;                        ///< of the last step's drives
  const bool shares_norms_;                       ///< replicas, of their updates
  const bool rows_first_;                         ///< SWP-14: of the first chunk
  std::array<std::deque<size_t>, lanes> queues_;  ///< numbers of operations
  std::map<size_t, gpu::watched_op> live_;        ///< enqueued and not over
  std::map<size_t, computation> computations_;    ///< of the compute lane's own
  computation computing_;                         ///< that is enqueued now
  std::map<size_t, std::vector<std::function<void()>>> behind_;
  std::vector<bool> begun_, done_;  ///< by number
  bool waking_ = false, aborted_ = false;
  int64_t computes_since_ns_ = 0;  ///< the compute lane could begin its next operation, if it may
  status health_;  ///< the first failure

  gpu::update_order order_ = gpu::update_order::behind_backward;
  std::vector<train::op_order> forwards_;  ///< of this step
  train::op_order last_backward_;
  bool first_backward_ = true;
  bool updates_made_ = false, redone_ = false;  ///< since the last step began
  bool saves_made_ = false;                     ///< since the last update
  bool saves_in_step_ = false;                  ///< the same before that
  bool slowed_ = false;                         ///< by its pace, or held: the step last begun
  gpu::update_order timed_order_ = gpu::update_order::behind_backward;  ///< of the last such step
  int64_t updated_step_ = 0;  ///< the last whose updates count
  int64_t tried_step_ = 0;    ///< whose updates were dropped
  int late_step_ = 0;         ///< whose update of the token table waits for the next pass; 0: none
};

}  // namespace troupe::sim
