// Brings the parts of chunks that live on disk to where they are used, and back: a step whose
// optimizer state, and perhaps weights, do not fit into memory (Fuyou, arXiv 2403.06504; LoHan).
//
// What moves in a step, and on which stream (each has a thread that waits for the disk; what may be
// begun before its turn is, on streams of its own, swapper_read.cpp):
//   weights-in  a chunk's weights into its frame, as soon as what was in the frame is not used any
//               more: for forward in order, for backward in reverse; of replicas the own slice,
//               beside which the others' are gathered on a stream of theirs, where gradients are
//               summed as well that updates under backward take (SWP-13)
//   state-in    masters and moments of a chunk, group by group, into slots that are free: ahead of
//               the gradient that they wait for
//   rows-in     masters and moments of some rows, beside all groups (SWP-14)
//   update      behind the gradient and the group: the optimizer's kernel on the slot
//   state-out   behind the update of a group: back to the file, in place
//   gradients-out, gradients-in  of layers whose gradients share frames and are not taken by an
//               update yet: out of the frame, and into it before the next micro-batch adds to it
//               (swapper_gradient.cpp)
// A checkpoint takes the files as they are, by links (swapper_keep.cpp): what is updated behind
// that goes into other files, which then take the names of those that were taken. These keep a name
// in a folder `old` here: a checkpoint that expires does not free them, and what comes next is
// written into them, so that with a checkpoint each step no file is made or freed.
//
// Updates that may turn out to be wrong, since the norm of all gradients is not known yet, go into
// a second version of each file (residency.speculates); settle() makes that the first, or leaves
// all as it was.
//
// A table's gradient is whole last, and its rows are read first. So its update can be left until
// the next pass says which rows it reads (swapper_rows.cpp): these are updated first, out of state
// that is read for them alone, and all groups behind them as ever.
//
// Order is made by events alone; nobody who enqueues waits (DEV-1). The order in which streams are
// given work is that of the step, which is known; how far reading runs ahead is how many frames and
// slots there are. What waits for what is chunk_policy's; here it becomes events of streams, memory
// and files.
//
// Nothing is stale: forward of the next step waits, chunk by chunk, for the write behind the
// update. Results have the bits of training in memory: the same kernels on the same numbers, which
// only lay somewhere else meanwhile; whatever a chunk is cut into, since an update's elements do
// not know each other. LAMB's do, so its groups are read twice (CHP-8), and are the parts by which
// a chunk in memory is updated, too (OP-4). The norms are of whole tensors: of replicas all measure
// their slices of a chunk before its update. Where all gradients are held they do so of all chunks,
// else of each as soon as its gradient is summed.
//
// On a device that the host cannot address, slots and frames have a page-locked twin in the host's
// memory, through which the streams copy.
//
// Invariants
//   SWP-1  A group is updated only behind its read and its gradient; written only behind its
//          update; its slot is free only behind its write.
//   SWP-2  A frame takes other weights only behind the last use of those in it; a gradient's frame
//          another gradient only behind the update that took it, or its write, when it is zero.
//   SWP-3  Weights and state of a chunk are read only behind the last write of them.
//   SWP-4  A group is written only behind the reads of it that a checkpoint still makes (PS-5).
//   SWP-5  What is read is summed (CRC32C by array, kept in memory) before it is used, and read
//          once more where the sum is wrong; a second time is an error that names file and tensor.
//   SWP-6  After a failure that is not mended (SWP-11) nothing is written any more; it is told,
//          once, on a stream's thread.
//   SWP-7  A file that a checkpoint has a link to is never written again. All of it is on the disk,
//          its end too, before the checkpoint is voted for. Whether a checkpoint can take a chunk's
//          file is the matter of that chunk's folder alone: one that has gone on on a drive without
//          links, or that a link is refused to, is left to whoever copies the rest. Where only the
//          link is refused, and the file system lets files share blocks, it gets a clone.
//   SWP-8  Room for the files of the steps behind a checkpoint is there before it takes any: a full
//          disk costs that checkpoint, and no step. The last one of a run needs none.
//   SWP-9  Updates that may be dropped go into files that nobody reads. Whether they count is asked
//          once, for all of them, behind the last; dropped, they leave files and sums as they were,
//          and weights that memory holds are read again. Of replicas each asks for its own slices,
//          behind a norm that is the same bits on all: all take theirs, or none does.
//   SWP-10 Where files are made later (files_later) those of the checkpoint that was adopted are
//          written only once it is given up: where nothing but this has names for them any more.
//          Who gives it up asks before whether somebody else has.
//   SWP-11 Where a write fails, all that counts of its file goes into a new one, its sums compared,
//          and what was to be written is written there, out of memory; nobody reads where it was to
//          go meanwhile. Where no folder has room for that file the step waits, up to `patience`
//          for all that was to be written together (swapper_move.cpp). Of a gradient nothing else
//          counts (GRF-3).
//   SWP-12 A file that a checkpoint has had is written again only where the system says of the file
//          that was opened for it that it has one name, which is the one in `old`: it is no file of
//          the state, no checkpoint's, complete or partial, and nobody else has linked or moved it
//          away. (A checkpoint loses its own name for good before its files lose theirs, RT-3.) Of
//          a chunk there are never more files than those that checkpoints have and the ones that
//          steps behind them go into: what has expired beyond that is removed, and all of it before
//          a run's last checkpoint and where a write needs room. A name that cannot be kept costs
//          that alone.
//   SWP-13 Of replicas each has its slice of a chunk on its drive. When weights are fetched others'
//          slices are gathered behind the own one, on the stream of all their collectives, in the
//          order in which they are asked for. Replicas ask for the same in the same order, and have
//          their chunks in the same places; so the n-th collective of one is the n-th of all, and
//          none can wait for itself: what it waits for on its rank was enqueued before it, and of
//          collectives has only earlier ones before it, which are over on all ranks. The sum of a
//          gradient that is taken under backward is one of them, between the gathering of the
//          weights that backward needs next and those of the next pass. So are the norms of a
//          chunk that is updated there by LAMB, which are measured behind that sum (CHP-12).
//   SWP-14 An update that is left for the rows of the next pass is made at the latest when anybody
//          asks for anything else of the chunk, or for slots. Rows that were updated first have in
//          memory the bits that their groups' updates give them, which are compared with them and
//          not copied over what is read there: so what was read for them alone, of which no sum is
//          kept, counts only where what was summed agrees (SWP-5).
//   SWP-15 A read is begun as soon as its memory is free and its bytes are those of the step, and a
//          group is summed as soon as it is updated, whatever those before them wait for: a drive
//          has the next one to read while somebody sums. Nobody is told of either before its turn,
//          and the sums of a file are of what was written.
//   SWP-16 Where a checkpoint's file becomes a chunk's no name goes, nor gets another file, before
//          the new one stands: what fails until then leaves all as it was, for whoever reads the
//          checkpoint instead.
//   SWP-17 A gradient that is not taken as soon as backward has made it, and has no frame of its
//          own, is in a file of its own in between (gradient_files.hpp): behind each micro-batch
//          but the last, which add to it, and behind that until its update, which reads each group
//          beside the group's state. No checkpoint has that file.
//   SWP-18 Where weights in bfloat16 have no files (residency.derives_weights) who reads them reads
//          the masters, group by group, and rounds these into the frame, by the kernel that rounds
//          after a load and, by chance, with the step of the last update that counts: the bits that
//          this update gave them. What an update rounds itself is written nowhere, but for weights
//          in memory of their own. A group's masters are read while those before are rounded.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/optim/optimizer.hpp"
#include "gpu/store/residency.hpp"
#include "gpu/store/store.hpp"
#include "gpu/swap/chunk_places.hpp"
#include "gpu/swap/chunk_policy.hpp"
#include "gpu/swap/drive_work.hpp"
#include "gpu/swap/gradient_files.hpp"
#include "gpu/swap/table_rows.hpp"
#include "gpu/swap/write_retry.hpp"
#include "io/swap/chunk_shard.hpp"
#include "io/swap/swap_io.hpp"

