// A thread's queue: anyone puts, one thread takes all there is at once.
//
// Why: a burst of operations costs one wake-up, and who puts never waits for who takes (DEV-1).
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/host/thread_team.hpp"

namespace troupe::gpu::cuda {

template <class Item>
class work_queue {
 public:
  void put(Item item) {
    bool wake = false;
    {
      std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
      has_items_.store(true, std::memory_order_relaxed);
      wake = std::exchange(sleeping_, false);
    }
    if (wake) wake_.notify_one();
  }

  /// Swaps what is there into `batch` (empty before); sleeps while there is nothing. False when
  /// closed and empty.
  bool take(std::vector<Item>& batch) {
    for (int i = 0; i < host::spin_limit && !has_items_.load(std::memory_order_relaxed); ++i) {
      host::cpu_relax();
    }
    std::unique_lock lock(mutex_);
    while (items_.empty() && !closed_) {
      sleeping_ = true;
      wake_.wait(lock);
    }
    sleeping_ = false;
    has_items_.store(false, std::memory_order_relaxed);
    batch.swap(items_);
    return !batch.empty();
  }

  /// The taker ends once all is taken.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    wake_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Item> items_;             // guarded by mutex_
  bool sleeping_ = false;               // guarded by mutex_
  bool closed_ = false;                 // guarded by mutex_
  std::atomic<bool> has_items_{false};  // a hint for the spinning taker; the truth is items_
};

}  // namespace troupe::gpu::cuda
