// The engine of a real device: a rank's model, its streams, its groups, and the order between them.
//
// Streams: compute (forward, backward, update), data (what replicas sum and gather, the tied table,
// the norm), and one for each kind of transfer with a neighbour, so that a send never stands behind
// a receive (MegaScale §3.2); files has the blocking work of building, connecting and loading;
// the saver has one of its own, which copies checkpoints while the others go on; and so have the
// swapper and the spiller, which bring what lives on a drive.
//
// Invariants
//   ENG-1  No call waits; a completion is called once, on a stream's thread, with the first error
//     of that stream.
//   ENG-2  A chunk's sum over replicas starts as soon as its last micro-batch's backward has passed
//     it, while backward goes on. Each replica gets its slice of it; outside of that the gradient
//     is zero again before the update. A chunk is summed by itself, cut into the replicas' slices,
//     wherever it lives and whenever it is updated: its sums have the same bits.
//   ENG-3  A buffer that a transfer reads is overwritten only behind the transfer's event.
//   ENG-4  The tied table's gradient is summed after all others, in every rank of the group: of the
//     slice that both have.
//   ENG-6  A chunk is updated only behind the copies of it that a checkpoint still makes; how long
//     that took is in the outcome.
//   ENG-7  A chunk's new weights are gathered from the replicas as soon as its slice is updated,
//     while the next chunks are; forward waits chunk by chunk (PS-6), nobody else does, and what
//     it waits is told as such. Those of chunks on a drive are gathered whenever they are fetched
//     (SWP-13).
//   ENG-8  Replicas enqueue the same collectives in the same order, all on the data stream (COM-1).
//     Where a job swaps they compare, before the first, where their chunks live: of which of them
//     weights are gathered, and when, is a matter of that.
//   ENG-5  After a failure every later completion reports it; the rank is of no more use.
//   ENG-9  abort() ends within a fraction of a second what waits for other ranks, and building and
//     loading between two tensors or slots.
//   ENG-10 A recheck is behind everything of the step before that used its slot, and before what
//     of its step will: no transfer writes into it meanwhile.
//   ENG-11 What is in the swap folder has, after each step, the bits of training in memory, and so
//     have activations that layers spill. Where all gradients are kept until their norm is known,
//     in memory or on the drive, updates come behind it as ever; where there is no clipping, each
//     chunk is updated under backward; else the step's passes are made twice, with the same bits,
//     once for the norm and once for the updates, or chunks are updated under backward before the
//     norm is known. Where it is above the limit, that is dropped, and the passes are made again.
//     Layers that spill may compute again instead, from one step to the next (spill_replan.hpp). Of
//     replicas all do the same: under backward a gradient is summed, noted and updated, or dropped,
//     behind what made it, while the compute stream goes on. Where the rule needs norms of whole
//     tensors they are gathered chunk by chunk between sum and update. A chunk whose state is in
//     memory keeps its gradient until backward is over. Which of them a step does they choose by
//     the same numbers (CLP-4), and whether updates count each finds by a norm that has the same
//     bits on all (COM-2): so all keep theirs, or all drop them and make the passes again. One that
//     fails in between ends the epoch for all, which go on from a checkpoint.
//   ENG-12 Where checkpoints lie beside the swap folder, chunks that live there go into them by
//     links, and the rest by the saver; the vote is of both. Elsewhere the saver copies all. What
//     fits comes back by links, too. Where a link is refused all the same, or a file has gone on on
//     another drive since, that checkpoint fails, and later ones copy those chunks with the rest.
//   ENG-13 Where all members of a group but one are there, that one is given up while the run still
//     waits, and the error says his rank in the group and his address, and which ranks of the job
//     the members are (a group of the host's; of NCCL's nobody knows whom it misses).
//   ENG-14 Where an actuator holds the pace, the compute stream sets it before the first operation
//     of a pass does anything, and no operation begins where it cannot be set (PWR-3, PWR-4).
//     Where the one who sets it is gone (the machine's agent) that is told with the step's end, and
//     holds up none.
//   ENG-15 Where operations have clocks of their own, no operation waits for one of them: while the
//     pace is the whole one, and was set, the compute stream sets nothing. Below it all run at what
//     the pace leaves them. A clock that cannot be set ends no step.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/train/batch_memory.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/layer_recheck.hpp"
#include "actors/train/rank_copies.hpp"
#include "actors/train/spill_replan.hpp"
#include "actors/train/step_clock.hpp"
#include "actors/train/stream_hash.hpp"
#include "gpu/collective/communicator.hpp"
#include "gpu/controls/actuator.hpp"
#include "gpu/device.hpp"
#include "gpu/model/saved_state.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/model/state_saver.hpp"
#include "gpu/optim/optimizer.hpp"
#include "gpu/swap/clip_policy.hpp"
#include "gpu/swap/duplex_policy.hpp"
#include "gpu/swap/spiller.hpp"
#include "gpu/swap/swapper.hpp"
#include "io/base/error_kind.hpp"

