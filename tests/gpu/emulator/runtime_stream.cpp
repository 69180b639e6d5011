// Emulated streams, events and host functions.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <set>

#include "tests/gpu/emulator/runtime_state.hpp"

namespace troupe::gpu::cuda::emulator {
namespace {

struct handles {
  std::mutex mutex;
  std::set<cudaStream_t> streams;  // guarded by mutex
  std::set<cudaEvent_t> events;    // guarded by mutex
};

handles& known() {
  static handles all;
  return all;
}

/// The one thread of host functions (EMR-3).
class host_functions {
 public:
  static host_functions& instance() {
    static host_functions one;
    return one;
  }

  /// Runs `fn` on the thread and returns when it has.
  void run(std::function<void()> fn) {
    counter done;
    {
      std::lock_guard lock(mutex_);
      queue_.push_back([&] {
        fn();
        done.add();
      });
    }
    wake_.notify_one();
    done.wait_for(1);
  }

  static bool on_thread() { return inside; }

 private:
  host_functions() : thread_([this] { work(); }) {}
  ~host_functions() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  void work() {
    inside = true;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  static thread_local bool inside;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_
  bool stop_ = false;                        // guarded by mutex_
  std::thread thread_;
};

thread_local bool host_functions::inside = false;

cudaError_t check(cudaStream_t s, const char* call) {
  if (s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread) {
    return misuse(std::string(call) + " on the default stream, which waits for others",
                  cudaErrorInvalidResourceHandle);
  }
  if (!knows(s)) {
    return misuse(std::string(call) + " on a stream that does not exist (any more)",
                  cudaErrorInvalidResourceHandle);
  }
  return cudaSuccess;
}

cudaError_t check(cudaEvent_t e, const char* call) {
  if (knows(e)) return cudaSuccess;
  return misuse(std::string(call) + " on an event that does not exist (any more)",
                cudaErrorInvalidResourceHandle);
}

std::shared_ptr<recording> current_of(cudaEvent_t e) {
  std::lock_guard lock(e->mutex);
  return e->current;
}

void await_stream(cudaStream_t s) {
  uint32_t target = 0;
  {
    std::lock_guard lock(s->producers);
    target = s->queued;
  }
  s->finished.wait_for(target);
}

}  // namespace

void counter::add() noexcept {
  value_.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

void counter::wait(uint32_t seen) const noexcept {
  syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&value_), FUTEX_WAIT_PRIVATE, seen, nullptr,
          nullptr, 0);
}

bool knows(cudaStream_t s) {
  std::lock_guard lock(known().mutex);
  return known().streams.contains(s);
}

bool knows(cudaEvent_t e) {
  std::lock_guard lock(known().mutex);
  return known().events.contains(e);
}

void count_streams(live_objects& out) {
  std::lock_guard lock(known().mutex);
  out.streams = static_cast<int>(known().streams.size());
  out.events = static_cast<int>(known().events.size());
}

bool in_host_function() noexcept {
  return host_functions::on_thread();
}

void push(cudaStream_t s, operation o) {
  if (captured(s, o)) return;
  auto* fresh = new CUstream_st::node{std::move(o), {nullptr}};
  {
    std::lock_guard lock(s->producers);
    s->tail->next.store(fresh, std::memory_order_release);
    s->tail = fresh;
    ++s->queued;
  }
  s->arrived.add();
}

void record_now(cudaEvent_t e, cudaStream_t s) {
  auto r = std::make_shared<recording>();
  {
    std::lock_guard lock(e->mutex);
    e->current = r;
  }
  push(s, {operation::kind::mark,
           [r] {
             r->at = std::chrono::steady_clock::now();
             r->done.add();
           },
           nullptr});
}

void wait_now(cudaStream_t s, cudaEvent_t e) {
  if (auto r = current_of(e)) {
    push(s, {operation::kind::mark, [r] { r->done.wait_for(1); }, nullptr});
  }
}

}  // namespace troupe::gpu::cuda::emulator

using namespace troupe::gpu::cuda::emulator;

/// The stream's thread: takes what arrives, in order, and never tells a caller anything but by
/// `finished` and by events (EMR-2).
void CUstream_st::run(node* head) {
  for (;;) {
    node* next = nullptr;
    while ((next = head->next.load(std::memory_order_acquire)) == nullptr) {
      const uint32_t seen = arrived.load();
      if ((next = head->next.load(std::memory_order_acquire)) != nullptr) break;
      arrived.wait(seen);
    }
    delete head;
    head = next;
    operation& o = head->o;
    if (o.what == operation::kind::stop) break;
    pass_gate();
    const bool lost = loss_of(device) != cudaSuccess;
    const cudaError_t strike =
        !lost && o.what == operation::kind::kernel ? take_kernel_failure() : cudaSuccess;
    if (strike != cudaSuccess) {
      lose(device, strike);
    } else if (!lost || o.what == operation::kind::mark) {
      o.run();
    }
    o.run = nullptr;  // what it holds is gone before anyone hears that it has finished
    finished.add();
  }
  delete head;
}

