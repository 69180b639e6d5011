// The flusher: the one thread of a rank that owns its disk. Whoever captures fills slots of the
// ring and hands them over; the flusher sums them, writes them, and says when a shard is durable.
//
// Several saves may be under way at a time (a checkpoint in each step, on a disk slower than the
// steps); they share the ring, and a ring without a free slot is what holds a capture up.
//
// Invariants
// FL-1 Every save that began is answered exactly once, on the flusher's thread: with the rank's
//      facts once the shard is durable, else with the first error.
// FL-2 Slots of a save that has failed go back to the ring at once; the capture need not know.
// FL-3 The caller never waits for the disk: every call takes a lock for an instant.
// FL-4 The thread sleeps while there is nothing to do.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>

#include "io/checkpoint/save.hpp"

namespace troupe::io::checkpoint {

/// One save on its way.
struct save_facts {
  uint64_t step = 0;
  shard_progress bytes;
  double age_s = 0;  ///< since begin()
};

/// What Status shows of a flusher.
struct flusher_facts {
  disk_facts disk;
  uint64_t open_saves = 0;
  uint64_t durable_saves = 0;
  uint64_t failed_saves = 0;
  uint64_t durable_bytes = 0;     ///< of streams, all durable saves together
  std::vector<save_facts> saves;  ///< the open ones, oldest first
};

class flusher {
 public:
  /// Takes the disk over; nothing may be under way on it. `progressed` is called on the flusher's
  /// thread whenever something may have changed in facts(); it must not wait.
  explicit flusher(std::unique_ptr<disk> d, std::function<void()> progressed = {});
  /// Gives up what is not durable, answers it (FL-1), and ends.
  ~flusher();
  flusher(const flusher&) = delete;
  flusher& operator=(const flusher&) = delete;

  /// Begins the shard of a rank in the folder of a save; its number for the calls below. `done` as
  /// in rank_save (FL-1).
  uint64_t begin(std::filesystem::path partial, manifest_head head, rank_plan plan,
                 rank_save::voted done);
  /// Slot `number` of the plan's captures (plan_capture) is filled, in order.
  void filled(uint64_t save, slot lease, uint64_t number);
  /// Ends a save that will get no more slots, or whose deadline is over.
  void give_up(uint64_t save, error why);

  flusher_facts facts() const;

 private:
  struct begin_command {
    std::filesystem::path partial;
    manifest_head head;
    rank_plan plan;
    rank_save::voted done;
  };
  struct filled_command {
    slot lease;
    uint64_t number = 0;
  };
  struct command {
    uint64_t save = 0;
    std::variant<begin_command, filled_command, error> what;
  };
  struct open_save {
    std::unique_ptr<rank_save> shard;
    uint64_t step = 0;
    std::chrono::steady_clock::time_point begun;
    bool answered = false;
  };

  void post(command c);
  void live();
  void tell_progress();
  /// The commands that have come; waits for one while the disk has nothing to do.
  std::deque<command> next();
  void carry_out(command c);
  void begin_now(uint64_t save, begin_command c);
  void forget_answered();

  std::unique_ptr<disk> disk_;
  std::function<void()> progressed_;
  std::map<uint64_t, open_save> saves_;  ///< the thread's own
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<command> commands_;
  uint64_t last_ = 0;
  bool over_ = false;
  flusher_facts facts_;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace troupe::io::checkpoint