namespace troupe::train {

/// ENG-8.
inline constexpr error_kind<> replicas_differ{
    "replicas_differ", errc::bad_config,
    "replicas of a stage have planned different chunks for memory, and would gather weights in "
    "different orders",
    "they plan by the least memory that one of them has: run the same build of the program on all "
    "nodes"};

class rank_engine : public engine {
 public:
  /// Makes device and streams; allocates nothing big.
  static result<std::unique_ptr<rank_engine>> make(const engine_options& options);
  /// The same on a device that others look at too, whatever the options call theirs.
  static result<std::unique_ptr<rank_engine>> make(const engine_options& options,
                                                   std::shared_ptr<gpu::device> device);
  ~rank_engine() override;

  void set_probe(engine_probe* probe) noexcept override { probe_ = probe; }
  void set_cause(uint64_t span, uint64_t trace) noexcept override {
    cause_span_ = span;
    cause_trace_ = trace;
  }

  void build(completion done) override;
  engine_facts facts() const override;
  uint64_t computed_us() const override { return clock_.computed_us(); }
  /// The stage; null until build() has completed.
  gpu::stage_model* model() noexcept { return model_.get(); }

  /// The memory is pinned where that makes copies quicker. Where it cannot be, they are slower;
  /// nothing else changes.
  status attach(const batch_source& batches) override;

  result<std::vector<group_offer>> open_groups(const std::string& host) override;
  void connect_groups(group_tables tables, completion done) override;

  void run(const op_order& order, completion done) override;
  void digest_weights() override;
  void were_held() override { slowed_ = true; }
  /// Updates the own slices. Others' may still be on their way, or asked for later, when it is done
  /// (ENG-7).
  void update(int64_t step, double lr, outcome_completion done) override;
  void finish_evaluation(outcome_completion done) override;

  /// Of a checkpoint a rank reads its slices; weights are then gathered from the replicas.
  void load(std::string folder, bool optimizer, completion done) override;
  bool takes_files() const override { return takes_files_; }
  void save(uint64_t step, const std::filesystem::path& partial, bool last,
            gpu::state_saver::completion done) override;
  void copy(uint64_t step, const std::filesystem::path& partial,
            gpu::state_saver::completion done) override;
  void take_back(io::checkpoint::copy_tag tag, bool from_keeper, completion done) override;
  std::optional<train::copy_facts> copy_facts() const override;
  std::optional<train::swap_facts> swap_facts() const override;
  /// From any thread once build() has completed.
  std::optional<gpu::saver_facts> saver_facts() const override;

  void abort() noexcept override;

 protected:
  // For an engine that does the same and makes faults meanwhile (drilled_engine.hpp).
  explicit rank_engine(engine_options options) : options_(std::move(options)) {}
  /// Makes the streams; before any other call.
  status open(std::shared_ptr<gpu::device> device);
  /// Has an operation enqueued on its stream, between the notes of its begin and end.
  virtual void enqueue(gpu::stream& s, pipeline_op kind, const std::function<void()>& work);
  virtual gpu::saver_options saver_options();
  /// How its swap folder is read and written.
  virtual io::swap_io_options swap_io_options() const { return {}; }
  /// Of one rank: whether it swaps otherwise by what steps take (duplex_policy.hpp,
  /// spill_replan.hpp).
  virtual bool tries_duplex() const { return options_.at.grid.ranks() == 1; }
  /// What befalls the output of a rechecked layer before it is hashed.
  virtual layer_recheck::spoiler recheck_spoiler() { return {}; }
  gpu::device& device() noexcept { return *device_; }
  gpu::stream& compute() noexcept { return *compute_; }

 private:
  struct slot_events {
    gpu::event_ptr activation_received, gradient_received;
    gpu::event_ptr output_sent, input_grad_sent;
    gpu::event_ptr freed;  ///< the last operation that reads the slot's inputs
  };