namespace troupe::gpu {

/// What a stream of the swapper's does, for traces.
enum class swap_op : uint8_t { read_weights, read_state, update, write_state };

/// A folder of the rank's own, which exists and holds nothing.
struct swap_place {
  std::filesystem::path folder;
  bool links = false;  ///< checkpoints take its files, by links (keep)
};

struct swap_options {
  std::vector<swap_place> places;  ///< at least one, each on a drive of its own (chunk_places.hpp)
  bool verify = true;              ///< SWP-5
  std::string job = {};            ///< whose checkpoints take files
  /// Of a chunk's files that checkpoints have had so many keep a name, the newest ones (SWP-12).
  size_t old_files = 0;
  /// Files of state are made when something is written to them first, or are adopted: for a drive
  /// without room for the files and the checkpoint that a run goes on from.
  bool files_later = false;
  /// That a write which has failed waits for room (SWP-11).
  std::chrono::milliseconds patience{600'000};
  std::chrono::milliseconds look_again{1000};  ///< for that room
  std::stop_token ending = {};                 ///< ends the waiting
  /// Told what a person should know, on a stream's thread; must not wait.
  std::function<void(const std::string&)> notice = {};
  /// Called on a stream's thread each time that it has looked for room.
  std::function<void()> waits = {};
  io::swap_io_options io = {};
  /// Told of the first failure, on a stream's thread; must not wait.
  std::function<void(const status&)> failed = {};
  /// Of replicas: the stream of their collectives, for as long as anything is asked for; and what
  /// enqueues there that the others' slices of a chunk's weights come beside the own one (SWP-13).
  stream* gathering = nullptr;
  std::function<void(int chunk)> gather = {};
  /// Called around the enqueueing of each operation, for traces; must call `enqueue` once.
  std::function<void(stream& s, swap_op kind, int chunk, uint64_t bytes,
                     const std::function<void()>& enqueue)>
      around = {};
  /// The same around what makes a stream wait for weights that are on their way, and for the
  /// measuring of state that has to be read for it.
  std::function<void(stream& s, int chunk, const std::function<void()>& wait)> around_wait = {};
};

/// What of a chunk's file was not what was written there.
inline constexpr error_kind<std::string_view, std::string_view> swap_damaged{
    "swap_damaged", errc::bad_data, "{} is damaged at {}: it was read twice",
    "the disk or the memory of this machine gives back other bytes than it was given: see dmesg"};
/// What was read for rows of the next batch alone, of which no sum is kept (SWP-14).
inline constexpr error_kind<std::string_view, std::string_view> swap_rows_differ{
    "swap_rows_differ", errc::bad_data,
    "what was read of {} for rows of the next batch is not what is there: {}",
    "go on from the last checkpoint; where it happens again look for a broken disk"};

/// The file system takes no link, or the file is on another one by now; copies will do: linked()
/// says of which chunks.
inline constexpr error_kind<std::string> links_refused{
    "links_refused", errc::io, "a checkpoint beside the swap folder cannot have links to it: {}"};

/// After the last checkpoint of a run its state is that checkpoint's.
inline constexpr error_kind<> state_given_away{
    "state_given_away", errc::bug, "the state has gone into the last checkpoint of the run"};

/// A file that was to be this run's alone.
inline constexpr error_kind<std::string, uint64_t> still_has_names{
    "still_has_names", errc::bad_config,
    "{} cannot be written in place: others have {} names for it",
    "somebody linked files of that checkpoint: free space on the drive, so that the state fits "
    "beside it (swap.consume = false)"};

/// A checkpoint that takes the files.
struct keep_order {
  std::filesystem::path partial;            ///< its folder, made if it is missing
  io::checkpoint::manifest_head head = {};  ///< job, epoch, step and layout
  uint32_t rank = 0;
  bool last = false;  ///< nothing is updated behind it: room for other files is not needed
  std::vector<bool> chunks = {};  ///< by number, that it takes; none: as linked() says
};

class swapper final : public chunk_mover {
 public:
  /// Makes the files, all of whose bytes are reserved, and the streams. The store, whose options
  /// have such a residency, outlives it. Errors: io (a full disk), no_memory.
  static result<std::unique_ptr<swapper>> make(parameter_store& store, const residency& where,
                                               swap_options options);
  ~swapper() override;