void troupe_emulator_enqueue(cudaStream_t stream, std::function<void()> fn) {
  if (check(stream, "a kernel launch") != cudaSuccess) return;
  push(stream, {operation::kind::kernel, std::move(fn), nullptr});
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int priority) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (flags != cudaStreamNonBlocking) {
    return leave(misuse("a stream that waits for the default stream", cudaErrorInvalidValue));
  }
  auto* s = new CUstream_st;
  s->device = device_of_thread();
  s->priority = priority;
  s->tail = new CUstream_st::node;
  s->thread = std::thread([s, head = s->tail] { s->run(head); });
  std::lock_guard lock(known().mutex);
  known().streams.insert(s);
  *made = s;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return cudaStreamCreateWithPriority(made, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const auto entered = enter(__func__);
  if (auto e = check(s, __func__); e != cudaSuccess) return leave(e);
  if (is_capturing(s)) spoil_capture(s, __func__);
  {
    std::lock_guard lock(known().mutex);
    known().streams.erase(s);
  }
  push(s, {operation::kind::stop, nullptr, nullptr});
  s->thread.join();
  delete s;
  return leave(entered);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  const auto entered = enter(__func__);
  if (entered != cudaSuccess && loss_of(device_of_thread()) == cudaSuccess) return leave(entered);
  if (auto e = check(s, __func__); e != cudaSuccess) return leave(e);
  if (is_capturing(s)) return leave(spoil_capture(s, __func__));
  await_stream(s);
  return leave(loss_of(s->device));
}

cudaError_t cudaStreamQuery(cudaStream_t s) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check(s, __func__); e != cudaSuccess) return leave(e);
  if (is_capturing(s)) return leave(spoil_capture(s, __func__));
  std::lock_guard lock(s->producers);
  return leave(s->finished.load() == s->queued ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamGetPriority(cudaStream_t s, int* priority) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check(s, __func__); e != cudaSuccess) return leave(e);
  *priority = s->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned flags) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check(s, __func__); e != cudaSuccess) return leave(e);
  if (auto e = check(event, __func__); e != cudaSuccess) return leave(e);
  cudaError_t outcome = cudaSuccess;
  if (captured_wait(s, event, flags == cudaEventWaitExternal, outcome)) return leave(outcome);
  if (current_of(event) == nullptr) {
    return leave(misuse("a stream waits for an event that nobody has recorded: no wait at all",
                        cudaErrorInvalidValue));
  }
  wait_now(s, event);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void* data) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check(s, __func__); e != cudaSuccess) return leave(e);
  push(s, {operation::kind::work, [fn, data] { host_functions::instance().run([&] { fn(data); }); },
           nullptr});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  auto* fresh = new CUevent_st;
  fresh->device = device_of_thread();
  fresh->flags = flags;
  std::lock_guard lock(known().mutex);
  known().events.insert(fresh);
  *made = fresh;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* made) {
  return cudaEventCreateWithFlags(made, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto entered = enter(__func__);
  if (auto e = check(event, __func__); e != cudaSuccess) return leave(e);
  forget_event(event);
  {
    std::lock_guard lock(known().mutex);
    known().events.erase(event);
  }
  delete event;
  return leave(entered);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t s, unsigned flags) {
  if (auto e = enter("cudaEventRecord"); e != cudaSuccess) return leave(e);
  if (auto e = check(s, "cudaEventRecord"); e != cudaSuccess) return leave(e);
  if (auto e = check(event, "cudaEventRecord"); e != cudaSuccess) return leave(e);
  if (event->device != s->device) {
    return leave(
        misuse("an event of one device is recorded on another", cudaErrorInvalidResourceHandle));
  }
  if (!captured_record(event, s, flags == cudaEventRecordExternal)) record_now(event, s);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
  return cudaEventRecordWithFlags(event, s, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (auto e = enter_unsafe(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check(event, __func__); e != cudaSuccess) return leave(e);
  const auto r = current_of(event);
  return leave(r == nullptr || r->done.load() != 0 ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto entered = enter_unsafe(__func__);
  if (entered != cudaSuccess && loss_of(device_of_thread()) == cudaSuccess) return leave(entered);
  if (auto e = check(event, __func__); e != cudaSuccess) return leave(e);
  if (const auto r = current_of(event)) r->done.wait_for(1);
  return leave(loss_of(event->device));
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  for (cudaEvent_t event : {from, to}) {
    if (auto e = check(event, __func__); e != cudaSuccess) return leave(e);
    if (event->flags & cudaEventDisableTiming) {
      return leave(misuse("the time of an event without timing", cudaErrorInvalidResourceHandle));
    }
    const auto r = current_of(event);
    if (r == nullptr) return leave(cudaErrorInvalidResourceHandle);
    if (r->done.load() == 0) return leave(cudaErrorNotReady);
  }
  *ms = std::chrono::duration<float, std::milli>(current_of(to)->at - current_of(from)->at).count();
  return cudaSuccess;
}
