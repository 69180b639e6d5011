// The stream of both host back ends: a thread that runs small tasks in order.
//
// Why: the host has no hardware queue, so a thread plays one. Producers append to a queue under
// a short lock; the thread takes the whole queue at once, so that a burst of operations costs one
// wake-up.
//
// Invariants (beside DEV-1..5)
//   HST-1  The status lives on the stream's thread: nobody else reads or writes it.
//   HST-2  Destruction runs what is queued, then joins; no event is left unfinished. A stream is
//          not destroyed from its own thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/host/memory.hpp"
#include "gpu/host/task.hpp"
#include "gpu/host/thread_team.hpp"

namespace troupe::gpu::host {

/// What an operation may use while it runs.
struct compute_context {
  thread_team& team;
  scratch_memory& scratch;  ///< the operation's own
  scratch_memory& packing;  ///< the matrix products'
};

class host_stream final : public stream {
 public:
  host_stream(device& owner, const stream_options& options);
  ~host_stream() override;

  device& owner() noexcept override { return owner_; }
  event_ptr record() override;
  void wait(event_ptr point) override;
  void notify(std::function<void(const status&)> fn) override;
  void host_task(std::function<status()> fn) override;
  void copy(void* destination, const void* source, size_t bytes) override;
  void zero(void* destination, size_t bytes) override;
  std::vector<int> host_threads() override;
  status synchronize() override;

  /// Enqueues `f(compute_context&)`, returning void or status; skipped when poisoned (DEV-3).
  /// What it throws becomes the stream's error.
  template <class F>
  void enqueue(F&& f) {
    push([body = std::forward<F>(f)](host_stream& self) mutable { self.run_guarded(body); });
  }

 private:
  template <class F>
  void run_guarded(F& body) {
    if (!state_) return;
    try {
      compute_context context{team_, scratch_, packing_};
      if constexpr (std::is_same_v<std::invoke_result_t<F&, compute_context&>, void>) {
        body(context);
      } else {
        state_ = body(context);
      }
    } catch (...) {
      fail_with_current_exception();
    }
  }
  void push(task<host_stream> t);
  void fail_with_current_exception() noexcept;
  void work();
  bool take_queue();

  device& owner_;
  const std::string name_;
  thread_team team_;
  scratch_memory scratch_, packing_;
  status state_;  // HST-1

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<task<host_stream>> queue_;  // guarded by mutex_
  bool sleeping_ = false;                 // guarded by mutex_
  bool stop_ = false;                     // guarded by mutex_
  std::atomic<bool> has_work_{false};     // a hint for the spinning thread; the truth is queue_
  std::vector<task<host_stream>> batch_;  // the stream thread's own
  std::thread thread_;
};

}  // namespace troupe::gpu::host