  /// Enqueues, where replicas share the norms of `rule` (shared_norms()), that the own slice of a
  /// chunk is measured behind what `compute` has now, which goes on behind that.
  void measure(stream& compute, optimizer& rule, int chunk, float lr, int64_t step);
  /// The same behind the sum of the chunk's gradient, before its update, which is the next.
  /// `gather` enqueues, on the stream of the replicas' collectives and behind the measuring, that
  /// each has what all have measured of it; the update, which counts as `when` says, is behind that
  /// and measured with its clip factor (update()), and `compute` waits for
  /// neither.
  void share_norms(stream& compute, optimizer& rule, int chunk, float lr, int64_t step,
                   const std::function<void()>& gather, counts when = counts::at_once);
  /// Enqueues the update of a chunk behind what `compute` has now, its gradient, or behind the sum
  /// of that; and the clip factor of `rule`, whose store it is, which `compute` has by then. Of one
  /// that counts once it is settled the factor is 1. The gradient is zero afterwards.
  void update(stream& compute, optimizer& rule, int chunk, float lr, int64_t step,
              counts when = counts::at_once);
  /// The same of updates that count at once, for a chunk that the next pass reads rows of before
  /// all else: where these can be updated first it is left until fetch_rows() (SWP-14). `compute`
  /// and `rule` live as long.
  void update_for_rows(stream& compute, optimizer& rule, int chunk, float lr, int64_t step);
  /// Enqueues, behind what `compute` has now, that the updates of all chunks that were to be
  /// settled count if `hold` says so, on a stream's thread; else they are dropped (SWP-9).
  void settle(stream& compute, std::function<bool()> hold);
  /// The chunk's weights are fetched soon, and no others of their frame before: they begin to come.
  void bring_weights(int chunk);
  /// Before state is set on all replicas: what of its weights is in memory does not count.
  void all_set_anew();
  /// Says that they were, before anything else is asked: what memory had of them is brought back.
  void were_dropped();
  /// Of replicas: enqueues that the gradient which `compute` has made by now is summed over them.
  /// `sum` enqueues that on the stream of their collectives, and what else reads all of the sum.
  /// Whoever takes the gradient next, update() or drop_gradient(), does so behind that alone, and
  /// `compute` waits for neither.
  void sum_gradient(stream& compute, int chunk, const std::function<void()>& sum);
  /// Enqueues that a gradient which is on disk in between (residency::gradient_on_disk) goes there,
  /// as `compute` or its sum has made it by now. `whole`: behind the step's last micro-batch; the
  /// next who takes it is its update.
  void store_gradient(stream& compute, int chunk, bool whole);
  /// Enqueues that a chunk's gradient is not taken: it is zeroed behind what `compute` has now, or
  /// behind its sum.
  void drop_gradient(stream& compute, int chunk);

