// Ending a detached actor while the network still runs.
//
// Why: when an actor ends that another process watches, CAF 0.17.6 tells the network so, in a
// message that holds the actor. What comes after the network has stopped is never read, and the
// system would wait for that actor's thread for ever.
//
// Invariants
//   FAR-1  CAF tells the last to ask of an end first. Whoever wants to know that the network has
//     been told must therefore ask before any other process can: right after the spawn.
#pragma once

#include <future>
#include <memory>

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

namespace troupe::apps {

/// An actor of this scope: it ends, and all are told, before the scope does. For main threads.
template <class Handle>
class resident {
 public:
  /// FAR-1: takes what has just been spawned.
  explicit resident(Handle who) : who_(std::move(who)), ended_(told_->get_future()) {
    caf::actor_cast<caf::actor>(who_)->attach_functor([told = told_] { told->set_value(); });
  }
  ~resident() {
    caf::anon_send_exit(who_, caf::exit_reason::user_shutdown);
    ended_.wait();
  }
  resident(const resident&) = delete;
  resident& operator=(const resident&) = delete;

  const Handle& handle() const noexcept { return who_; }

 private:
  std::shared_ptr<std::promise<void>> told_ = std::make_shared<std::promise<void>>();
  Handle who_;
  std::future<void> ended_;
};

}  // namespace troupe::apps
