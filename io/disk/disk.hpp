// The one interface through which every byte of a checkpoint reaches a disk or comes back: by
// io_uring (uring_disk), by threads (thread_disk), or not at all (faulty_disk: in memory, with
// faults, and with every state a power cut could leave). What all of them promise is kept here,
// once; a back end only carries out raw requests and says what the kernel answered.
//
// Invariants
//   DK-1  Every accepted operation is answered by exactly one completion, or never (a disk that
//         hangs): then its buffer stays with the disk, and is abandoned when the disk is closing
//         (SL-4).
//   DK-2  A completion without an error has moved all its bytes: a short write or read goes on
//         where it stopped; on an O_DIRECT file at the last whole block before that. EINTR and
//         EAGAIN are retried, at most most_stalls times without progress.
//   DK-3  A failed write or fdatasync makes its file dead: what was queued for it fails with the
//         first error, so does all that is asked later, and it is never synced again (a kernel
//         whose fsync failed says "fine" the next time, and has forgotten the bytes).
//   DK-4  fdatasync is refused while writes to that file are under way: it would not cover them.
//   DK-5  file_ids are never used twice, so a late completion cannot be taken for another file's.
//   DK-6  At most `depth` operations are with the kernel, at most most_operations with the disk.
//   DK-7  Of a file that is to leave no pages, and of which O_DIRECT was refused, a write is
//         complete when its bytes are on the drive, and what was written or read is in no page
//         cache then: a state that moves each step would fill the memory of a machine or of a
//         control group.
//
// Threads: one thread at a time owns a disk and calls everything; ownership may move only while
// nothing is under way. wake() alone may be called from anywhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "io/base/result.hpp"
#include "io/disk/file_system.hpp"
#include "io/disk/slots.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::io {

/// An open file of one disk; 0 is none.
enum class file_id : uint64_t { none = 0 };

enum class disk_op : uint8_t { write, read, fdatasync };
std::string_view to_string(disk_op op) noexcept;

enum class open_mode : uint8_t {
  read,     ///< must exist
  create,   ///< must not exist
  replace,  ///< made, or cut to nothing
  update,   ///< must exist, and is written to as well
};

struct open_options {
  open_mode mode = open_mode::read;
  /// O_DIRECT: past the page cache; offsets, lengths and addresses must then be multiples of
  /// disk_block. Where the file system cannot, the file is opened without and facts().notes says
  /// so.
  bool direct = false;
  /// Bytes to reserve at once (the file has that length then): no ENOSPC half way.
  uint64_t preallocate = 0;
  /// Where a file is not open past the page cache none of it stays there (DK-7).
  bool drop_pages = false;
};

/// The memory of one operation: a leased slot, memory of its own, or the caller's.
class io_buffer {
 public:
  io_buffer() = default;
  /// The first `bytes` of a slot; the lease travels with it.
  io_buffer(slot lease, size_t bytes);
  /// New zeroed memory at a multiple of disk_block; huge pages where it is large; booked under the
  /// name of its holder. Throws std::bad_alloc, as memory_refused where a budget is used up.
  static io_buffer allocate(size_t bytes);
  /// The same without exceptions. Errors: no_memory, memory_used_up.
  static result<io_buffer> make(size_t bytes);

  /// The caller's memory, which lives as long as `owner` does. Not touched by anybody until the
  /// completion comes.
  static io_buffer over(std::span<std::byte> bytes, std::shared_ptr<void> owner);

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// The slot's place in the ring (its registered buffer), or -1.
  int index() const noexcept { return lease_ ? lease_.index() : -1; }
  const slot& lease() const noexcept { return lease_; }
  /// Steps of the slot's life (slots.hpp), if there is a slot.
  void writing() {
    if (lease_) lease_.writing();
  }
  void filled() {
    if (lease_) lease_.filled();
  }
  void abandon() noexcept;

 private:
  struct free_memory {
    free_memory() noexcept : mapped_bytes(0) {}
    explicit free_memory(size_t mapped) noexcept : mapped_bytes(mapped) {}
    size_t mapped_bytes;  ///< 0: of the heap
    void operator()(std::byte* p) const noexcept;
  };
  std::span<std::byte> bytes_;
  slot lease_;
  std::unique_ptr<std::byte, free_memory> memory_;
  std::shared_ptr<void> owner_;
  memory_account::booking booking_;  ///< of memory_
};

/// The answer to one operation. The buffer comes back with it; a slot is free again when the
/// completion goes, unless taken out. After a successful read its slot's state is filled.
struct completion {
  file_id file = file_id::none;
  disk_op op = disk_op::write;
  uint64_t tag = 0;  ///< the caller's own
  uint64_t offset = 0;
  size_t bytes = 0;
  status outcome;
  io_buffer buffer;
};

/// What a disk turned out to be, for Status and logs.
struct disk_facts {
  std::string backend;  ///< "uring", "threads", "faulty"
  bool registered_buffers = false;
  bool registered_files = false;
  std::vector<std::string> notes;  ///< each thing that is less than asked for, said once
  /// Those of them that a person should know: what its drive cannot do, or that it is none.
  std::vector<std::string> warnings;
};

/// What the system says of a file.
struct file_facts {
  uint64_t names = 0;        ///< that lead to it
  uint64_t bytes = 0;        ///< its length
  uint64_t taken_bytes = 0;  ///< of the disk
};

class disk : public file_system {
 public:
  using nanoseconds = std::chrono::nanoseconds;
  static constexpr size_t most_operations = 4096;
  static constexpr int most_stalls = 64;