  /// The shards that a checkpoint has got, or why it gets none.
  using kept = std::function<void(const result<std::vector<io::checkpoint::chunk_shard>>&)>;
  /// Enqueues that a checkpoint takes the files as they are behind the updates enqueued so far
  /// (SWP-7). `done` is called once, on a stream's thread. A failure changes nothing else (SWP-8),
  /// but for a file that could not be written or synced: what is asked of it later fails (DK-3).
  /// Errors: io, links_refused.
  void keep(keep_order order, kept done);

  /// Takes the state of a chunk over out of a checkpoint that got its file from a rank of this
  /// layout, by a link: all of it is read and summed, nothing is written, and the file stays the
  /// checkpoint's (SWP-7). False where that cannot be, damage included: nothing has changed then.
  /// Blocks; the chunk is quiet.
  bool adopt(int chunk, const std::filesystem::path& shard, const io::checkpoint::file_entry& entry,
             const std::stop_token& ending = {});
  /// Whether chunks are in files that were adopted and have to become this run's alone before an
  /// update (SWP-10): the checkpoint is to be given up. Errors: still_has_names where that would
  /// not do; io. Blocks; all chunks are quiet.
  result<bool> awaits_checkpoint();

  void fetch_weights(stream& s, int chunk) override;
  bool fetch_rows(stream& s, int chunk, int64_t width, row_ids ids) override;
  void release_weights(stream& s, int chunk) override;
  void fetch_gradient(stream& s, int chunk) override;
  void await_state(stream& s, int chunk) override;
  status write(int chunk, part which, const value_source& values) override;
  status read(int chunk, part which, int64_t first, int64_t count, float* host) override;
  status publish(int chunk, int64_t after) override;

