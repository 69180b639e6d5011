// What the CUDA runtime answers, as status and error: the one place where a cudaError_t ends.
//
// Invariants
//   CHK-1  Every result of the API goes through here: TROUPE_CUDA_TRY where the function can fail,
//     checked() where a status is wanted, forget() where nobody is left to be told.
//   CHK-3  A code after which the process has lost its GPU is kept (lost_cuda_device() in
//     gpu/cuda.hpp): contexts are the process's, and so is this.
//   CHK-4  Such a code is `unavailable`, also where it may be a kernel's fault: of illegal accesses
//     a third is the machine's (ByteRobust, table 2), another process can go on, and a kernel that
//     fails in each of them ends the job all the same (RCV-4).
//   CHK-2  An error that was taken leaves nothing behind in cudaGetLastError(): the launch after it
//     is not blamed.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "io/base/result.hpp"

namespace troupe::gpu::cuda {

/// The failure of `call` ("cudaMalloc(&p, bytes)"): no_memory where the device's memory ran out,
/// bug where the call itself was wrong, else unavailable; message with the API's own name and text
/// of the code, hint for the ones a person can do something about.
error api_error(cudaError_t code, std::string_view call);

/// Success, or api_error().
inline status checked(cudaError_t code, std::string_view call) {
  if (code == cudaSuccess) return {};
  return api_error(code, call);
}

/// The result of a call in a destructor or after a failure that was told already. What goes wrong
/// there is the earlier failure once more.
void forget(cudaError_t code) noexcept;

}  // namespace troupe::gpu::cuda

/// Returns the error of a CUDA call from the enclosing function, if it has one.
#define TROUPE_CUDA_TRY(call)                                   \
  do {                                                          \
    if (const cudaError_t code_ = (call); code_ != cudaSuccess) \
      return ::troupe::gpu::cuda::api_error(code_, #call);      \
  } while (false)
