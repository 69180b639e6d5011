// The flight recorder: the last records of every thread of an actor system, always on.
//
// One record is one handled message, one piece of work done for one (an operation of a device, a
// transfer, a write), or the value of something at a moment (watts). Each thread writes to a ring
// of its own without a lock; whoever wants to see them (the observer of the process) reads the
// rings at its leisure and may come too late, never in the way.
//
// Invariants
//   REC-1  Recording never waits and never allocates, but for a thread's first record.
//   REC-2  A reader gets whole records only; what was overwritten before it came is counted.
//   REC-3  Rings outlive their threads: the last seconds of a dead thread stay readable until
//     another thread takes its ring over.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/record.hpp"

namespace troupe {

/// What to add to the clock of a process to have the coordinator's, and how wrong that may be (-1:
/// unknown).
struct clock_relation {
  int64_t offset_ns = 0;
  int64_t bound_ns = -1;
};

/// A ring of records with one writer, and the message that this has under its hands.
class record_ring {
 public:
  /// Records kept, a power of two.
  static constexpr uint64_t capacity = 1u << 15;

  /// What a ring takes: its head, the message under hands, the records; each on lines of its own.
  static constexpr size_t words_each = sizeof(trace_record) / sizeof(uint64_t);
  static constexpr size_t words = (2 + capacity) * words_each;

  /// Over zeroed memory that outlives it, or that of a ring before; nullptr: over its own.
  explicit record_ring(uint64_t* memory = nullptr);

  /// The writer's.
  void push(const trace_record& r) noexcept {
    const auto at = head();
    put(slot(at), r);
    std::atomic_ref(words_[0]).store(at + 1, std::memory_order_release);
  }

  /// The writer's: it begins to handle a message.
  void take_up(const trace_record& r) noexcept { put(words_ + words_each, r); }
  /// The writer's: it is done with it.
  void put_down() noexcept {
    std::atomic_ref(words_[words_each]).store(0, std::memory_order_relaxed);
  }
  /// What the writer has under its hands. For those who read a dead process: the living may be
  /// within it.
  std::optional<trace_record> under_hands() const;

  /// Records written so far.
  uint64_t head() const noexcept {
    return std::atomic_ref(words_[0]).load(std::memory_order_acquire);
  }

  /// Appends the records from number `from` on, at most `limit`; sets `from` behind the last one
  /// and adds to `lost` what had been overwritten. Any thread.
  void read(uint64_t& from, std::vector<trace_record>& out, size_t limit, uint64_t& lost) const;

 private:
  uint64_t* slot(uint64_t at) const noexcept {
    return words_ + (2 + (at & (capacity - 1))) * words_each;
  }

  static void put(uint64_t* to, const trace_record& r) noexcept {
    uint64_t copy[words_each];
    std::memcpy(copy, &r, sizeof(r));
    // REC-2: who sees one of these words sees a head of `at` or later. Not by a fence, which
    // ThreadSanitizer does not know; it costs the same.
    for (size_t i = 0; i < words_each; ++i)
      std::atomic_ref(to[i]).store(copy[i], std::memory_order_release);
  }

  struct freed {
    void operator()(uint64_t* words) const noexcept { std::free(words); }
  };
  std::unique_ptr<uint64_t, freed> own_;  ///< zeroed by the system, page by page as it is used
  uint64_t* words_;
};

// -- names of work --------------------------------------------------------------------------------

/// The number of a name of work ("forward", "all_reduce"); the same for the same name. At most 4096
/// names: they are words of the program, not data. 0 when there are more.
uint16_t work_name(std::string_view name);

/// All names of work in the order of their numbers, from number 1.
std::vector<std::string> work_names();

/// Something done on behalf of a message, by a device, a link or a disk.
struct work_note {
  uint16_t name = 0;    ///< of work_name()
  uint32_t actor = 0;   ///< for whom it was done: the lower half of an actor's key
  uint64_t span = 0;    ///< its own span; 0: a new one
  uint64_t parent = 0;  ///< the span that caused it
  uint64_t trace = 0;   ///< trace id, lower half
  uint64_t number = 0;  ///< which one: a step, a micro-batch, a chunk
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t bytes = 0;  ///< moved
  bool failed = false;
};

/// What something was at a moment, e.g. the watts of a device.
struct counter_note {
  uint16_t name = 0;   ///< of work_name(), with its unit: "gpu0 W"
  uint32_t actor = 0;  ///< who measured it: the lower half of an actor's key
  int64_t at_ns = 0;   ///< on the actor clock
  double value = 0;    ///< finite
};

// -- rings of all threads -------------------------------------------------------------------------

/// The rings of the threads that record for one actor system (runtime.hpp). Any thread may.
class recorder {
 public:
  recorder();
  ~recorder();
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  /// This thread's ring.
  record_ring& here() {
    if (last_.recorder != number_) [[unlikely]]
      look_up();
    return *last_.ring;
  }

  void note(const work_note& work) noexcept;
  void note(const counter_note& counter) noexcept;

  /// Every ring there is; they live as long as this.
  std::vector<const record_ring*> rings() const;

 private:
  struct book;
  struct adopted;
  struct used_last {
    uint64_t recorder = 0;  ///< its number, which no other has had
    record_ring* ring = nullptr;
  };
  static thread_local constinit used_last last_;

  void look_up();

  uint64_t number_;
  std::shared_ptr<book> book_;  ///< a thread that ends later gives no ring back
};

/// Reads all rings of a recorder, which must outlive it, from where it stopped the last time.
class record_reader {
 public:
  /// `from_now`: skip what the rings hold at the first reading.
  record_reader(const recorder& of, bool from_now) : of_(of), from_now_(from_now) {}

  /// New records of all threads, at most about `limit`, in the order of `begin_ns`.
  std::vector<trace_record> read(size_t limit);

  /// Records that were overwritten before they were read.
  uint64_t lost() const { return lost_; }

 private:
  const recorder& of_;
  bool from_now_;
  uint64_t lost_ = 0;
  std::vector<std::pair<const record_ring*, uint64_t>> at_;
};

}  // namespace troupe