  /// Whether checkpoints take a chunk's file (SWP-7); once not, never again. From any thread.
  bool links(int chunk) const { return chunks_[static_cast<size_t>(chunk)].links; }
  /// Files that the last checkpoint took of which all were taken. From any thread.
  struct taken_files {
    uint32_t linked = 0;
    uint32_t cloned = 0;  ///< where a link was refused
  };
  taken_files taken() const noexcept { return {linked_, cloned_}; }
  /// The chunks that a checkpoint takes now, by number: for the order of one.
  std::vector<bool> linked() const;
  /// Rows that were updated before the rest of their table, so far. By the thread that enqueues.
  uint64_t rows_first() const noexcept { return rows_first_; }

  /// From any thread.
  io::swap_io_facts facts() const { return io_->facts(); }
  /// What moves its bytes, for other files of its folders.
  std::shared_ptr<io::swap_io> io() const { return io_; }
  /// How a failed write waits for room, for these as well (SWP-12); not beyond this object.
  room_wait wait_for_room();

 private:
  /// A file as a checkpoint of such a step has it.
  struct kept_shard {
    uint64_t step = 0, epoch = 0;
    io::checkpoint::chunk_shard facts;
  };
  using named_file = placed_file;  ///< of options_.places
  /// What a file holds, by group.
  struct file_sums {
    std::vector<io::group_sums> state;
    std::vector<uint32_t> weights;
  };
  /// Of which update a chunk's weights are the masters' rounding; 0: of none.
  struct rounding_steps {
    int64_t after = 0;
    std::optional<int64_t> unsettled = {};
    int64_t before = 0;  ///< what was settled last