  struct note {
    uint64_t token = 0;
    double begin_ms = 0;
  };
  /// Of a clock that streams' threads read.
  static double now_ms();
  status make_streams();
  status build_now();
  void limit_memory();
  status open_swap(gpu::stage_model& model);
  status open_spill(gpu::stage_model& model);
  void show_waiting(pipeline_op kind);
  status open_exchange();
  gpu::stream& stream_of(pipeline_op kind);
  batch_view rows_of(int micro_batch, int64_t batch_slot) const;
  std::vector<gpu::stage_model::micro_batch> batches_of(const op_order& order) const;
  uint64_t pairs_of(std::span<const gpu::stage_model::micro_batch> batches) const;
  float gradient_scale() const;
  void probed(engine_probe::operation op, const std::function<void()>& work);
  void probed(gpu::stream& s, engine_probe::operation op, const std::function<void()>& work);
  std::shared_ptr<note> note_begin(gpu::stream& s, const engine_probe::operation& op);
  void note_end(gpu::stream& s, const engine_probe::operation& op, std::shared_ptr<note> n);
  uint64_t work_of(const engine_probe::operation& op) const;
  status open_actuator();
  void tell_controls(engine_facts& out) const;
  void set_pace(const op_order& order);
  void note_actuation();
  bool has_lost_control();
  void note_clock(pipeline_op kind, bool begins);
  void tell_clocks(step_outcome& out);
  void begin_step(const op_order& order);
  void recheck(const op_order& order);
  void receive(const op_order& order);
  void forward(const op_order& order, completion done);
  void backward(const op_order& order, completion done);
  void evaluate(const op_order& order, completion done);
  int peer_of(pipeline_op kind) const;
  void send(pipeline_op kind, const void* data, int micro_batch, gpu::event_ptr& sent);
  void sum_over_replicas(int chunk);
  void sum_slices(int chunk);
  void sum_tied_table();
  void sum_norm(int64_t step);
  void clip();
  void share_norms(int64_t step, float lr);
  void share_norms_of(int chunk, float lr, int64_t step, gpu::counts when = gpu::counts::at_once);
  void gather_norms(int chunk);
  void gather_weights(int chunk);
  void gather_slices(int chunk);
  status compare_places();
  void restore(const std::string& folder, gpu::restored what, completion done);
  void gather_restored(completion done);
  void update_chunk(int chunk, float lr, int64_t step, gpu::counts when = gpu::counts::at_once);
  void update_on_drive(int chunk, float lr, int64_t step, gpu::counts when);
  void update_under_backward(float lr, int64_t step);
  void make_whole(int chunk, bool notes_norm);
  void update_as_made(const op_order& order, bool notes_norm, float lr, int64_t step,
                      gpu::counts when = gpu::counts::at_once);
  void total_norm(int64_t step);
  void update_in_memory(float lr, int64_t step);
  void update_with_known_norm(float lr, int64_t step);
  void speculate(float lr, int64_t step);
  gpu::update_order planned_order() const;
  bool may_speculate() const;
  void choose_order();
  void judge_clipping();
  void share_times(int64_t step);
  void judge_step();
  void choose_duplex(std::optional<double> took_s);
  void share_moves(int64_t step);
  bool tells_nothing() const;
  void choose_spilling();
  void run_backward(const op_order& order, const gpu::stage_model::chunk_done& each);
  bool updates_under_backward() const { return order_ != gpu::update_order::behind_backward; }
  bool links_into(const std::filesystem::path& partial) const;
  gpu::chunk_taker taker(const std::filesystem::path& folder, const io::checkpoint::reader& from,
                         gpu::restored what);
  status judge_restored(const std::string& folder, const status& restored);
  gpu::state_saver::completion noting(const std::vector<bool>& linked,
                                      gpu::state_saver::completion done);
  void save_by_links(uint64_t step, const std::filesystem::path& partial, bool last,
                     gpu::state_saver::completion done);
  gpu::stage_model::chunk_done when_gradient_is_whole();
  gpu::stage_model::chunk_done when_made(const op_order& o);
  void norm_behind_backward();
  void await_copies(int chunk);
  void await(pipeline_op kind, const std::function<void()>& wait, int chunk = -1);
  void await_shipped();
  bool shares_frame(int chunk) const;
  void digest_chunk(int chunk);
  void digest_leaving(int chunk);
  std::vector<uint64_t> digests_of(const std::vector<int>& chunks);
  void run_blocking(std::function<status()> work, completion done);
  void load_by(std::function<status()> work);
  void watch(gpu::stream& s);
  void note_failure(const status& s);
  status failure() const;
  completion guarded(completion done) const;
  void report(outcome_completion done);

