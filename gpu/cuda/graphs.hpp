// Runs of operations noted once as CUDA graphs and launched as one.
//
// Why: a layer is some twenty launches of a few microseconds of the host each; a small model's
// kernels are quicker than that. Shapes and addresses are the same in every step, so a layer's
// operations are noted the second time they are enqueued (the first time they run as they are:
// working memory grows and the products' library chooses its algorithms, which nothing may do while
// noting), and replayed from then on.
//
// Invariants
//   GRA-1  What goes wrong while noting leaves no graph behind and no capture open.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>

#include "gpu/cuda/check.hpp"

namespace troupe::gpu::cuda {

/// The graphs of one stream; used by the thread that submits to it.
class graph_store {
 public:
  /// What is submitted to `s` from here on is noted, not run.
  status begin(cudaStream_t s);
  /// Ends noting; keeps the graph as `key` and runs it, unless `discard` or something failed.
  status end(cudaStream_t s, uint64_t key, bool discard);
  /// Runs the graph `key`. Fails with bug where there is none.
  status launch(cudaStream_t s, uint64_t key);

 private:
  struct release {
    void operator()(cudaGraphExec_t graph) const noexcept { forget(cudaGraphExecDestroy(graph)); }
  };
  using executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, release>;

  std::map<uint64_t, executable> graphs_;
  bool noting_ = false;
};

}  // namespace troupe::gpu::cuda