    void updated(int64_t step, counts when) {
      if (when == counts::at_once)
        after = step;
      else
        unsettled = step;
    }
    void settle() { before = std::exchange(after, std::exchange(unsettled, {}).value_or(after)); }
    void dropped() { after = before; }
  };
  struct chunk_state {
    io::chunk_file layout{1, 1, io::chunk_weights::masters};
    named_file state;                  ///< as it is
    named_file next;                   ///< behind a checkpoint's, or behind updates to be settled
    named_file spare;                  ///< behind a checkpoint's where `next` is behind updates
    std::deque<named_file> old;        ///< SWP-12, the newest last; of the disk's thread alone
    named_file weights, next_weights;  ///< not there where these are the masters, or derived
    uint64_t tail_bytes = 0;           ///< room for a shard's end
    chunk_versions versions;           ///< state_out_'s thread's (SWP-7), as the next member
    std::optional<kept_shard> as;  ///< what it is there, where this process has written its end
    file_sums sums, next_sums;
    std::vector<std::vector<parameter_span>> spans;  ///< by group
    rounding_steps rounded;                          ///< SWP-18; the enqueuing thread's
    std::atomic<uint64_t> writes{0};  ///< of groups
    std::atomic<bool> links{false};   ///< its files are where a checkpoint can have links to them
  };
  /// Memory for one group's state.
  struct slot {
    std::shared_ptr<void> owner;
    std::byte* host = nullptr;
    std::shared_ptr<void> pinned;
    buffer on_device;  ///< where the host cannot address the device
    /// Of a group that is to be written: sums_'s thread's, then state_out_'s.
    io::group_sums sums = {};
    uint32_t weights_sum = 0;
  };
  /// A read that was begun before its turn, and the state's file that it is of.
  struct begun_range {
    io::swap_io::begun_read read;
    named_file file = {};
  };
  static constexpr std::array all_parts{io::state_part::master, io::state_part::exp_avg,
                                        io::state_part::exp_avg_sq};
  /// Where the arrays of a group lie in a slot.
  struct arrays {
    std::byte* base = nullptr;
    uint64_t array_bytes = 0;
    float* state(io::state_part p) const {
      return reinterpret_cast<float*>(base + static_cast<uint64_t>(p) * array_bytes);
    }
    std::byte* weights() const { return base + io::state_parts * array_bytes; }
    /// Behind the others, of a gradient that comes from its file.
    std::byte* gradient(const io::chunk_file& layout) const {
      return base + swap_slot_bytes(layout);
    }
  };
  /// An array of a group that was read for somebody else than the update.
  struct kept_array {
    int chunk = -1, group = -1;
    uint64_t writes = 0;
    std::shared_ptr<io::io_buffer> memory;
  };

  /// Rows that are updated first, and how they are updated; alive until the streams have passed.
  struct first_rows {
    std::vector<row_piece> pieces;
    std::vector<std::vector<parameter_span>> spans;  ///< by piece
  };
  /// An update, or a measuring.
  struct update_call {
    optimizer* rule = nullptr;
    float lr = 0;
    int64_t step = 0;
    std::shared_ptr<const first_rows> rows = {};  ///< null: all of the chunk at once
  };
  struct late_update {
    stream* compute = nullptr;
    int chunk = 0;
    update_call how;
  };

  enum class contents : uint8_t { state, weights, gradient };
  /// What is written to a file, and what else of it counts.
  struct target {
    int chunk = 0;
    named_file* file = nullptr;
    contents of = contents::state;
    const file_sums* sums = nullptr;  ///< of a gradient none: nothing else counts (GRF-3)
    int groups = 0;  ///< the first ones, which count
    io::swap_io::range what = {};
  };
  struct counted {
    uint64_t offset = 0, bytes = 0;
    uint32_t sum = 0;
    int group = 0;
  };

  /// In the folder: of files for other versions than the first, of those that are made in place of
  /// others, by whoever writes them, and of what is removed at once.
  static constexpr const char *next_folder = "next", *spare_folder = "spare",
                              *moved_folder = "moved", *moved_gradients_folder = "moved-gradients",
                              *old_folder = "old";

  swapper(parameter_store& store, const residency& where, swap_options options);
  size_t slice_bytes(int chunk) const;
  void read_into_memory(int chunk);
  void round_into_memory(int chunk);
  io::swap_io::range masters_range(int chunk, int group) const;
  status read_masters(int chunk, int group, io::swap_io::begun_read begun);
  status make_files();
  status make_file(int chunk);
  status make_slots();
  status make_gradients();
  result<slot> make_slot(uint64_t bytes, bool twin) const;
  status make_streams();
  bool on_disk(int chunk) const { return where_.of(chunk).state_on_disk; }
  /// Checkpoints have a file for it. Of a tied table's copy they have the first stage's.
  bool is_kept(int chunk) const { return links(chunk) && !store_.info(chunk).tied_copy; }
  chunk_state& at(int chunk) { return chunks_[static_cast<size_t>(chunk)]; }
  void make_order();
  event_ptr& event(const chunk_point& p);
  stream& lane(chunk_lane on, stream* compute);
  void carry_out(const chunk_op& op, stream* compute,
                 const std::function<void(stream&)>& work = {});
  void await(stream& s, int chunk, const chunk_op& op);
  void bring(const chunk_op& op);
  void come(const chunk_policy::ops& ops, stream* compute = nullptr);
  arrays in_slot(const slot& s, const chunk_state& c, bool on_host) const;
  void enqueue(stream& s, swap_op kind, int chunk, uint64_t bytes,
               const std::function<void()>& work);

