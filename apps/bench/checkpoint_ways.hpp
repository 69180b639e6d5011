// A way to checkpoint, as `troupe bench checkpoint` measures it: ours as training uses it, and what
// else is handed in (tests/bench).
//
// Invariants
// BCK-1 A way that is called durable counts a checkpoint as finished only after its fsync, ours
//       after the commit.
// BCK-2 Every checkpoint is written to new files; those of the one before are removed by a thread
//       that belongs to no way, so removal costs each the same.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/bench/checkpoint_trainer.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::ckpt_bench {

/// Threads over a queue of work.
class worker_pool {
 public:
  explicit worker_pool(int threads);
  /// Does what is queued, then ends.
  ~worker_pool();
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;

  void post(std::function<status()> work);
  /// Until nothing is queued or under way; the first error since the last call.
  status wait();

 private:
  void live();

  std::mutex mutex_;
  std::condition_variable came_, idle_;
  std::deque<std::function<status()>> queue_;
  size_t busy_ = 0;
  bool over_ = false;
  status outcome_;
  std::vector<std::thread> threads_;
};

/// What every way works with; outlives it.
struct surroundings {
  synthetic_trainer& trainer;
  std::filesystem::path dir;
  uint64_t ring_bytes = 0;
  const std::atomic<bool>& stop;
  worker_pool& janitor;  ///< removes what a newer checkpoint has replaced (BCK-2)
};

/// One way to checkpoint. All calls from the trainer's thread.
class way {
 public:
  explicit way(surroundings around) : around_(std::move(around)) {}
  virtual ~way() = default;

  /// Between backward and the update: waits for what the way must have copied by then.
  virtual status before_update() { return {}; }
  /// After the update; returns when the next iteration may begin.
  virtual status checkpoint(uint64_t step) = 0;
  /// Until every checkpoint is finished.
  virtual status drain() = 0;

  /// Seconds from the call to the end of each checkpoint, in order of ending. After drain().
  const std::vector<double>& finished_s() const noexcept { return finished_s_; }
  /// What a process beside ours did for all checkpoints so far.
  struct beside {
    double processor_s = 0;
    uint64_t peak_bytes = 0;
  };
  virtual beside elsewhere() const { return {}; }
  /// The newest finished checkpoint: a file, or a folder of ours. After drain().
  const std::filesystem::path& newest() const noexcept { return newest_; }

 protected:
  using clock = std::chrono::steady_clock;
  std::filesystem::path file_of(uint64_t step) const;
  void finished(clock::time_point asked, std::filesystem::path what);

  surroundings around_;

 private:
  std::mutex mutex_;
  std::vector<double> finished_s_;
  std::filesystem::path newest_;
};

/// A way by its name.
struct way_kind {
  std::string_view id;    ///< of --ways and in JSON
  std::string_view text;  ///< in the table
  bool durable = false;   ///< BCK-1
  int copies = 0;         ///< of the whole state that it holds in memory at once
  /// Ready for its first checkpoint; null: there are none. Errors: no_memory, unavailable.
  result<std::unique_ptr<way>> (*make)(const surroundings& around) = nullptr;
  /// Why it cannot be had on this machine; null: it always can.
  status (*possible)() = nullptr;
};

/// No checkpoint at all, first; then ours.
std::span<const way_kind> own_ways();

}  // namespace troupe::apps::ckpt_bench
