// Codes of the CUDA runtime, what they mean to a person; see check.hpp.
#include "gpu/cuda/check.hpp"

#include <mutex>
#include <optional>

#include "gpu/cuda.hpp"

namespace troupe::gpu::cuda {
namespace {

struct meaning {
  errc code;
  const char* hint;
  bool loses_device = false;
};

std::mutex lost_mutex;
std::optional<error> lost;  ///< CHK-3

meaning meaning_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return {
          errc::no_memory,
          "use a smaller micro-batch or recomputation, more pipeline stages, or a GPU with more "
          "memory (nvidia-smi shows who else uses it)"};
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return {errc::unavailable,
              "nvidia-smi lists the GPUs; CUDA_VISIBLE_DEVICES and the container say which of them "
              "this process may use"};
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorSystemDriverMismatch:
      return {errc::unavailable,
              "NVIDIA driver not found, or it is older than this build's CUDA 13: install driver "
              "580 or newer"};
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return {errc::unavailable,
              "this build has no code for that GPU: configure with "
              "-DCMAKE_CUDA_ARCHITECTURES=<its compute capability>"};
    case cudaErrorDevicesUnavailable:
      return {errc::unavailable,
              "another process has the GPU for itself: nvidia-smi -q -d COMPUTE shows its mode"};
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
      return {errc::unavailable, "nvidia-fabricmanager, or the driver itself, is not running"};
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:  // CHK-4
      return {errc::unavailable,
              "a kernel failed, of this call or of an earlier one, and the process lost the GPU: "
              "start it again; if it comes again elsewhere, compute-sanitizer names the kernel",
              true};
    case cudaErrorLaunchTimeout:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorUnknown:  // of a GPU that has fallen off the bus, too
      return {errc::unavailable,
              "the GPU itself failed (dmesg | grep -i xid): start again without it", true};
    case cudaErrorCudartUnloading:
      return {errc::unavailable, "the process is ending"};
    default:
      return {errc::bug, ""};
  }
}

}  // namespace

error api_error(cudaError_t code, std::string_view call) {
  forget(code);  // CHK-2
  const meaning m = meaning_of(code);
  error out(
      m.code,
      std::string(call) + ": " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) + ")",
      m.hint, cudaGetErrorName(code));
  if (m.loses_device) {
    std::lock_guard lock(lost_mutex);
    if (!lost) lost = out;
  }
  return out;
}

void forget(cudaError_t code) noexcept {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace troupe::gpu::cuda

namespace troupe::gpu {

std::optional<error> lost_cuda_device() {
  std::lock_guard lock(cuda::lost_mutex);
  return cuda::lost;
}

}  // namespace troupe::gpu
