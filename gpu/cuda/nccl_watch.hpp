// What is under way in one NCCL group, and the thread that ends the group when it must.
//
// Why: an operation whose peer has died spins on the device for ever, and NCCL notices some deaths
// only when asked. So a thread asks, in finite periods: it sees errors, operations that take too
// long, and abort(); and it alone ends communicators, which may take a while, so that no caller of
// abort() waits.
//
// Invariants
//   NCW-1  The first failure is kept before anything is ended: what runs behind an aborted
//     operation in its stream sees it (DEV-3).
//   NCW-2  All channels of a group are ended in one NCCL group call: ended one by one, an operation
//     of a later one could keep the device from finishing an earlier one.
//   NCW-3  stop() returns within close_limit, even if NCCL does not: then thread and channels are
//     left behind.
//   NCW-4  Whether a group ends in good order is judged by a look after stop(), however late the
//     thread began: what had finished by then is not under way.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda/nccl_channel.hpp"
#include "gpu/device.hpp"

namespace troupe::gpu::cuda {

struct nccl_watch_options {
  std::string name;                               ///< of the group
  std::chrono::milliseconds period{20};           ///< between two looks
  std::chrono::milliseconds close_limit{10'000};  ///< of ending, NCW-3
  std::stop_token ending = {};                    ///< ends what channels wait for
};

class nccl_watch : public std::enable_shared_from_this<nccl_watch> {
 public:
  nccl_watch(const nccl_library& library, nccl_watch_options options)
      : library_(library), options_(std::move(options)) {}

  /// Adds one; all of them before start().
  nccl_channel& add_channel();
  const nccl_watch_options& options() const noexcept { return options_; }

  /// The thread begins. Once.
  void start();

  /// An operation between two points of a stream, which may take `limit` from its turn on.
  void under_way(const char* what, event_ptr started, event_ptr finished,
                 std::chrono::milliseconds limit);

  /// Keeps the first error; everything is ended soon (NCW-1). From any thread.
  void fail(const error& e);
  /// The first error; success as long as there is none.
  status failure() const;

  /// Ends the group: in good order if nothing is under way, by aborting otherwise. Blocks (NCW-3).
  void stop();

 private:
  using clock = nccl_channel::clock;
  struct operation {
    const char* what;
    event_ptr started, finished;
    std::chrono::milliseconds limit;
    std::optional<clock::time_point> seen;  ///< its turn was noticed
  };

  void run();
  std::optional<error> look();
  void end_all(bool in_order);
  void abort_all();

  const nccl_library& library_;
  const nccl_watch_options options_;
  std::vector<std::unique_ptr<nccl_channel>> channels_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<operation> under_way_;
  status failure_;
  bool stopping_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace troupe::gpu::cuda
