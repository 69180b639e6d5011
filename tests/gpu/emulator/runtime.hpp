// The emulated CUDA runtime: the functions of cuda_runtime_api.h that this program calls, on the
// CPU, and what a test may ask of them beyond.
//
// Why: streams, events and graphs are where a back end goes wrong, and no build machine has a GPU.
// Here every stream is a thread, so what was not ordered does run out of order; and where the real
// runtime is lenient or silent, this one is strict.
//
// Invariants
//   EMR-1  Nothing runs on the caller's thread but what the real runtime may run there: copies of
//     pageable memory (64 KiB at most are read at once, larger ones hold up the caller).
//   EMR-2  Streams are ordered by events alone. No lock of the runtime lies between them, so
//     ThreadSanitizer sees a missing wait as the data race it is.
//   EMR-3  Host functions of all streams run on one thread, as a driver may do it, and may not call
//     the runtime.
//   EMR-4  A failed kernel loses the device: what is queued is skipped, every call fails with the
//     kernel's code, events complete.
//   EMR-5  Misuse stops the program with what was wrong: a destroyed stream or event, an event
//     nobody recorded, memory that was freed or is shorter than the copy, the default stream, a
//     thread that never chose a device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

/// Runs `fn`, a kernel's grid, in the order of `stream`.
void troupe_emulator_enqueue(cudaStream_t stream, std::function<void()> fn);

namespace troupe::gpu::cuda::emulator {

/// Undoes everything below and gives lost devices back. Streams, events and memory stay.
void reset();

/// Devices there are (1).
void set_device_count(int count);

/// Memory of each device, bytes (1 GiB).
void set_memory_limit(size_t bytes);

/// Major number of each device's compute capability (9).
void set_compute_capability(int major);

/// The call of that name after `after` more of them fails with `code` and does nothing.
void fail_next(const std::string& call, cudaError_t code, int after = 0);

/// While one exists, calls of the runtime are counted. One at a time.
class count_calls {
 public:
  count_calls();
  ~count_calls();
  count_calls(const count_calls&) = delete;
  count_calls& operator=(const count_calls&) = delete;
  int64_t of(const std::string& call) const;
};

/// The next kernel to run fails with `code`, while it runs (EMR-4).
void fail_next_kernel(cudaError_t code);
/// The same for a whole program, by its environment: of the processes in which this names a file,
/// the first to run a kernel once the file is there takes it away and loses its device.
inline constexpr const char* loses_device = "TROUPE_EMULATED_GPU_LOSES";
/// The same, but that kernel never ends.
inline constexpr const char* hangs_device = "TROUPE_EMULATED_GPU_HANGS";

/// While one exists, no stream begins anything.
class pause {
 public:
  pause();
  ~pause();
  pause(const pause&) = delete;
  pause& operator=(const pause&) = delete;
};

/// What was made and not yet destroyed.
struct live_objects {
  int streams = 0, events = 0, device_blocks = 0, pinned_blocks = 0, graphs = 0;
  bool operator==(const live_objects&) const = default;
};
live_objects live();

/// Calls `handler` instead of stopping the program (EMR-5); the call then fails.
void on_misuse(std::function<void(const std::string&)> handler);

}  // namespace troupe::gpu::cuda::emulator
