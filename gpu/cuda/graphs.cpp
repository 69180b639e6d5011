// Capturing and launching graphs; see graphs.hpp.
#include "gpu/cuda/graphs.hpp"

namespace troupe::gpu::cuda {

status graph_store::begin(cudaStream_t s) {
  // Thread-local: other streams' threads may allocate and query events meanwhile.
  TROUPE_CUDA_TRY(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  noting_ = true;
  return {};
}

status graph_store::end(cudaStream_t s, uint64_t key, bool discard) {
  if (!noting_) return {};
  noting_ = false;
  cudaGraph_t noted = nullptr;
  TROUPE_CUDA_TRY(cudaStreamEndCapture(s, &noted));
  cudaGraphExec_t raw = nullptr;
  const cudaError_t made = discard ? cudaSuccess : cudaGraphInstantiate(&raw, noted, 0);
  forget(cudaGraphDestroy(noted));
  if (discard) return {};
  TROUPE_CHECK(checked(made, "cudaGraphInstantiate"));
  graphs_[key].reset(raw);
  return launch(s, key);
}

status graph_store::launch(cudaStream_t s, uint64_t key) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end())
    return error{errc::bug, "a run of operations that could not be noted is asked for again"};
  TROUPE_CUDA_TRY(cudaGraphLaunch(found->second.get(), s));
  return {};
}

}  // namespace troupe::gpu::cuda
