// The device work of one rank: its model, its streams, its groups, and the order between them. No
// CAF: the worker actor turns messages into these calls and completions into messages.
//
// Streams: compute (forward, backward, update), data (what replicas sum and gather, the tied table,
// the norm), and one for each kind of transfer with a neighbour, so that a send never stands behind
// a receive (MegaScale §3.2); files has the blocking work of building, connecting and loading;
// the saver has one of its own, which copies checkpoints while the others go on.
//
// Invariants
//   ENG-1  No call waits; a completion is called once, on a stream's thread, with the first error
//     of that stream.
//   ENG-2  A chunk's sum over replicas starts as soon as its last micro-batch's backward has passed
//     it, while backward goes on. Each replica gets its slice of it; outside of that the gradient
//     is zero again before the update.
//   ENG-3  A buffer that a transfer reads is overwritten only behind the transfer's event.
//   ENG-4  The tied table's gradient is summed after all others, in every rank of the group: of the
//     slice that both have.
//   ENG-6  A chunk is updated only behind the copies of it that a checkpoint still makes; how long
//     that took is in the outcome.
//   ENG-7  A chunk's new weights are gathered from the replicas as soon as its slice is updated,
//     while the next chunks are; forward waits chunk by chunk (PS-6), nobody else does.
//   ENG-8  Replicas enqueue the same collectives in the same order, all on the data stream (COM-1).
//   ENG-5  After a failure every later completion reports it; the rank is of no more use.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/collective/communicator.hpp"
#include "gpu/device.hpp"
#include "gpu/model/saved_state.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/model/state_saver.hpp"
#include "gpu/optim/optimizer.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// Where a rank stands in data x pipeline.
struct rank_coordinates {
  int rank = 0;
  int data_rank = 0;
  int data_ranks = 1;
  int pipeline_rank = 0;
  int pipeline_ranks = 1;

  bool first() const { return pipeline_rank == 0; }
  bool last() const { return pipeline_rank + 1 == pipeline_ranks; }
};

/// Everything a rank is made from.
struct engine_options {
  rank_coordinates at;
  gpu::model_config model;
  gpu::stage_shape shape;
  gpu::optimizer_settings optimizer;
  int64_t batch = 1;  ///< sequences of a step over all replicas
  uint64_t seed = 0;
  int threads = 1;              ///< of the compute stream
  std::string device = "host";  ///< gpu::open_device's name of it
  bool shared_devices = false;  ///< several ranks of the job are on one device
  int64_t group_timeout_ms = 120'000;
  std::string job;     ///< its name, for checkpoints
  uint64_t epoch = 0;  ///< the same
  std::filesystem::path checkpoint_folder;
  uint32_t checkpoint_slot_bytes = gpu::saver_slot_bytes;
  uint64_t checkpoint_ring_bytes = uint64_t{256} << 20;
  /// Told from other threads whenever saver_facts() may have changed; must not wait.
  std::function<void()> on_save_progress = {};
};

/// One rank's ends of its groups, for the coordinator to hand round.
struct group_offer {
  std::string name;
  int rank = 0;  ///< within the group
  int size = 1;
  std::vector<std::string> addresses;
};

/// What a finished step tells.
struct step_outcome {
  double loss_sum = 0;   ///< over this rank's targets; 0 without a head
  double grad_norm = 0;  ///< of the whole model, before clipping
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;           ///< sums, norm and optimizer that nothing overlapped
  double checkpoint_wait_ms = 0;  ///< of update_ms: for copies of a checkpoint (ENG-6)
};

/// Tokens and targets of one global batch, [B,T] each, mapped from the loader's shared memory.
struct batch_view {
  const int32_t* tokens = nullptr;
  const int32_t* targets = nullptr;
};

/// Told of what the streams do, on their threads: begin and end of every operation. It must outlive
/// the engine and may not wait.
class engine_probe {
 public:
  virtual ~engine_probe() = default;

  /// One operation on one stream.
  struct operation {
    const char* name;      ///< "forward", "receive_activation"; static
    int64_t number;        ///< micro-batch or chunk
    uint64_t span, trace;  ///< of the message it was enqueued for
    uint64_t bytes;        ///< moved, 0: it computes
    int peer;              ///< rank it needs for that; -1: none; -2: all of its group
  };
  /// `begin` answers with a token that `end` gets back.
  virtual uint64_t begin(const operation& op) = 0;
  virtual void end(const operation& op, uint64_t token, double begin_ms, double end_ms) = 0;
};

class rank_engine {
 public:
  using completion = std::function<void(const status&)>;

  /// Makes device and streams; allocates nothing big.
  static result<std::unique_ptr<rank_engine>> make(const engine_options& options);
  ~rank_engine();

  const engine_options& options() const noexcept { return options_; }

  /// Reports every operation from now on; before the first of them.
  void set_probe(engine_probe* probe) noexcept { probe_ = probe; }
  /// The message that the next calls are made for.
  void set_cause(uint64_t span, uint64_t trace) noexcept {
    cause_span_ = span;
    cause_trace_ = trace;
  }

  /// Allocates the stage and gives it random weights by the seed.
  void build(completion done);
  /// The stage; null until build() has completed.
  gpu::stage_model* model() noexcept { return model_.get(); }

