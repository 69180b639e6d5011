// One NCCL communicator with the care it needs: it never blocks, any thread may end it.
//
// Why: a blocking communicator cannot be aborted while a call on it waits for a dead peer. A
// non-blocking one returns at once and is asked how far it is; but then "returned" is not "in the
// stream": an event recorded before the answer is ncclSuccess would pass before the operation.
//
// Invariants
//   NCC-1  No call on a communicator runs while another does, or after it was ended: each holds the
//     mutex, ending takes the handle away. No call is held up by a peer, so the mutex never is.
//   NCC-2  When launch() has returned success the operation is in the stream. It waits for this
//     process alone: peers were connected when the group was (nccl_library.hpp, warm-up of groups).
//   NCC-3  A launch that is overtaken by the end returns after it: NCCL has let go of the stream.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>

#include "gpu/cuda/nccl_library.hpp"

namespace troupe::gpu::cuda {

class nccl_channel {
 public:
  using clock = std::chrono::steady_clock;

  /// `name` is for errors, e.g. "group data/0".
  /// Who asks `ending` to stop ends what is waited for.
  nccl_channel(const nccl_library& library, std::string name, std::stop_token ending = {})
      : library_(library), name_(std::move(name)), ending_(std::move(ending)) {}
  nccl_channel(const nccl_channel&) = delete;
  /// Ended before (abort or close): NCCL is not called here.
  ~nccl_channel() = default;

  /// Meets the other members of `id`. At most `max_blocks` thread blocks will serve its operations
  /// (0: as many as NCCL likes). Fails with timeout at the deadline, with unavailable or bug.
  status connect(const ncclUniqueId& id, int rank, int size, int max_blocks,
                 clock::time_point deadline);

  /// Makes one call that enqueues an operation and returns once it is in the stream (NCC-2).
  /// `what` is the function's name. Fails with cancelled after an end.
  status launch(const char* what, const std::function<ncclResult_t(ncclComm_t)>& call,
                clock::time_point deadline);

  /// What NCCL has noticed since the last call: success, or what broke the communicator.
  status health();

  /// Takes the communicator away, for the one who ends it; null if that has happened.
  ncclComm_t take();
  /// It has been ended.
  void let_go();

  /// Ends it when every operation has finished on all sides. False: that did not happen by the
  /// deadline, and it is still to be aborted.
  bool close(clock::time_point deadline);

 private:
  status settle(const char* what, ncclResult_t answer, clock::time_point deadline);
  status explain(const char* what, ncclResult_t answer) const;
  status ended() const;
  status await_end(std::unique_lock<std::mutex>& lock, clock::time_point deadline);

  const nccl_library& library_;
  const std::string name_;
  const std::stop_token ending_;
  std::mutex mutex_;
  std::condition_variable gone_;
  ncclComm_t comm_ = nullptr;
  bool let_go_ = false;
};

}  // namespace troupe::gpu::cuda
