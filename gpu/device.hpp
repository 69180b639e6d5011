// Devices, streams and events: the asynchronous machine every back end presents.
//
// Why: a worker actor must never block. It enqueues operations on streams and gets told, by a
// callback that the stream runs in order, when what it asked for is done. The host back end keeps
// the same promises as CUDA, so that the same stage code drives both.
//
// Invariants
//   DEV-1  Enqueueing never waits for earlier work (back-pressure is the caller's: it bounds
//     micro-batches).
//   DEV-2  Operations of one stream run in enqueue order; two streams are ordered only by
//     record/wait.
//   DEV-3  A failed operation poisons its stream: later operations are skipped, callbacks still
//     run and are handed the first error. Events still complete, so nobody hangs on a failure.
//   DEV-4  Memory named by an enqueued operation stays valid until an event recorded after it is
//     done.
//   DEV-5  Results do not depend on timing: the same operations on the same number of threads
//     give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/stopwatch.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

class ops;
class device;

/// Element types of tensors. Accumulation is always float32 or wider.
enum class dtype : uint8_t { f32, bf16, i32 };

/// Bytes of one element.
constexpr size_t size_of(dtype type) noexcept {
  return type == dtype::bf16 ? 2 : 4;
}

/// "f32", "bf16", "i32".
std::string_view to_string(dtype type) noexcept;

/// A point in a stream. Shared: recorded once, waited for by any number of streams.
class event {
 public:
  virtual ~event() = default;

  /// Whether everything before the point has finished. Never blocks.
  virtual bool done() const noexcept = 0;

  /// Blocks the calling thread until done: for tests, tools and detached threads only.
  virtual void wait_on_host() const = 0;
};

using event_ptr = std::shared_ptr<event>;

/// An in-order queue of operations on a device (DEV-2).
class stream {
 public:
  virtual ~stream() = default;

  virtual device& owner() noexcept = 0;

  /// Marks the current end of the queue.
  virtual event_ptr record() = 0;

  /// Makes later operations of this stream wait, on the device, for `point` (null: no-op).
  virtual void wait(event_ptr point) = 0;

  /// Runs `fn` on a host thread in stream order. `fn` gets the stream's state so far (DEV-3) and
  /// must not wait for streams; it may enqueue. This is how a worker actor learns of completions.
  virtual void notify(std::function<void(const status&)> fn) = 0;

  /// Enqueues what `enqueue` enqueues here, and tells `done`, as notify() does, how long that took
  /// on the stream in seconds: by the device's own clock where it has one, else by `clock`.
  virtual void measure(const std::function<void()>& enqueue, std::function<void(double)> done,
                       time_kind clock = time_kind::wall);

  /// Tells `fn`, as notify() does, when the stream came here: in milliseconds since some moment,
  /// the same for all stamps of one stream. By the device's own clock where it has one, so that
  /// what lies between two of them is not longer because a host thread came late.
  virtual void stamp(std::function<void(double ms)> fn);

  /// Runs blocking host work (a Gloo collective, a file read) in stream order; an error poisons
  /// (DEV-3). Skipped if the stream is poisoned.
  virtual void host_task(std::function<status()> fn) = 0;

  /// Copies bytes; source and destination do not overlap.
  virtual void copy(void* destination, const void* source, size_t bytes) = 0;

  /// Sets bytes to zero.
  virtual void zero(void* destination, size_t bytes) = 0;

  /// Enqueues what `enqueue` enqueues on this stream. Called again with the same key it may do the
  /// operations it noted instead of calling `enqueue` (CUDA: one graph in place of many launches).
  /// So `enqueue` always enqueues the same operations with the same arguments, on this stream only,
  /// and neither notify() nor host_task(); what the arguments point to lives as long as the stream.
  virtual void replay(uint64_t key, const std::function<void()>& enqueue);

  /// The kernel's numbers of the host's threads that do this stream's operations and nothing else;
  /// none where a device does them. Blocks until what is queued is done: not from its own thread.
  virtual std::vector<int> host_threads() { return {}; }

  /// Blocks until the queue is empty; returns the first error and clears it. Tests and tools only.
  virtual status synchronize() = 0;
};

/// Device memory, freed on destruction. 64-byte aligned at least; touched, so that the first use of
/// it pays no page faults.
class buffer {
 public:
  buffer() = default;
  buffer(void* data, size_t bytes, std::function<void(void*)> release)
      : data_(data, std::move(release)), bytes_(bytes) {}

  void* data() const noexcept { return data_.get(); }
  size_t bytes() const noexcept { return bytes_; }
  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(data_.get());
  }

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_{nullptr, [](void*) {}};
  size_t bytes_ = 0;
};

/// What a device is, for handshakes, plans and benchmarks.
struct device_facts {
  std::string name;             ///< e.g. "host: AMD EPYC 9R14, avx512_bf16"
  std::string instruction_set;  ///< e.g. "avx512_bf16", "amx_bf16", "sm_90"
  int threads = 0;              ///< host threads a compute stream may use
  uint64_t memory_bytes = 0;    ///< memory of the device, bytes
  uint64_t free_bytes = 0;      ///< of it in nobody's use; 0: not known
  double sheet_flops = 0;  ///< dense bf16 products by the maker's data sheet, FLOP/s; 0: not known
};

/// Options of one stream.
struct stream_options {
  std::string name = "compute";  ///< shown in traces and thread names (15 characters are kept)
  int threads = 1;               ///< host threads its operations use (host back end)
  bool replay = true;            ///< replay() may do other than call what it is given
};

class device {
 public:
  virtual ~device() = default;
  virtual device_facts facts() const = 0;

  /// Fails with unavailable when the device refuses.
  virtual result<std::unique_ptr<stream>> make_stream(const stream_options& options) = 0;

  /// Zeroed memory. Fails with no_memory, naming how much was asked for.
  virtual result<buffer> allocate(size_t bytes) = 0;

  /// Makes `bytes` of the caller's host memory quick to copy from and to: page-locked, so that
  /// copies run beside everything else. Ends with the last copy of the returned guard, which must
  /// go before the memory and the device do. Null where there is nothing to do (the host back end).
  /// Fails with no_memory.
  virtual result<std::shared_ptr<void>> pin(void* memory, size_t bytes);

  /// Whether host code may dereference this device's memory.
  virtual bool host_accessible() const noexcept = 0;

  /// The mathematics of this device.
  virtual gpu::ops& ops() noexcept = 0;
};

/// The host back end: oneDNN matrix products, own fused kernels, `threads` threads for compute
/// streams (0: all cores the process may run on).
std::unique_ptr<device> make_host_device(int threads = 0);

}  // namespace troupe::gpu