  disk(const disk&) = delete;
  disk& operator=(const disk&) = delete;
  ~disk() override;

  // -- files and their bytes: asynchronous ------------------------------------------------------

  /// Errors: not_found, permission, io, each with the path.
  result<file_id> open(const path& name, const open_options& options);
  /// No more operations; closed when the last one under way is answered.
  void close(file_id file);
  /// Whether the file is really open past the page cache.
  bool direct(file_id file) const;
  /// The error that made the file dead, if one did (DK-3). Success for files that are closed.
  status health(file_id file) const;
  /// Of what is open, whatever its name leads to by now. Errors: bug (not open), io.
  result<file_facts> look(file_id file) const;

  /// Each takes the buffer; an error at once (the buffer's slot is free then) means that no
  /// completion will come. `tag` comes back in the completion. Errors at once: bug (not open,
  /// unaligned on a direct file, DK-4), no_memory (DK-6), the first error of a dead file.
  status write(file_id file, uint64_t offset, io_buffer buffer, uint64_t tag);
  /// Errors by completion: bad_data where the file ends before the last byte asked for.
  status read(file_id file, uint64_t offset, io_buffer buffer, uint64_t tag);
  status fdatasync(file_id file, uint64_t tag);

  /// Starts what is queued and gives what is done: waits until there are `min` completions (or as
  /// many as can come), the timeout is over, or wake() is called.
  std::vector<completion> wait(size_t min, nanoseconds timeout);
  /// Ends a wait of the owner's early; the next one when there is none now. From any thread.
  virtual void wake() = 0;
  /// Operations accepted and not yet answered by wait().
  size_t under_way() const noexcept { return ops_.size() + ready_.size(); }

  // -- itself -----------------------------------------------------------------------------------

  disk_facts facts() const { return facts_; }
  /// The time that timeouts are measured by: steady, or virtual in a simulation.
  virtual nanoseconds now() const;

 protected:
  struct opened {
    int handle = -1;
    bool direct = false;
  };
  struct raw_request {
    uint64_t id = 0;
    disk_op op = disk_op::write;
    int handle = -1;
    uint64_t offset = 0;
    std::span<std::byte> bytes;
    int buffer_index = -1;  ///< of the slot `bytes` lies in, or -1
    const slots* ring = nullptr;
    bool through = false;  ///< a write is answered when the drive has it (DK-7)
  };
  struct raw_answer {
    uint64_t id = 0;
    int64_t value = 0;  ///< bytes moved, or -errno
  };

  explicit disk(size_t depth) : depth_(depth) {}

  virtual result<opened> raw_open(const path& name, const open_options& options) = 0;
  virtual void raw_close(int handle) = 0;
  /// 0, or an errno.
  virtual int raw_look(int handle, file_facts& facts) const = 0;
  /// A wish: bytes of a file that has moved them through the page cache leave it (DK-7).
  virtual void raw_drop(int handle, uint64_t offset, size_t bytes);
  /// Never fails: what cannot be started is answered with -errno.
  virtual void raw_submit(const raw_request& request) = 0;
  /// Adds what is answered; waits for one until `until` (by now()) if `block`. True when woken.
  virtual bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) = 0;

  /// For destructors of back ends: waits for what the kernel still has, at most `timeout`; then
  /// abandons the buffers (DK-1). True when all came back.
  bool drain(nanoseconds timeout);
  void note(std::string text);
  /// The same, of what a person should know.
  void warn(std::string text);

  disk_facts facts_;
  const size_t depth_;

 private:
  struct file_state {
    path name;
    int handle = -1;
    bool direct = false;
    bool drops = false;  ///< DK-7
    bool closing = false;
    status health;
    size_t under_way = 0;
    size_t writes = 0;
  };
  struct operation {
    completion answer;
    size_t done = 0;
    int stalls = 0;
  };

  status accept(file_id file, disk_op op, uint64_t offset, io_buffer buffer, uint64_t tag);
  status acceptable(file_id file, disk_op op, uint64_t offset, const io_buffer& buffer) const;
  void start_queued();
  void settle(const raw_answer& answer);
  void advance(operation& op, const file_state& file, size_t moved) const;
  void finish(uint64_t id, status outcome);
  void kill(file_id file, const error& first);
  void own();

  std::map<file_id, file_state> files_;
  std::unordered_map<uint64_t, operation> ops_;
  std::deque<uint64_t> queue_;  ///< accepted, not with the kernel
  size_t running_ = 0;          ///< with the kernel
  std::vector<completion> ready_;
  uint64_t last_file_ = 0;
  uint64_t last_op_ = 0;
  std::thread::id owner_;
};

// -- making one -----------------------------------------------------------------------------------

enum class disk_backend : uint8_t { automatic, uring, threads };

struct disk_options {
  disk_backend backend = disk_backend::automatic;
  size_t depth = 8;                  ///< operations with the kernel at once, 1..1024
  int threads = 4;                   ///< of the thread back end, 1..64
  std::shared_ptr<slots> ring = {};  ///< registered with io_uring where that is allowed
};

/// io_uring, or threads where it is refused (facts().notes says why). With backend uring a refusal
/// is an error: unavailable. A file larger than RLIMIT_FSIZE must be an error, not the end of the
/// process: if nobody handles SIGXFSZ, it is ignored from now on.
result<std::unique_ptr<disk>> open_disk(const disk_options& options);

/// The error of a failed system call on a file: place, errno in words, and what to do.
error disk_error(std::string_view doing, const std::filesystem::path& name, int errno_value);

}  // namespace troupe::io
