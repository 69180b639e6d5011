// A stream of a CUDA device: a thread that submits, the device that executes, a thread that tells.
//
// Why a thread submits: the contract wants things that the CUDA runtime does not promise to a
// caller. Submitting blocks when the device's queue of launches is full, or memory is pageable, so
// a caller must not do it (DEV-1). An operation after a failed host task must be skipped (DEV-3),
// so it must not be in the device's queue yet. So the caller only appends to a queue; the stream's
// thread submits from it, well ahead of the device, and stops ahead of nothing but host tasks and
// pageable memory. Two more things follow: no wait ever occupies the device or a thread of the
// driver (nothing of ours can deadlock there, as waiting host functions of several streams can),
// and operations may use the stream's working memory without locks.
//
// Why another thread tells: a host function in the stream (cudaLaunchHostFunc) would stall the
// device until it returned, may not call CUDA, and is never called when the device fails. So a
// notification is an event of the device; the second thread waits for it, learns of the device's
// failures by it, and calls. The device goes on meanwhile.
//
// Invariants (beside DEV-1..5)
//   CST-1  Everything is submitted by the stream's thread, in the order of the calls.
//   CST-2  What the host can see keeps that order as well: notifications, host tasks and copies of
//     pageable memory wait for the notifications before them, own and of streams waited for
//     (EVT-1). Kernels and copies of device or pinned memory do not.
//   CST-3  The first error is kept (DEV-3): of a submission, a host task, a callback that threw, or
//     the device. A notification is handed what was known when it was submitted, or what the
//     device, or a verify() before it, said when it got there.
//   CST-4  Destruction runs what is queued, then joins; every event is done. A stream is not
//     destroyed from its own threads.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/event.hpp"
#include "gpu/cuda/graphs.hpp"
#include "gpu/cuda/matmul.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/cuda/work_queue.hpp"
#include "gpu/device.hpp"
#include "gpu/host/task.hpp"

namespace troupe::gpu::cuda {

/// What an operation may use while it is submitted.
struct launch_context {
  cudaStream_t stream;
  scratch_memory& memory;
  std::unique_ptr<matmul>& products;  ///< the stream's; who needs them first makes them

  /// Device memory of at least `bytes`, aligned to 256, for the kernels of this operation; a second
  /// call takes back what the first one gave.
  result<void*> scratch(size_t bytes) const { return memory.get(bytes); }
};

class cuda_stream final : public stream {
 public:
  /// A stream of device `ordinal`, which `owner` is; its events come from `pool`. Streams named
  /// "compute..." have the lowest priority: transfers and collectives are short and others wait for
  /// them. Fails with unavailable.
  static result<std::unique_ptr<cuda_stream>> make(device& owner, int ordinal,
                                                   std::shared_ptr<event_pool> pool,
                                                   const stream_options& options);
  ~cuda_stream() override;
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;

  device& owner() noexcept override { return owner_; }
  event_ptr record() override;
  void wait(event_ptr point) override;
  void notify(std::function<void(const status&)> fn) override;
  /// By events of the device; where the stream has failed, as the stamp before.
  void stamp(std::function<void(double)> fn) override;
  void host_task(std::function<status()> fn) override;
  void copy(void* destination, const void* source, size_t bytes) override;
  void zero(void* destination, size_t bytes) override;
  /// By two events of the device; 0 seconds where the stream failed.
  void measure(const std::function<void()>& enqueue, std::function<void(double)> done,
               time_kind clock) override;
  /// By graphs (graphs.hpp). While `enqueue` runs nobody else enqueues here.
  void replay(uint64_t key, const std::function<void()>& enqueue) override;
  status synchronize() override;

  /// Asks `fn` on a host thread when the device is here: how an operation tells of a failure that
  /// the device does not see. Its error is the stream's from here on (CST-3). `fn` must not wait.
  void verify(std::function<status()> fn);

