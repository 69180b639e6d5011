// The device work of one rank, as its worker uses it: calls that never wait, and completions that
// may come from other threads. No CAF.
//
// An edge of the program: here a simulation puts times in place of work, and a test what it wants
// to see. Everything above is the same code everywhere.
//
// Its worker is the only caller, on one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/defaults.hpp"
#include "actors/health/recheck_policy.hpp"
#include "actors/job/plan.hpp"
#include "actors/train/schedule_policy.hpp"
#include "actors/train/work_pace_policy.hpp"
#include "gpu/controls/groups.hpp"
#include "gpu/controls/operation_clocks.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/model/state_saver.hpp"
#include "gpu/optim/optimizer.hpp"
#include "gpu/swap/limit_model.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/base/memory_account.hpp"
#include "io/base/model_config.hpp"
#include "io/base/rank_grid.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "messages/step_parts.hpp"

namespace troupe::train {

/// What a rank needs of a drive, for what of its stage memory does not hold.
struct swap_request {
  std::vector<std::filesystem::path> dirs;  ///< as swap.dir names them, each on its own drive
  std::string job;
  int rank = 0;
  uint64_t file_bytes = 0;
  std::filesystem::path checkpoints = {};  ///< the folder of those; empty: there is none
  bool consume = false;  ///< a checkpoint becomes the files, as the run has found for all ranks
};

/// Where files of a rank go.
struct opened_place {
  std::filesystem::path files;
  bool links = false;       ///< into the folder of checkpoints (ENG-12)
  uint64_t free_bytes = 0;  ///< of its drive
};
/// A rank's folders of swap files, which its swapper has opened for it and keeps for longer than
/// its engine lives.
struct opened_swap {
  std::vector<opened_place> places = {};    ///< one for each of swap.dir, in its order; empty: none
  bool consumes = false;                    ///< a restored checkpoint's files become the state
  std::shared_ptr<const void> keeper = {};  ///< has it where no swapper does
};

/// Everything a rank is made from.
struct engine_options {
  grid_rank at;
  model_config model;
  gpu::stage_shape shape;
  gpu::optimizer_settings optimizer;
  int64_t batch = 1;  ///< sequences of a step over all replicas
  uint64_t seed = 0;
  int threads = 1;              ///< of the compute stream
  std::string device = "host";  ///< gpu::open_device's name of it
  bool shared_devices = false;  ///< several ranks of the job are on one device
  gpu_place gpu_at = {};        ///< of one that swaps: where it is, if on a GPU
  std::chrono::milliseconds group_timeout = defaults::group_timeout;
  std::string job;     ///< its name, for checkpoints
  uint64_t epoch = 0;  ///< the same
  uint64_t launch = 0;  ///< by which no other job of its name is taken for it; 0: unknown
  std::filesystem::path checkpoint_folder;
  uint32_t checkpoint_slot_bytes = gpu::saver_slot_bytes;
  uint64_t checkpoint_ring_bytes = uint64_t{256} << 20;
  /// Copies in memory: the process's, null where none are taken; who keeps this rank's, and of whom
  /// it keeps them (keeper_policy.hpp).
  std::shared_ptr<io::checkpoint::memory_copies> copies = {};
  int keeper = -1;
  std::vector<int> keeps = {};
  /// Of chunks that shape.where has on disk: as the job says, and once it is opened.
  std::vector<std::filesystem::path> swap_dirs = {};
  opened_swap swap = {};
  bool swap_verify = true;
  /// A restored checkpoint's files become the state, and it is removed: the drive has no room for
  /// both, as the run has found for all ranks (swap_ranks.hpp: must_consume).
  bool swap_consume = false;
  uint64_t swap_bytes = 0;  ///< that its stage may take at most, as its replicas; 0: no such limit
  uint64_t swap_device_bytes = 0;  ///< the same of its GPU
  /// Of replicas: whether the drives of all have room for a second version, as the run has found;
  /// none: that is found where the stage is planned.
  std::optional<bool> swap_second_version = {};
  size_t swap_old_files = 0;  ///< of a chunk, that are written again one day (SWP-12)
  gpu::clip_way swap_clip = gpu::clip_way::automatic;
  gpu::weights_choice swap_weights = gpu::weights_choice::automatic;
  /// By which its layers were chosen to spill; none: they were not chosen so.
  std::optional<gpu::machine_rates> swap_rates = {};
  std::chrono::seconds swap_patience{600};  ///< for room, where a write has failed
  uint64_t process_bytes = 0;  ///< that its process may hold (memory_account); 0: no limit
  uint64_t device_bytes = 0;   ///< and of its GPU (device_limit_bytes)
  int64_t recheck_every = 0;  ///< steps from one rechecked layer to the next
  /// Each operation may have a clock of its own (power.slack), where `control` can set one.
  bool clocks_operations = false;
  /// What may hold its pace (open_actuator.hpp); empty: pauses (op_gate.hpp).
  std::vector<std::string> control = {};
  gpu::controls::control_place controls = {};  ///< where that is
  std::string agent_socket = {};  ///< who is asked for what may not be set here; empty: nobody
  bool weights_follow = false;  ///< by load() or take_back(): build() makes none
  std::vector<config::drill_spec> drills = {};  ///< that this rank makes (drill_policy.hpp)
  /// Told from other threads whenever saver_facts() may have changed; must not wait.
  std::function<void()> on_save_progress = {};
  /// Told from other threads what the person who started the run should know; must not wait.
  std::function<void(const std::string&)> on_notice = {};

