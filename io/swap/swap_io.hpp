// Bytes between memory and the files of a rank's swap folder, for threads that may wait.
//
// Why a thread of its own: a disk belongs to one thread (io/disk), while several of a rank's
// streams read and write at once; and what they ask is cut into pieces here, so that a large read
// does not keep a small one waiting and the kernel always has enough to do.
//
// A call says what moves where, and returns when all of it has, or with the first error. Pieces of
// the calls under way are started in turn. Who has something to do between two reads begins the
// next one before: a drive that has nothing to read between them gives a fifth less of what it
// could.
//
// Invariants
//   SWI-1  A call that succeeds has moved every byte (DK-2); none succeeds after an error.
//   SWI-2  The memory of a call is not touched any more when it returns, unless with `timeout`:
//          then its owner lives until the disk has answered, for ever if it never does (SL-4).
//   SWI-3  After a failed write a file is dead: all that is asked of it fails with that error
//          (DK-3).
//   SWI-4  At most `depth` pieces are with the disk.
//   SWI-5  Without `mixes` the disk has never pieces to read and to write at once; a turn is of the
//          calls that were there when it began, so neither kind waits for ever. A change counts
//          from when it has no piece.
//   SWI-6  Of reads that were begun in one line a later one has no piece with the disk before all
//          of the earlier ones are: what is wanted first comes first.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "io/base/result.hpp"
#include "io/disk/disk.hpp"

namespace troupe::io {

struct swap_io_options {
  size_t piece_bytes = size_t{1} << 20;  ///< of one operation of the disk; a multiple of disk_block
  size_t depth = 32;                     ///< operations with the kernel at once
  std::chrono::milliseconds patience{600'000};  ///< for one call
  /// Reads and writes are with the disk at once; false: they take turns (to measure what that is
  /// worth).
  bool mixes = true;
  /// Makes the disk, on the thread that owns it; empty: the machine's.
  std::function<result<std::unique_ptr<disk>>(size_t depth)> open_disk = {};
};

/// What moved so far.
struct swap_io_facts {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t under_way = 0;               ///< operations that the disk has now
  std::vector<std::string> notes = {};  ///< of the disk: what is less than asked for
  std::vector<std::string> warnings = {};  ///< those of them that a person should know
  bool operator==(const swap_io_facts&) const = default;
};

class swap_io {
  struct call;

 public:
  /// A range of one file, and the memory it goes to or comes from. Of files that are open past the
  /// page cache (all, where that is possible) offset, length and address are multiples of
  /// disk_block.
  struct range {
    file_id file = file_id::none;
    uint64_t offset = 0;
    std::span<std::byte> memory;
  };

  /// Errors: as open_disk's.
  static result<std::unique_ptr<swap_io>> make(swap_io_options options);
  swap_io(const swap_io&) = delete;
  swap_io& operator=(const swap_io&) = delete;
  ~swap_io();

  // From any thread; each waits.

  /// Makes a file of `bytes`, all of which are reserved on the disk. Errors: ENOSPC and others
  /// (io); permission where it is there already.
  result<file_id> create(const std::filesystem::path& name, uint64_t bytes);
  /// Has the thread that owns the disk make or change names; no calls' bytes move meanwhile. It is
  /// not called any more when this returns, and waited for once it was begun. Errors: what it gives
  /// back; timeout.
  status change(std::function<status(disk&)> names);
  /// What was written to the file survives a power cut; by nobody else meanwhile (DK-4).
  status sync(file_id file);
  /// A read that nobody waits for yet, which keeps the memory alive itself.
  class begun_read {
   public:
    /// None.
    begun_read() = default;
    explicit operator bool() const { return of_ != nullptr; }

   private:
    friend class swap_io;
    std::shared_ptr<call> of_;
  };
  /// Does not wait. `line`: any number but 0 (SWI-6). Errors: cancelled.
  result<begun_read> begin_read(std::span<const range> what, const std::shared_ptr<void>& owner,
                                uint64_t line);
  /// Of one that was begun here; waits for it as read() does, with the same errors.
  status finish(begun_read read);

  /// `owner` keeps the memory alive (SWI-2). Errors: io; bad_data where a file ends too early;
  /// timeout.
  status read(std::span<const range> what, const std::shared_ptr<void>& owner);
  status write(std::span<const range> what, const std::shared_ptr<void>& owner);
  swap_io_facts facts() const;
  /// Reads and writes are with the disk at once from now on, or take turns. Does not wait.
  void set_mixes(bool mixes);

 private:
  using call_ptr = std::shared_ptr<call>;
  /// What make() hears of the thread.
  struct beginning {
    bool over = false;
    status outcome;
    std::condition_variable told;
  };

  explicit swap_io(swap_io_options options) : options_(std::move(options)) {}
  void work(beginning& begun);
  bool await_calls();
  status move(disk_op op, std::span<const range> what, const std::shared_ptr<void>& owner);
  status submit(const call_ptr& c);
  status ask(const call_ptr& c);
  status await(const call_ptr& c);
  static call_ptr moving(disk_op op, std::span<const range> what,
                         const std::shared_ptr<void>& owner);
  bool is_behind_another(const call& c, uint64_t id) const;
  void start_pieces();
  bool takes_change();
  void change_turns();
  bool has_turn(const call& c, uint64_t id) const;
  bool any_waits(disk_op op, uint64_t until) const;
  void tell_under_way();
  void change_names(call& c);
  void start_sync(call& c, uint64_t id);
  void start_piece(call& c, uint64_t id);
  void answer(completion done);
  void finish_if_over(uint64_t id);
  static void give_up(call& c);

  swap_io_options options_;
  mutable std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<call_ptr> queue_;  ///< asked for; guarded by mutex_
  bool ending_ = false;         ///< guarded by mutex_
  swap_io_facts facts_;         ///< guarded by mutex_
  std::atomic<bool> wanted_mixes_{options_.mixes};
  // Of the thread alone, but for the disk's wake().
  std::unique_ptr<disk> disk_;
  std::unordered_map<uint64_t, call_ptr> calls_;  ///< not answered
  std::deque<uint64_t> in_turn_;                  ///< of them, those with pieces not started
  uint64_t last_call_ = 0;
  uint64_t pieces_ = 0;           ///< with the disk
  bool mixes_ = options_.mixes;
  disk_op turn_ = disk_op::read;  ///< without `mixes`: what is started,
  uint64_t turn_until_ = 0;       ///< of calls up to this one
  std::thread thread_;
};

}  // namespace troupe::io