  /// Enqueues `f`, which launches kernels: f(cudaStream_t) or f(launch_context&), returning
  /// cudaError_t, status or void. Skipped when poisoned; what it returns or throws becomes the
  /// stream's error, with `what` (a literal: the operation's name) in front. Arguments travel by
  /// value, at most host::task::task_bytes of them.
  template <class F>
  void enqueue(const char* what, F&& f) {
    queue_.put([what, body = std::forward<F>(f)](cuda_stream& self) mutable {
      self.guarded(what, [&] { return self.launch(what, body); });
    });
  }

 private:
  struct notice {
    std::function<void(const status&)> fn;
    status state;                       // of the stream when it was submitted
    std::shared_ptr<cuda_event> point;  // where the device has to be
    host_marks before;                  // what must have returned
    std::shared_ptr<host_mark> mark;    // set when fn has
  };

  cuda_stream(device& owner, int ordinal, std::shared_ptr<event_pool> pool,
              const stream_options& options, cudaStream_t raw);

  template <class F>
  status launch(const char* what, F& body) {
    launch_context context{raw_, scratch_, products_};
    if constexpr (std::is_invocable_v<F&, launch_context&>) {
      return outcome_of(what, [&] { return body(context); });
    } else {
      return outcome_of(what, [&] { return body(raw_); });
    }
  }
  template <class F>
  static status outcome_of(const char* what, F&& call) {
    using answer = std::invoke_result_t<F&>;
    if constexpr (std::is_void_v<answer>) {
      call();
      return {};
    } else if constexpr (std::is_same_v<answer, cudaError_t>) {
      return checked(call(), what);
    } else {
      static_assert(std::is_same_v<answer, status>);
      status s = call();
      return s ? s : s.error().within(what);
    }
  }
  /// Runs `step` unless poisoned; its error, returned or thrown, poisons.
  template <class F>
  void guarded(const char* what, F&& step) {
    if (poisoned_.load(std::memory_order_acquire)) return;
    try {
      if (status s = step(); !s) fail(s.error());
    } catch (...) {
      fail_with_current_exception(what);
    }
  }
  void fail(const error& e);
  void keep(const error& e);
  void fail_with_current_exception(const char* what) noexcept;
  status state() const;

  // The stream's thread.
  void submit_all();
  void submit_wait(const event_ptr& point);
  void submit_notice(std::function<void(const status&)> fn);
  status submit_copy(void* destination, const void* source, size_t bytes);
  status submit_zero(void* destination, size_t bytes);
  void await_host() noexcept;
  status drain();

  // The telling thread.
  void tell_all();
  void tell(notice& n);
  double stamped(const std::shared_ptr<timed_point>& point);

  device& owner_;
  const int ordinal_;
  const std::shared_ptr<event_pool> pool_;
  const std::shared_ptr<event_pool> timed_;  ///< of stamps
  const std::string name_;
  const bool replays_;
  const cudaStream_t raw_;

  mutable std::mutex state_mutex_;
  status state_;                       // guarded by state_mutex_
  std::atomic<bool> poisoned_{false};  // state_ is an error

  status verified_;         // the telling thread's: the first error of a verify()
  std::shared_ptr<timed_point> stamped_;  // the telling thread's: the last stamp
  double stamped_ms_ = 0;                 // the telling thread's: from the first stamp to it
  host_marks before_;       // the stream's thread's: notifications not known to have returned
  scratch_memory scratch_;  // the stream's thread's
  std::unique_ptr<matmul> products_;  // the stream's thread's
  graph_store graphs_;  // the stream's thread's; goes before the two above, whose memory it uses

  std::mutex replays_mutex_;
  std::map<uint64_t, int> replayed_;  // guarded by replays_mutex_: how often each key was enqueued
  work_queue<host::task<cuda_stream>> queue_;
  work_queue<notice> notices_;
  std::thread teller_;
  std::thread submitter_;
};

}  // namespace troupe::gpu::cuda