  const slot& slot_of(const chunk_op& op) const { return slots_[static_cast<size_t>(op.slot)]; }
  void enqueue_update(stream& compute, int chunk, const update_call& how, counts when);
  bool may_wait_for_rows(const optimizer& rule, int chunk) const;
  void finish_update();
  void finish_update(int chunk) {
    if (late_ && late_->chunk == chunk) finish_update();
  }
  void read_rows(const chunk_op& op, const update_call& how);
  status read_rows(const slot& s, const chunk_op& op, const first_rows& rows);
  void update_rows(const chunk_op& op, const update_call& how);
  void copy_to_frame(const chunk_op& op, const optimizer::piece& p, const update_call& how);
  status compare_rows(const chunk_op& op, const optimizer::piece& p, const first_rows& rows);
  std::byte* frame_at(int chunk, int64_t element) const;
  void use_group(stream& s, const chunk_op& op, const update_call& how);
  void read_group(const chunk_op& op);
  optimizer::piece piece_of(const chunk_op& op);
  void update_group(const chunk_op& op, const update_call& how);
  void write_group(const chunk_op& op);
  void use_gradient(stream& s, const chunk_op& op);
  void write_gradient(stream& s, const chunk_op& op);
  void read_gradient(stream& s, const chunk_op& op);
  std::pair<std::span<std::byte>, std::shared_ptr<void>> gradient_memory(int chunk,
                                                                         const slot& twin) const;
  result<std::vector<io::swap_io::range>> group_ranges(const slot& s, const chunk_op& op,
                                                       io::file_id file);
  status check_group(const slot& s, const chunk_op& op, const std::filesystem::path& file);
  stream& ahead_of(const chunk_op& op, stream& own);
  void begin(stream& s, const chunk_op& op);
  result<begun_range> begin_state(const chunk_op& op);
  result<begun_range> begin_weights(int chunk);
  void sum_group(stream& s, const chunk_op& op);
  std::vector<io::swap_io::range> weight_ranges(int chunk, std::byte* into);
  static uint32_t array_sum(std::span<const std::byte> bytes, uint64_t array_bytes);
  static std::string_view name_of(io::state_part which);
  status read_state(const slot& s, const chunk_op& op, begun_range begun);
  status write_state(const slot& s, int chunk, int group, counts when);
  status read_weights(int chunk, std::byte* into, const std::shared_ptr<void>& owner,
                      io::swap_io::begun_read begun);
  status check(const std::filesystem::path& file, int chunk, int group, std::string_view what,
               std::span<const std::byte> bytes, uint64_t array_bytes, uint32_t sum) const;
  error damaged(const std::filesystem::path& file, int chunk, int group,
                std::string_view what) const;
  status read_checked(std::span<const io::swap_io::range> what, const std::shared_ptr<void>& owner,
                      const std::function<status()>& check_all, io::swap_io::begun_read begun = {});
  status write_array(int chunk, int group, io::state_part which);
  status zero_moments(int chunk);
  status publish_group(int chunk, int group, int64_t after);
  status publish_slot(int chunk, int group, int64_t after);
  slot& quiet_slot();
  void await_quiet(int chunk);

