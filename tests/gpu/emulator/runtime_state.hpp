// What the parts of the emulated runtime share: handles, the prologue of every call, the queue.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/emulator/runtime.hpp"

namespace troupe::gpu::cuda::emulator {

/// A number one can wait for. Unlike std::atomic::wait, waiting is not seen by ThreadSanitizer as a
/// message to whoever adds (EMR-2).
class counter {
 public:
  uint32_t load() const noexcept { return value_.load(std::memory_order_acquire); }
  void add() noexcept;
  /// Sleeps while the value is `seen`; may return early.
  void wait(uint32_t seen) const noexcept;
  /// Returns once `count` was reached.
  void wait_for(uint32_t count) const noexcept {
    for (uint32_t now; static_cast<int32_t>((now = load()) - count) < 0;) wait(now);
  }

 private:
  std::atomic<uint32_t> value_{0};
};

/// One recording of an event: who waits for it keeps it, whatever is recorded later.
struct recording {
  counter done;
  std::chrono::steady_clock::time_point at;  // valid when done
};

/// One entry of a stream's queue, or of a graph.
struct operation {
  enum class kind : uint8_t {
    work,             ///< skipped on a lost device
    kernel,           ///< work that fail_next_kernel may strike
    mark,             ///< runs in any case: events
    external_record,  ///< of a graph: records `event` where the graph is launched
    external_wait,    ///< of a graph: waits for `event` there
    stop,             ///< the stream ends
  };
  kind what = kind::work;
  std::function<void()> run;
  cudaEvent_t event = nullptr;
};

struct capture;

/// Enters a call: its injected failure, the loss of the device, the rule about host functions.
cudaError_t enter(const char* call);
/// Like enter(), for calls that a capture under way forbids (cudaMalloc, cudaEventQuery).
cudaError_t enter_unsafe(const char* call);
/// Leaves it: remembers a failure for cudaGetLastError.
cudaError_t leave(cudaError_t code);
/// Reports what EMR-5 names.
cudaError_t misuse(const std::string& what, cudaError_t code);

bool in_host_function() noexcept;
int device_of_thread() noexcept;
cudaError_t loss_of(int device) noexcept;
void lose(int device, cudaError_t code) noexcept;
/// The code with which the kernel about to run fails, once.
cudaError_t take_kernel_failure() noexcept;
/// Returns when no pause is.
void pass_gate() noexcept;
size_t memory_limit() noexcept;
/// Its major number.
int compute_capability() noexcept;
int devices() noexcept;

/// Known handles.
bool knows(cudaStream_t s);
bool knows(cudaEvent_t e);

/// Appends to the queue, or to the capture the stream is in.
void push(cudaStream_t s, operation o);
/// Records `e` in `s`, outside of captures.
void record_now(cudaEvent_t e, cudaStream_t s);
void wait_now(cudaStream_t s, cudaEvent_t e);

/// Parts of live().
void count_streams(live_objects& out);
void count_memory(live_objects& out);
void count_graphs(live_objects& out);

// -- captures (runtime_graph.cpp) ---------------------------------------------------------------

/// Whether `s` is being captured; then the operation is the capture's.
bool captured(cudaStream_t s, operation& o);
bool is_capturing(cudaStream_t s);
/// Ends the capture of `s` with an error, which its end will tell.
cudaError_t spoil_capture(cudaStream_t s, const char* call);
/// A record or wait within a capture; false where neither side is captured.
bool captured_record(cudaEvent_t e, cudaStream_t s, bool external);
bool captured_wait(cudaStream_t s, cudaEvent_t e, bool external, cudaError_t& outcome);
void forget_event(cudaEvent_t e);
/// Whether the calling thread may not make unsafe calls now; spoils the captures concerned.
bool capture_forbids();

}  // namespace troupe::gpu::cuda::emulator

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<troupe::gpu::cuda::emulator::recording> current;  // guarded by mutex
};

struct CUstream_st {
  struct node {
    troupe::gpu::cuda::emulator::operation o;
    std::atomic<node*> next{nullptr};
  };

  int device = 0;
  int priority = 0;
  std::mutex producers;  // between callers; the stream's thread never takes it (EMR-2)
  node* tail = nullptr;  // guarded by producers
  uint32_t queued = 0;   // guarded by producers
  troupe::gpu::cuda::emulator::counter arrived, finished;
  std::thread thread;

  void run(node* head);
};
