// Calls on one communicator, and the wait for what they started.
#include "gpu/cuda/nccl_channel.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

namespace troupe::gpu::cuda {

namespace {

/// A launch takes NCCL some ten microseconds on a thread of its own, making a communicator a
/// second: the wait begins short and grows. NCCL tells nobody that it has got further; that it has
/// ended does, and ends the wait.
class patience {
 public:
  /// Others may have the lock meanwhile.
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& end) {
    if (++waits_ <= 100) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      return;
    }
    end.wait_for(lock, pause_);
    pause_ = std::min(pause_ * 2, std::chrono::microseconds(2000));
  }

 private:
  int waits_ = 0;
  std::chrono::microseconds pause_{20};
};

}  // namespace

status nccl_channel::connect(const ncclUniqueId& id, int rank, int size, int max_blocks,
                             clock::time_point deadline) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (max_blocks > 0) config.maxCTAs = max_blocks;
  ncclResult_t answer;
  {
    std::lock_guard lock(mutex_);
    answer = library_.init_rank(&comm_, size, id, rank, &config);
  }
  return settle("ncclCommInitRankConfig", answer, deadline);
}

status nccl_channel::launch(const char* what, const std::function<ncclResult_t(ncclComm_t)>& call,
                            clock::time_point deadline) {
  ncclResult_t answer;
  {
    std::lock_guard lock(mutex_);
    if (!comm_) return ended();
    answer = call(comm_);
  }
  return settle(what, answer, deadline);
}

/// Asks until NCCL has done what it was told; once more after the deadline, which a busy processor
/// may have passed without NCCL.
status nccl_channel::settle(const char* what, ncclResult_t answer, clock::time_point deadline) {
  patience between;
  for (bool late = false; answer == ncclInProgress;) {
    if (late)
      return error{errc::timeout, fmt::format("{}: {} does not end", name_, what),
                   "a peer has died or is not connected"};
    if (ending_.stop_requested()) return ended();
    std::unique_lock lock(mutex_);
    between.wait(lock, gone_);
    late = clock::now() >= deadline;
    if (!comm_) return await_end(lock, deadline);
    ncclResult_t state = ncclSuccess;
    answer = library_.get_async_error(comm_, &state);
    if (answer == ncclSuccess) answer = state;
  }
  return explain(what, answer);
}

status nccl_channel::health() {
  std::lock_guard lock(mutex_);
  if (!comm_) return {};
  ncclResult_t state = ncclSuccess;
  auto answer = library_.get_async_error(comm_, &state);
  if (answer == ncclSuccess) answer = state;
  return answer == ncclInProgress ? status{} : explain("an operation", answer);
}

status nccl_channel::explain(const char* what, ncclResult_t answer) const {
  if (answer == ncclSuccess) return {};
  auto text = fmt::format("{}: {}: {}", name_, what, library_.error_string(answer));
  if (const char* more = library_.last_error(nullptr); more && *more)
    text += fmt::format(" ({})", more);
  switch (answer) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return error{errc::bug, std::move(text), "NCCL_DEBUG=WARN says more"};
    case ncclUnhandledCudaError:
      return error{errc::unavailable, std::move(text),
                   "the GPU has failed, or is used by two ranks; NCCL_DEBUG=WARN says more"};
    default:
      return error{errc::unavailable, std::move(text), "a peer has died or the network is down"};
  }
}

status nccl_channel::ended() const {
  return error{errc::cancelled, fmt::format("{} was aborted", name_)};
}

/// NCC-3; until the deadline, since NCCL may hang itself.
status nccl_channel::await_end(std::unique_lock<std::mutex>& lock, clock::time_point deadline) {
  gone_.wait_until(lock, deadline, [this] { return let_go_; });
  return ended();
}

void nccl_channel::let_go() {
  {
    std::lock_guard lock(mutex_);
    let_go_ = true;
  }
  gone_.notify_all();
}

ncclComm_t nccl_channel::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(comm_, nullptr);
}

bool nccl_channel::close(clock::time_point deadline) {
  auto answer = ncclInternalError;
  {
    std::lock_guard lock(mutex_);
    if (comm_) answer = library_.finalize(comm_);
  }
  if (!settle("ncclCommFinalize", answer, deadline)) return false;
  (void)library_.destroy(take());
  let_go();
  return true;
}

}  // namespace troupe::gpu::cuda