  engine_options options_;
  /// Limits of the process's memory and its GPU's; null: there is none.
  std::shared_ptr<void> budget_, device_budget_;
  std::shared_ptr<gpu::device> device_;
  // Streams end before what their operations use; members are destroyed in reverse order.
  std::optional<batch_memory> batches_;
  int64_t first_row_ = 0;  ///< of a slot of batches_
  std::unique_ptr<gpu::stage_model> model_;
  std::unique_ptr<layer_recheck> recheck_;  ///< null where none is ever ordered
  std::unique_ptr<gpu::optimizer> optimizer_;
  std::unique_ptr<gpu::swapper> swap_;  ///< null where all is in memory
  std::unique_ptr<gpu::spiller> spill_;  ///< null where no layer spills
  /// Chunks that the last checkpoint did not take as files (ENG-12), and whether it took any.
  std::atomic<uint32_t> copied_chunks_{0};
  std::atomic<bool> saved_by_links_{false};
  bool links_ = false;  ///< into options_.checkpoint_folder, of some folder's files (ENG-12)
  std::atomic<bool> takes_files_{false};
  std::vector<op_order> forwards_;      ///< of this step, where its passes may be made twice
  uint64_t document_pairs_ = 0;         ///< of this step's forward passes, with a head
  std::optional<op_order> last_backward_;
  std::atomic<gpu::update_order> order_{gpu::update_order::behind_backward};  ///< of this step
  int updates_ = 0;                  ///< calls of update() for it
  std::atomic<uint64_t> redone_{0};  ///< steps whose updates were dropped
  gpu::clip_policy clipping_;        ///< of the steps before; replicas' have seen the same
  gpu::duplex_policy duplex_;        ///< the same
  bool updates_made_ = false;        ///< since the last begin: it was a step
  bool saves_made_ = false;          ///< since the last update
  bool saves_in_step_ = false;       ///< the same before that: its time tells nothing of others
  gpu::update_order timed_order_ = gpu::update_order::behind_backward;  ///< of the last such step
  uint64_t timed_redone_ = 0;                                           ///< the same
  std::unique_ptr<spill_replan> replan_;  ///< null where layers spill as they were chosen to
  bool slowed_ = false;                   ///< by its pace, or held: the step last begun
  /// When the compute stream was where, ms. The stream's, until the step is over.
  struct pass_times {
    double begun = 0, norm_known = 0, over = 0;
  };
  pass_times passes_;
  /// How long either half of a step took whose passes were made twice, of all replicas (CLP-4).
  struct half_times {
    double norm_s = 0, update_s = 0;
  };
  half_times halves_;                    ///< the stream's, until the step is over
  std::shared_ptr<void> halves_pinned_;  ///< where replicas exchange it
  gpu::step_moves moved_;                ///< in that step, of all replicas; the same
  std::shared_ptr<void> moved_pinned_;   ///< where they exchange it
  gpu::buffer shared_moves_;             ///< the same; through it halves_ go, too
  std::unique_ptr<rank_copies> copies_;  ///< null where none are taken; waits for the saver
  std::unique_ptr<gpu::state_saver> saver_;
  std::stop_source ending_;  ///< of what blocks
  std::vector<std::pair<rank_group, std::unique_ptr<gpu::pending_group>>> pending_;
  std::mutex groups_mutex_;
  std::unique_ptr<gpu::communicator> replicas_, pipeline_, tied_;
  std::vector<slot_events> slots_;
  step_clock clock_;
  std::unique_ptr<stream_hash> digests_;  ///< of weights, by the compute stream; null: no replicas
  std::vector<int> digested_;             ///< chunks, in that stream's order, in the present step
  std::vector<int> digested_before_;      ///< those of a step whose updates may be dropped
  double digest_begun_ms_ = 0;            ///< the stream's
  engine_probe* probe_ = nullptr;
  uint64_t cause_span_ = 0, cause_trace_ = 0;
  mutable std::mutex failure_mutex_;
  status failure_;  ///< the first one of any stream (ENG-5)
  double awaited_ms_ = 0;
  uint64_t own_parameters_ = 0;  ///< that this rank updates
  /// What the device tells at the end of a step; pinned, so that telling it holds nothing up.
  struct readings {
    double loss = 0;
    double norm_squared = 0;
    float clip_factor = 1;
  };
  readings read_;
  std::shared_ptr<void> readings_pinned_, batches_pinned_;
  /// Null: the pace is none of the engine's. It ends before the threads of compute_ do (CTQ-2).
  std::shared_ptr<gpu::controls::actuator> actuator_;
  std::vector<std::string> controls_passed_;  ///< why none before it is
  int pace_ordered_ = 0;                      ///< of the compute stream, last; 0: none
  std::atomic<int> pace_in_force_ = 0;        ///< by the compute stream; 0: none was set
  /// Of the actuator, as of the pace set last; -1: it has measured nothing.
  std::atomic<int64_t> actuation_p50_ns_ = -1, actuation_p99_ns_ = -1;
  std::atomic<bool> told_of_loss_ = false;    ///< of who sets it
  std::unique_ptr<gpu::controls::operation_clocks> clocks_;  ///< null: operations have none
  std::unique_ptr<gpu::stream> files_, compute_, data_;
  std::array<std::unique_ptr<gpu::stream>, transfer_streams> lanes_;
};

}  // namespace troupe::train
