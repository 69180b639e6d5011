// How other threads (streams of a device) hand work to an actor: a queue of functions that the
// actor runs on its own thread, in order.
//
// Invariants
//   CMQ-1  Functions run on the actor's thread only, in the order they were posted.
//   CMQ-2  One wake-up message is under way at most; a queue whose actor is gone drops what is
//     posted.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/atom.hpp>
#include <caf/send.hpp>

namespace troupe {

/// Shared by an actor and the threads that report to it. The actor handles caf::update_atom by
/// drain().
class completion_queue {
 public:
  explicit completion_queue(caf::weak_actor_ptr owner) : owner_(std::move(owner)) {}

  /// From any thread.
  void post(std::function<void()> fn) {
    bool wake;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      queue_.push_back(std::move(fn));
      wake = !std::exchange(awake_, true);
    }
    if (!wake) return;
    if (auto owner = owner_.lock())
      caf::anon_send(caf::actor_cast<caf::actor>(owner), caf::update_atom_v);
  }

  /// On the actor's thread.
  void drain() {
    std::vector<std::function<void()>> batch;
    {
      std::lock_guard lock(mutex_);
      batch.swap(queue_);
      awake_ = false;
    }
    for (auto& fn : batch) fn();
  }

  /// Drops what waits and what comes; called when the actor's state goes (CMQ-2).
  void close() {
    std::vector<std::function<void()>> dropped;
    std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(queue_);
  }

 private:
  caf::weak_actor_ptr owner_;
  std::mutex mutex_;
  std::vector<std::function<void()>> queue_;
  bool awake_ = false;
  bool closed_ = false;
};

}  // namespace troupe
