// The emulated runtime's devices, errors and controls; see runtime.hpp.
#include "tests/gpu/emulator/runtime.hpp"

#include <unistd.h>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/gpu/emulator/runtime_state.hpp"

namespace troupe::gpu::cuda::emulator {
namespace {

constexpr int most_devices = 8;
constexpr size_t default_memory = size_t{1} << 30;
constexpr int hopper = 9;

struct controls {
  std::atomic<int> devices{1};
  std::atomic<size_t> memory{default_memory};
  std::atomic<int> major{hopper};
  std::array<std::atomic<cudaError_t>, most_devices> lost{};
  std::atomic<cudaError_t> kernel_failure{cudaSuccess};

  std::atomic<int> pauses{0};
  counter resumed;

  std::atomic<bool> injecting{false};  // calls need the lock only while something is injected
  std::mutex mutex;
  struct injection {
    int after;
    cudaError_t code;
  };
  std::multimap<std::string, injection> injections;        // guarded by mutex
  std::atomic<bool> counting{false};                       // as injecting
  std::map<std::string, int64_t> calls;                    // guarded by mutex
  std::function<void(const std::string&)> misuse_handler;  // guarded by mutex
};

controls& all() {
  static controls one;
  return one;
}

thread_local int current_device = 0;
thread_local bool has_chosen = false;  // by cudaSetDevice
thread_local cudaError_t last_error = cudaSuccess;

/// Whether the real runtime makes a context for it on the thread's device.
bool makes_context(std::string_view call) {
  return call != "cudaSetDevice" && !call.starts_with("cudaGetDevice");
}

cudaError_t injected(const char* call) {
  if (!all().injecting.load(std::memory_order_relaxed)) return cudaSuccess;
  std::lock_guard lock(all().mutex);
  auto& list = all().injections;
  for (auto [i, end] = list.equal_range(call); i != end; ++i) {
    if (i->second.after-- > 0) continue;
    const cudaError_t code = i->second.code;
    list.erase(i);
    return code;
  }
  return cudaSuccess;
}

}  // namespace

void reset() {
  controls& c = all();
  c.devices = 1;
  c.memory = default_memory;
  c.major = hopper;
  for (auto& lost : c.lost) lost = cudaSuccess;
  c.kernel_failure = cudaSuccess;
  last_error = cudaSuccess;
  std::lock_guard lock(c.mutex);
  c.injecting = false;
  c.injections.clear();
  c.misuse_handler = nullptr;
}

void set_device_count(int count) {
  all().devices = count < most_devices ? count : most_devices;
}

void set_memory_limit(size_t bytes) {
  all().memory = bytes;
}

void set_compute_capability(int major) {
  all().major = major;
}

void fail_next(const std::string& call, cudaError_t code, int after) {
  std::lock_guard lock(all().mutex);
  all().injections.insert({call, {after, code}});
  all().injecting = true;
}

count_calls::count_calls() {
  std::lock_guard lock(all().mutex);
  all().calls.clear();
  all().counting = true;
}

count_calls::~count_calls() {
  all().counting = false;
}

int64_t count_calls::of(const std::string& call) const {
  std::lock_guard lock(all().mutex);
  const auto found = all().calls.find(call);
  return found == all().calls.end() ? 0 : found->second;
}

void fail_next_kernel(cudaError_t code) {
  all().kernel_failure = code;
}

pause::pause() {
  ++all().pauses;
}

pause::~pause() {
  --all().pauses;
  all().resumed.add();
}

void on_misuse(std::function<void(const std::string&)> handler) {
  std::lock_guard lock(all().mutex);
  all().misuse_handler = std::move(handler);
}

live_objects live() {
  live_objects out;
  count_streams(out);
  count_memory(out);
  count_graphs(out);
  return out;
}

cudaError_t enter(const char* call) {
  if (in_host_function()) {  // EMR-3
    return misuse(std::string(call) + " in a host function", cudaErrorNotPermitted);
  }
  if (!has_chosen && makes_context(call)) {  // EMR-5
    return misuse(std::string(call) + " by a thread that has chosen no device: on device 0, then",
                  cudaErrorInvalidDevice);
  }
  if (all().counting.load(std::memory_order_relaxed)) {
    std::lock_guard lock(all().mutex);
    ++all().calls[call];
  }
  if (const auto code = injected(call); code != cudaSuccess) return code;
  return loss_of(current_device);  // EMR-4
}

cudaError_t enter_unsafe(const char* call) {
  if (const auto code = enter(call); code != cudaSuccess) return code;
  return capture_forbids() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t leave(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

cudaError_t misuse(const std::string& what, cudaError_t code) {
  std::function<void(const std::string&)> handler;
  {
    std::lock_guard lock(all().mutex);
    handler = all().misuse_handler;
  }
  if (!handler) {
    std::fprintf(stderr, "emulated CUDA runtime: %s\n", what.c_str());
    std::abort();
  }
  handler(what);
  return code;
}

int device_of_thread() noexcept {
  return current_device;
}

cudaError_t loss_of(int device) noexcept {
  return all().lost[static_cast<size_t>(device)].load(std::memory_order_relaxed);
}

void lose(int device, cudaError_t code) noexcept {
  all().lost[static_cast<size_t>(device)].store(code, std::memory_order_relaxed);
}

cudaError_t take_kernel_failure() noexcept {
  static const char* const sign = std::getenv(loses_device);
  if (sign != nullptr && unlink(sign) == 0) return cudaErrorECCUncorrectable;
  static const char* const hang = std::getenv(hangs_device);
  if (hang != nullptr && unlink(hang) == 0)
    for (;;) ::pause();
  if (all().kernel_failure.load(std::memory_order_relaxed) == cudaSuccess) return cudaSuccess;
  return all().kernel_failure.exchange(cudaSuccess);
}

void pass_gate() noexcept {
  while (all().pauses.load(std::memory_order_acquire) > 0) {
    const uint32_t seen = all().resumed.load();
    if (all().pauses.load(std::memory_order_acquire) > 0) all().resumed.wait(seen);
  }
}

size_t memory_limit() noexcept {
  return all().memory;
}

int compute_capability() noexcept {
  return all().major;
}

int devices() noexcept {
  return all().devices;
}

}  // namespace troupe::gpu::cuda::emulator

using namespace troupe::gpu::cuda::emulator;

namespace {

struct error_text {
  cudaError_t code;
  const char *name, *text;
};

constexpr error_text errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
};

const error_text& text_of(cudaError_t code) {
  for (const auto& e : errors) {
    if (e.code == code) return e;
  }
  static constexpr error_text unknown{cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
  return unknown;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t code) {
  return text_of(code).name;
}

const char* cudaGetErrorString(cudaError_t code) {
  return text_of(code).text;
}

cudaError_t cudaGetLastError() {
  const cudaError_t code = last_error;
  last_error = cudaSuccess;
  return code;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  *count = devices();
  return leave(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  const auto e = enter(__func__);
  const bool lost = e != cudaSuccess && e == loss_of(current_device);
  if (e != cudaSuccess && !lost) return leave(e);
  if (device < 0 || device >= devices()) return leave(cudaErrorInvalidDevice);
  current_device = device;
  has_chosen = true;  // a lost one, too: what the thread calls next fails by that
  return leave(lost ? e : loss_of(device));
}

cudaError_t cudaGetDevice(int* device) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (device < 0 || device >= devices()) return leave(cudaErrorInvalidDevice);
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "emulated");
  p->major = compute_capability();
  p->minor = 0;
  p->totalGlobalMem = memory_limit();
  p->multiProcessorCount = 4;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 232448;
  p->l2CacheSize = 50 << 20;
  p->unifiedAddressing = 1;
  p->uuid.bytes[15] = static_cast<char>(device + 1);
  p->pciBusID = device + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  cudaDeviceProp p;
  if (auto e = cudaGetDeviceProperties(&p, device); e != cudaSuccess) return leave(e);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    default:
      return leave(misuse("an attribute the emulator does not know", cudaErrorInvalidValue));
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (device < 0 || device >= devices()) return leave(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  *version = CUDART_VERSION;
  return cudaSuccess;
}