  /// Sequences of a step that this replica reads.
  int64_t rows() const noexcept { return at.grid.rows_each(batch); }
};

/// What a stage orders of its rank's engine.
struct op_order {
  pipeline_op kind = pipeline_op::begin;
  int micro_batch = 0;
  int slot = 0;             ///< of activations
  int64_t batch_slot = -1;  ///< the loader's, -1 where the stage needs none
  bool last = false;        ///< no more micro-batches follow
  uint64_t step = 0;        ///< of forward, backward and recheck: the training step
  int micro_batches = 1;    ///< from micro_batch on, layer by layer; in slots from `slot` on
  work_pace pace = {};      ///< of begin: of the pass
  bool digest = false;      ///< of the last backward: digest_weights() follows
  /// Of begin: the clocks of the pass's operations; null: the highest. ENG-15
  gpu::controls::clock_table_ptr clocks = {};
};

/// How a rank's stage orders its work.
schedule_of schedule_of_stage(const config::job& job, const grid_rank& at);

/// The options of one rank's engine, all but its epoch.
engine_options options_of(const config::job& job, const model_config& model, const grid_rank& at,
                          layer_range layers, int threads);

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
  std::vector<step_part> parts = {};
  std::vector<uint64_t> digests = {};  ///< of the weights before the update, by chunk
  std::optional<health::recheck_result> recheck = {};  ///< where one was ordered in the step
  uint64_t process_peak_bytes = 0;  ///< resident at most so far; 0: not known
  /// Of this rank's targets, each one's document's length, added up; 0: each row is one.
  uint64_t document_pairs = 0;
  uint64_t late_clocks = 0;    ///< operations that began at a lower clock than theirs
  bool clocks_failed = false;  ///< none is set any more
  /// Processes of others that compute on its device, for which its clocks are given back; 0: they
  /// are not.
  unsigned clocks_given_back_to = 0;
  /// From a command to what holds its pace until its effect was seen, as measured last; -1: nothing
  /// was set yet, or nothing holds it.
  int64_t actuation_p50_ns = -1, actuation_p99_ns = -1;
  bool pauses = false;  ///< what made its device slower is gone: pauses hold its pace from now on
  /// It is not finished: its updates were dropped, since the norm of the gradients asks for others.
  /// update() is called again, with the same numbers, before anything else; what is told then is of
  /// both calls.
  bool again = false;
};

/// Told of what the streams do, on their threads: begin and end of every operation. It must outlive
/// the engine and may not wait.
class engine_probe {
 public:
  virtual ~engine_probe() = default;

