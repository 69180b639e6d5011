// The saver of a rank: copies its slices of a stage's state into slots while the next forward and
// backward run, and sees the slots to the disk (lazy asynchronous checkpoints, DataStates-LLM).
//
//   save() --> snapshot stream: waits for the update of this step, then chunk by chunk, in the
//              optimizer's order, copies pieces into slots of the ring (from a device that the host
//              cannot read by a stream that does only that, into page-locked slots)
//          --> flusher: sums and writes each slot, footer, one fdatasync
//          --> done(facts): the rank's vote
//
// Every chunk's copy leaves an event with the store, for which the next update of that chunk waits
// on the device (PS-5, OP-2): chunk 0 is updated while chunk N is still being copied.
//
// A copy in memory (io/checkpoint/memory_copies.hpp) is a second sink of the same captures: bytes
// go to its place at once where the host can read the device, else by a slot of the ring. A save
// that goes to the disk as well is copied off the device once for both. A tied copy of a table,
// which a checkpoint on disk leaves out since its shards are read by name, stands behind the rest.
//
// Invariants
// SS-1 What is saved of a chunk is its state at the call of save(), whatever is enqueued later.
// SS-2 No call waits. The copy waits for slots, at most `patience` for one; then that save is given
//      up, its events complete, and training goes on.
// SS-3 Every save is answered exactly once, on a thread of the saver's.
// SS-4 A failed save changes nothing but its own answer: no stream is poisoned by it.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "gpu/store/store.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/flusher.hpp"
#include "io/checkpoint/memory_copies.hpp"
#include "io/checkpoint/save_plan.hpp"
#include "io/disk/slots.hpp"

namespace troupe::gpu {

/// Bytes of a slot in training's checkpoints: large enough for any disk, small enough that a ring
/// has many of them.
inline constexpr uint32_t saver_slot_bytes = 4 << 20;

/// Whose share is saved, and how.
struct saver_options {
  std::string job;
  uint64_t epoch = 0;
  grid_rank at;                               ///< which of the replicas it is, the store knows too
  uint64_t ring_bytes = uint64_t{256} << 20;  ///< at most; less where two shares fit into less
  uint32_t slot_bytes = saver_slot_bytes;     ///< the same for all ranks of a save
  std::chrono::milliseconds patience{60'000};
  /// Where checkpoints will go: a calibration of its disk, if one is kept, says how many writes at
  /// once it likes. Empty: the default.
  std::filesystem::path folder = {};
  /// Makes the disk for a ring; empty: the machine's.
  std::function<result<std::unique_ptr<io::disk>>(std::shared_ptr<io::slots>)> open_disk = {};
  /// Called on threads of the saver's whenever facts() may have changed; must not wait.
  std::function<void()> progressed = {};
  /// Called around the enqueueing of each chunk's copy, for traces; must call `enqueue` once.
  std::function<void(stream& s, int chunk, uint64_t bytes, const std::function<void()>& enqueue)>
      around = {};
};

/// What Status shows.
struct saver_facts {
  io::checkpoint::flusher_facts flusher;
  io::slot_counts ring;
  uint64_t slot_bytes = 0;
  uint64_t share_bytes = 0;  ///< of this rank in one checkpoint
  uint64_t captured_bytes = 0;
  double ring_wait_ms = 0;  ///< of all saves
};

class state_saver {
 public:
  using completion = std::function<void(const result<io::checkpoint::shard_facts>&)>;

  /// Allocates and touches the ring, opens the disk. The store outlives the saver. Errors:
  /// no_memory, unavailable.
  static result<std::unique_ptr<state_saver>> make(parameter_store& store, saver_options options);
  /// Ends what is under way, answering it.
  ~state_saver();
  state_saver(const state_saver&) = delete;
  state_saver& operator=(const state_saver&) = delete;

  /// Saves the state as it is at `after` (the end of the stream that updates) into the rank's shard
  /// in `partial`, which is made if it is missing. By the thread that enqueues updates.
  void save(uint64_t step, const std::filesystem::path& partial, event_ptr after, completion done);
  /// The same of the chunks whose files this checkpoint does not take; somebody else saves those
  /// that it does: `taken`, by number.
  void save_rest(uint64_t step, const std::filesystem::path& partial, std::vector<bool> taken,
                 event_ptr after, completion done);
  /// The same into memory, of shape shape(), and into a shard as well where `partial` is not empty:
  /// only then is `done` called. The event is behind the last byte that is copied; `into` says then
  /// whether it is filled.
  event_ptr copy(uint64_t step, std::shared_ptr<io::checkpoint::memory_copy> into,
                 const std::filesystem::path& partial, event_ptr after, completion done);
  /// How this rank's share lies in memory.
  io::checkpoint::copy_shape shape() const;
  /// What a shard of it says besides its tensors.
  io::checkpoint::manifest_head head_of(uint64_t step) const;
  /// Fills the store's slices from a copy of this shape, each slot checked before a byte of it is
  /// used, and publishes their weights as restore_state does. Blocks; `ending` is looked at between
  /// two slots. Errors: copy_damaged, cancelled, unavailable for another shape, of the device.
  status put_back(const io::checkpoint::memory_copy& from, const std::stop_token& ending = {});

  /// From any thread.
  saver_facts facts() const;

 private:
  struct capture;
  event_ptr begin(std::shared_ptr<capture> c, event_ptr after);

  state_saver(parameter_store& store, saver_options options)
      : store_(store), options_(std::move(options)) {}
  status prepare();
  void copy_chunk(capture& c, uint32_t chunk);
  void copy_piece(capture& c, const io::checkpoint::capture_copy& piece);
  std::byte* place_of(const io::checkpoint::capture_copy& piece) const;
  void copy_from_disk(capture& c, const io::checkpoint::capture_copy& piece, std::byte* to);
  void give_up(capture& c, const error& why);
  void hand_over(capture& c);
  void copy_tied(capture& c);
  bool land(capture& c);
  result<std::shared_ptr<io::slots>> make_ring();
  bool take_slot(capture& c);

  parameter_store& store_;
  saver_options options_;
  /// What is saved, and how it is cut into slots.
  struct share {
    io::checkpoint::rank_plan plan;
    io::checkpoint::capture_plan copies;
  };
  result<share> plan_share(const std::vector<bool>& taken) const;
  status plan_rest(std::vector<bool> taken);
  share all_;
  std::shared_ptr<const share> rest_;  ///< of a checkpoint that takes some chunks' files
  std::vector<bool> rest_taken_;       ///< those
  /// What a copy in memory has behind the rank's stream.
  struct tied_slice {
    int chunk = 0;
    part which = part::master;
    uint64_t first = 0;  ///< byte of the copy
    uint64_t bytes = 0;
  };
  std::vector<tied_slice> tied_;
  uint64_t copy_bytes_ = 0;  ///< of a copy in memory
  std::shared_ptr<io::slots> ring_;
  std::atomic<bool> ending_{false};
  std::atomic<uint64_t> captured_bytes_{0};
  std::atomic<int64_t> ring_wait_ns_{0};
  // The stream ends before the flusher, whose slots it fills.
  std::unique_ptr<io::checkpoint::flusher> flusher_;
  std::unique_ptr<stream> copy_out_;  ///< carries bytes from a device the host cannot read
  std::unique_ptr<stream> stream_;
};

}  // namespace troupe::gpu