  result<std::vector<io::checkpoint::chunk_shard>> keep_now(const keep_order& order);
  /// The file that only steps behind a checkpoint need.
  named_file& behind_checkpoint(chunk_state& c) const {
    return where_.speculates ? c.spare : c.next;
  }
  status make_room(const keep_order& order);
  status make_version(const chunk_state& c, named_file& f);
  void drop_room(const std::function<bool(int chunk)>& of);
  void name_old(io::disk& d, chunk_state& c);
  io::file_id open_alone(io::disk& d, const chunk_state& c, const named_file& old) const;
  void take_old(io::disk& d, chunk_state& c, named_file& f) const;
  status use_old(chunk_state& c, named_file& f);
  enum class old_kind : uint8_t { expired, all };
  void drop_old(old_kind which);
  status put(std::span<const target> what, const std::shared_ptr<void>& owner);
  status put_synced(const target& t, const std::shared_ptr<void>& owner);
  status put_again(const target& t, const std::shared_ptr<void>& owner,
                   std::chrono::steady_clock::time_point until);
  write_retry::attempt move_to(size_t place, const target& t, const status& why);
  status discard(io::disk& d, const named_file& f) const;
  status become(io::disk& d, named_file& to, named_file& from) const;
  const std::filesystem::path& root(size_t place) const { return options_.places[place].folder; }
  status copy_counted(const chunk_state& c, const target& t, const named_file& into);
  static std::vector<counted> counted_beside(const chunk_state& c, const target& t);
  uint64_t bytes_of(const target& t);
  named_file state_file_of(const chunk_state& c);
  bool await_moved(const chunk_state& c, io::file_id before);
  status take_updates();
  result<io::checkpoint::chunk_shard> keep_chunk(int chunk, const keep_order& order);
  bool fits(int chunk, const io::checkpoint::footer& f) const;
  status check_names(const chunk_state& c, uint64_t known);
  status take_for_good();
  status take_file(int chunk, const std::filesystem::path& shard, io::file_id file,
                   const std::vector<io::group_sums>& sums, const std::stop_token& ending);
  status name_taken(io::disk& d, chunk_state& c, const std::filesystem::path& shard);
  void forget_kept_arrays();
  status link_chunk(int chunk, const keep_order& order);
  void note_refused(const chunk_state& c, const error& why);
  using group_use = std::function<status(io::swap_io::range group, const std::shared_ptr<void>&)>;
  status each_group(int chunk, io::file_id file, const std::vector<io::group_sums>& sums,
                    const group_use& use);
  status own_again(int chunk);
  status take_over(chunk_state& c);

  parameter_store& store_;
  const residency where_;
  swap_options options_;
  std::shared_ptr<io::swap_io> io_;
  std::deque<chunk_state> chunks_;
  std::optional<chunk_policy> order_;                             ///< the enqueuing thread's
  std::optional<late_update> late_;                               ///< SWP-14; the same
  uint64_t rows_first_ = 0;                                       ///< the same
  std::array<std::vector<event_ptr>, chunk_point_kinds> events_;  ///< by point; the same
  std::vector<slot> slots_;
  event_ptr keeping_;  ///< behind the last checkpoint that took files
  slot weight_twin_;   ///< of a weight frame, where the host cannot address the device
  std::vector<slot> masters_;                ///< SWP-18
  slot gradient_out_, gradient_in_;          ///< the same of gradients' frames, in either direction
  std::optional<gradient_files> gradients_;  ///< SWP-17
  drive_work work_;                          ///< SWP-6
  std::optional<write_retry> retry_;         ///< SWP-11
  /// Of which file a chunk's state is, while one may be moved (SWP-11).
  std::mutex files_mutex_;
  std::condition_variable_any moved_;
  std::atomic<int> moves_{0};  ///< to other places
  uint64_t old_names_ = 0;  ///< made so far; of the disk's thread
  std::atomic<uint32_t> linked_{0}, cloned_{0};  ///< as taken() says
  taken_files taking_;                           ///< of the checkpoint under way; state_out_'s
  std::mutex kept_mutex_;
  std::array<kept_array, io::state_parts> kept_;  ///< guarded by kept_mutex_
  /// Of the read that is enqueued now; the enqueuing thread's.
  std::shared_ptr<begun_range> begun_;
  std::unique_ptr<stream> weights_ahead_, weights_in_, state_ahead_, state_in_, rows_in_, update_,
      sums_, state_out_, gradients_in_, gradients_out_, load_;
};

}  // namespace troupe::gpu