  /// One operation on one stream.
  struct operation {
    pipeline_op kind;
    int64_t number;                ///< micro-batch, chunk or step
    uint64_t bytes = 0;            ///< moved, 0: it computes
    int64_t micro_batches = 1;     ///< that it computes
    uint64_t span = 0, trace = 0;  ///< of the message it was enqueued for
  };
  /// `begin` answers with a token that `end` gets back.
  virtual uint64_t begin(const operation& op) = 0;
  virtual void end(const operation& op, uint64_t token, double begin_ms, double end_ms) = 0;
  /// The compute stream waits for something of this kind, within an operation or between two, until
  /// it goes on: for this chunk, while so many operations are with the swap folder's disk.
  virtual void waits(pipeline_op kind, int64_t chunk = -1, uint64_t under_way = 0) = 0;
  virtual void goes_on() = 0;
};

/// What an engine that is built holds.
struct engine_facts {
  uint64_t parameters = 0;         ///< of this rank's layers; a tied table counts once
  uint64_t bytes = 0;              ///< of device memory
  std::vector<std::string> notes;  ///< on its files, for the log
  bool pauses = false;  ///< nothing of options.control is to be had but pauses between operations
  std::vector<std::string> warnings = {};  ///< what a person should know of them
  bool sets_clocks = false;                ///< of operations
  bool saves_energy = false;  ///< what holds its pace does; false: the same joules, later
  std::string control = {};   ///< what holds its pace, a word of power.control; empty: pauses do
  std::vector<int> clocks_mhz = {};  ///< that it can set, highest first
};

/// What Status shows of copies in memory.
struct copy_facts {
  uint64_t copied_step = 0;  ///< the newest that this process and the keeper hold; 0: none
  uint64_t bytes = 0;        ///< of all copies of the process
  int keeper = -1;
  uint64_t failed = 0;  ///< that did not come about
};

/// What of a rank's chunks lives on a drive.
struct swap_facts {
  uint32_t state_chunks = 0;   ///< whose optimizer state does
  uint32_t weight_chunks = 0;  ///< of them, whose weights do, too
  uint64_t disk_bytes = 0;     ///< of its files
  uint64_t memory_bytes = 0;   ///< that the stage takes
  uint64_t read_bytes = 0, written_bytes = 0;  ///< so far
  gpu::update_order order = gpu::update_order::behind_backward;  ///< of the step last begun
  uint64_t redone_steps = 0;  ///< so far, whose updates were dropped and made again
  int spilled_layers = 0;     ///< whose activations go there, in the step last begun
  int recomputed_layers = 0;  ///< that were to spill, in the same
  /// Of the last checkpoint, chunks by how it got them.
  uint32_t linked_chunks = 0, cloned_chunks = 0, copied_chunks = 0;
  io::memory_account::table memory = {};       ///< of the process
  std::optional<io::memory_account::table> device_memory = {};  ///< of its GPU, where it has one
  std::string device = {};                                      ///< which that is; else empty
};

/// A loader's memory: slots of tokens and targets (batch_memory.hpp).
struct batch_source {
  std::string path;
  uint64_t slot_bytes = 0;
  int64_t slots = 0;
  int64_t first_row = 0;  ///< of a slot, with which this rank's rows begin
};

/// Folders of swap files; they go with this.
class swap_home {
 public:
  virtual ~swap_home() = default;
  virtual opened_swap opened() const = 0;
};

/// One rank's device work; see rank_engine.hpp for the order that a real one keeps.
class engine {
 public:
  using completion = std::function<void(const status&)>;
  using outcome_completion = std::function<void(const status&, step_outcome)>;
  /// By group name: what each rank of the group offers to this one, by rank.
  using group_tables = std::vector<std::pair<std::string, std::vector<std::string>>>;

  virtual ~engine() = default;

  /// Reports every operation from now on; before the first of them.
  virtual void set_probe(engine_probe* probe) noexcept = 0;
  /// The message that the next calls are made for.
  virtual void set_cause(uint64_t span, uint64_t trace) noexcept = 0;

