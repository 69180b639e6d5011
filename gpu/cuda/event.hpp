// Points of CUDA streams, and marks of what the host runs for them.
//
// Why two kinds: the device orders kernels and copies by its own events, without the host. What
// the host runs for a stream (notifications) it orders by marks. An event of ours is both: the
// device's event, and the marks of the notifications before it.
//
// Invariants
//   EVT-1  An event is done when the device passed it and every notification before it has
//     returned, also those of streams that its stream waited for (DEV-2).
//   EVT-2  An event whose recording failed completes all the same (DEV-3).
//   EVT-3  Events of the device are reused: a stream's wait refers to what was recorded when the
//     wait was submitted, and whoever waits on the host holds the event.
//   EVT-4  Whoever asks after an event, on whatever thread, does so on the event's device: the
//     first call of a thread that chose none would make a context on device 0.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device.hpp"

namespace troupe::gpu::cuda {

/// Set once, when something that the host runs in stream order has returned.
class host_mark {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire) != 0; }
  void wait() const noexcept { done_.wait(0, std::memory_order_acquire); }
  void set() noexcept {
    done_.store(1, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::atomic<int> done_{0};
};

using host_marks = std::vector<std::shared_ptr<const host_mark>>;

/// The events of one device and kind that nobody uses just now. Thread-safe.
class event_pool {
 public:
  /// Without timing recording is cheapest; a thread that waits sleeps instead of spinning.
  static constexpr unsigned untimed = cudaEventDisableTiming | cudaEventBlockingSync;

  explicit event_pool(int ordinal, unsigned flags = untimed) : ordinal_(ordinal), flags_(flags) {}
  ~event_pool();
  event_pool(const event_pool&) = delete;
  event_pool& operator=(const event_pool&) = delete;

  /// The calling thread's current device is the pool's.
  result<cudaEvent_t> take();
  void give(cudaEvent_t raw) noexcept;
  /// Makes the pool's device the calling thread's (EVT-4).
  void enter() const noexcept;

 private:
  const int ordinal_;
  const unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;  // guarded by mutex_
};

class cuda_event final : public event {
 public:
  explicit cuda_event(std::shared_ptr<event_pool> pool) : pool_(std::move(pool)) {}
  ~cuda_event() override;

  bool done() const noexcept override;
  void wait_on_host() const override;

  /// Records on `s`; by the stream's thread, once. When that fails, waits for the stream and
  /// completes (EVT-2), and says why.
  status record(cudaStream_t s, host_marks before);

  /// Makes `s` wait for the device's part. Waits for the recording, which an earlier call of
  /// some thread has asked for, never for what was recorded. By a stream's thread.
  status submit_wait(cudaStream_t s) const;

  /// Waits until the device has passed the point; the error with which it failed, if it did.
  status await_device() const;

  /// The notifications before the point; known once it is recorded.
  const host_marks& before() const noexcept { return before_; }

 private:
  enum phase : int { pending, recorded, passed };
  void publish(phase p) noexcept;
  bool device_passed() const noexcept;

  std::shared_ptr<event_pool> pool_;
  cudaEvent_t raw_ = nullptr;  // valid once recorded
  host_marks before_;          // valid once recorded
  mutable std::atomic<int> phase_{pending};
};

/// A point of a stream whose time the device notes.
class timed_point {
 public:
  /// `pool`: of events with timing.
  explicit timed_point(std::shared_ptr<event_pool> pool) : pool_(std::move(pool)) {}
  ~timed_point();
  timed_point(const timed_point&) = delete;
  timed_point& operator=(const timed_point&) = delete;

  status record(cudaStream_t s);
  /// Once the device has passed it.
  bool recorded() const noexcept { return raw_ != nullptr; }
  /// What lies between, once the device has passed both; 0 where it does not know.
  double ms_since(const timed_point& earlier) const noexcept;

 private:
  std::shared_ptr<event_pool> pool_;
  cudaEvent_t raw_ = nullptr;
};

/// Two events that measure what lies between them, by the device's clock.
class timed_span {
 public:
  timed_span() = default;
  ~timed_span();
  timed_span(const timed_span&) = delete;
  timed_span& operator=(const timed_span&) = delete;

  status begin(cudaStream_t s);
  status end(cudaStream_t s);
  /// Once the device has passed the end; 0 if it was not recorded.
  double seconds() const noexcept;

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace troupe::gpu::cuda