  /// Batches will be copied from this memory, which outlives the engine: it is pinned where that
  /// makes copies quicker. Where it cannot be, they are slower; nothing else changes.
  void reads_from(std::span<const std::byte> memory);

  /// Opens this rank's ends of its groups on the address `host`: data/<p>, pipe/<d>, tied/<d>.
  result<std::vector<group_offer>> open_groups(const std::string& host);
  /// By group name: what each rank of the group offers to this one, by rank.
  using group_tables = std::vector<std::pair<std::string, std::vector<std::string>>>;
  void connect_groups(group_tables tables, completion done);

  // -- one step ----------------------------------------------------------------------------------

  void begin_step();
  void receive_activation(int micro_batch, int slot);
  void receive_gradient(int micro_batch, int slot);
  /// `done` runs when the activation is computed; sending it to the next stage is enqueued behind.
  void forward(int micro_batch, int slot, const batch_view& batch, completion done);
  /// `last`: no more micro-batches follow; chunks are summed over replicas as they complete
  /// (ENG-2).
  void backward(int micro_batch, int slot, bool last, completion done);
  /// Sums what is left, norm, clip, update of the own slices. `step` counts from 1. Others' slices
  /// may still be on their way when it is done (ENG-7).
  void update(int64_t step, double lr, std::function<void(const status&, step_outcome)> done);
  void evaluate(int micro_batch, int slot, const batch_view& batch, completion done);
  /// The loss of the evaluations since begin_step().
  void finish_evaluation(std::function<void(const status&, step_outcome)> done);

  // -- state -------------------------------------------------------------------------------------

  /// Reads this rank's tensors from a Hugging Face folder, or its slices of them from a checkpoint,
  /// weights then being gathered from the replicas; with `optimizer`, moments too.
  void load(std::string folder, bool optimizer, completion done);
  /// Saves this rank's share of the state after the last update enqueued into its shard in
  /// `partial`, while later steps run (state_saver.hpp). `done` is the vote.
  void save(uint64_t step, const std::filesystem::path& partial, gpu::state_saver::completion done);
  /// What Status shows of it; nothing until build() has completed. From any thread after that.
  std::optional<gpu::saver_facts> saver_facts() const;

  /// Makes pending transfers fail. From any thread.
  void abort() noexcept;

 private:
  enum class lane : uint8_t { activation_in, activation_out, gradient_in, gradient_out, count };
  struct slot_events {
    gpu::event_ptr activation_received, gradient_received;
    gpu::event_ptr output_sent, input_grad_sent;
    gpu::event_ptr freed;  ///< the last operation that reads the slot's inputs
  };

  explicit rank_engine(engine_options options) : options_(std::move(options)) {}
  status make_streams();
  status build_now();
  gpu::saver_options saver_options();
  gpu::stream& stream_of(lane l) { return *lanes_[static_cast<size_t>(l)]; }
  batch_view rows_of(int micro_batch, const batch_view& batch) const;
  float gradient_scale() const;
  void stamp(double* add_to_ms);
  void probed(gpu::stream& s, engine_probe::operation op, const std::function<void()>& enqueue);
  int rank_at(int pipeline_rank) const;
  void send(lane l, const void* data, int peer, uint64_t tag, gpu::event_ptr& sent);
  void sum_over_replicas(int chunk);
  void sum_tied_table();
  void clip(int64_t step);
  void share_norms(int64_t step, float lr);
  void gather_weights(int chunk);
  void restore(const std::string& folder, gpu::restored what, completion done);
  void await_copies(int chunk);
  void run_blocking(std::function<status()> work, completion done);
  void watch(gpu::stream& s);
  void note_failure(const status& s);
  status failure() const;
  completion guarded(completion done) const;
  void report(std::function<void(const status&, step_outcome)> done);

  engine_options options_;
  std::unique_ptr<gpu::device> device_;
  // Streams end before what their operations use; members are destroyed in reverse order.
  std::unique_ptr<gpu::stage_model> model_;
  std::unique_ptr<gpu::optimizer> optimizer_;
  std::unique_ptr<gpu::state_saver> saver_;
  std::vector<std::pair<std::string, std::unique_ptr<gpu::pending_group>>> pending_;
  std::unique_ptr<gpu::communicator> replicas_, pipeline_, tied_;
  std::vector<slot_events> slots_;
  step_outcome outcome_;
  engine_probe* probe_ = nullptr;
  uint64_t cause_span_ = 0, cause_trace_ = 0;
  mutable std::mutex failure_mutex_;
  status failure_;  ///< the first one of any stream (ENG-5)
  double stamp_started_ms_ = 0;
  double copies_awaited_ms_ = 0;
  /// What the device tells at the end of a step; pinned, so that telling it holds nothing up.
  struct readings {
    double loss = 0;
    double norm_squared = 0;
  };
  readings read_;
  std::shared_ptr<void> readings_pinned_, batches_pinned_;
  std::unique_ptr<gpu::stream> files_, compute_, data_;
  std::array<std::unique_ptr<gpu::stream>, static_cast<size_t>(lane::count)> lanes_;
};

}  // namespace troupe::train