  /// Allocates the stage and gives it random weights by the seed. Everything below but groups is
  /// called once it has completed.
  virtual void build(completion done) = 0;
  virtual engine_facts facts() const = 0;
  /// How long its device has computed since it was made: not while it waited for others, nor while
  /// bytes moved. From any thread.
  virtual uint64_t computed_us() const = 0;

  /// Batches come from this memory from now on. Errors: as of batch_memory::open.
  virtual status attach(const batch_source& batches) = 0;

  /// Opens this rank's ends of its groups on the address `host` (grid_rank::groups).
  virtual result<std::vector<group_offer>> open_groups(const std::string& host) = 0;
  virtual void connect_groups(group_tables tables, completion done) = 0;

  // -- one step ----------------------------------------------------------------------------------

  /// Enqueues one of the operations that a stage orders. `done` is called for those that release
  /// others (operations.hpp): when it is computed; sending what was is enqueued behind.
  virtual void run(const op_order& order, completion done) = 0;
  /// The outcome of the update that follows has digests of the weights as they are before it, where
  /// there are replicas to compare them with; of those that share frames as backward left them,
  /// where its last order said so.
  virtual void digest_weights() {}
  /// Operations of the step whose update follows were held back on this rank, by a pace or a brake:
  /// how long it took tells nothing of its device and drive.
  virtual void were_held() {}
  /// Sums what is left, norm, clip, update. `step` counts from 1.
  virtual void update(int64_t step, double lr, outcome_completion done) = 0;
  /// The loss of the evaluations since the step's begin.
  virtual void finish_evaluation(outcome_completion done) = 0;

  // -- state -------------------------------------------------------------------------------------

  /// Reads this rank's tensors from a Hugging Face folder, or its slices of them from a checkpoint;
  /// with `optimizer`, moments too.
  virtual void load(std::string folder, bool optimizer, completion done) = 0;
  /// Whether files of the checkpoint that was loaded last are the state of this rank, which it can
  /// update only once that is given up. Once load() has completed.
  virtual bool takes_files() const { return false; }
  /// Saves this rank's share of the state after the last update enqueued into its shards in
  /// `partial`, while later steps run. `last`: none do. `done` is the vote.
  virtual void save(uint64_t step, const std::filesystem::path& partial, bool last,
                    gpu::state_saver::completion done) = 0;
  /// Keeps a copy of the share in memory, here and at the keeper's; the end of the next step is
  /// behind that. With `partial` it is saved into its shard as well, and `done` is the vote; else
  /// `done` is not called. Where no copies are taken it only saves.
  virtual void copy(uint64_t step, const std::filesystem::path& partial,
                    gpu::state_saver::completion done) {
    if (!partial.empty()) save(step, partial, false, std::move(done));
  }
  /// The share of a copy of this process, or of the keeper's.
  virtual void take_back(io::checkpoint::copy_tag tag, bool from_keeper, completion done) {
    (void)tag, (void)from_keeper;
    done(error{errc::unavailable, "this engine has no copies in memory"});
  }
  virtual std::optional<train::copy_facts> copy_facts() const { return std::nullopt; }
  /// Absent where all is in memory. From any thread once build() has completed.
  virtual std::optional<train::swap_facts> swap_facts() const { return std::nullopt; }
  /// What Status shows of it; nothing until build() has completed, or where nothing is saved so.
  virtual std::optional<gpu::saver_facts> saver_facts() const = 0;

  /// Makes pending transfers fail. From any thread.
  virtual void abort() noexcept = 0;
};

/// Makes the engines of a process.
class engine_maker {
 public:
  virtual ~engine_maker() = default;
  /// Errors: of the device.
  virtual result<std::unique_ptr<engine>> make_engine(const engine_options& options) = 0;
  /// Makes the folder that an engine with such options needs. Blocks. Errors: as of
  /// swap_folders::make; unavailable where these engines use no drive.
  virtual result<std::unique_ptr<swap_home>> open_swap(const swap_request& request) {
    (void)request;
    return error{errc::unavailable, "these engines use no drive"};
  }
  /// Where its engines' copies in memory live, as long as the process does; null: nowhere.
  virtual std::shared_ptr<io::checkpoint::memory_copies> copies() { return {}; }
};

}  // namespace troupe::train
