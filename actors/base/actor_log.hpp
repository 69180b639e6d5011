// An actor log: everything that happens to one actor, from its spawn, so that it can be replayed.
// Who keeps logs (a recording, a replay) says so once per actor system; otherwise an actor pays one
// look at a pointer a message.
//
// What an actor is given is seen in traced<>::consume, what it sends and asks in traced<>::send and
// request. What it answers leaves by the handle of the asker; so the actor is given, in its place,
// a tap that passes on all it hears. The clock is read through now_ns(), which is told here, too.
//
// Invariants
//   ACL-1  All of a log is told on the actor's thread, in order: begun, then for each thing that
//     was given got, what was said meanwhile, handled; at last ended.
//   ACL-2  What the actor says reaches whom it says it to, whoever listens; and it knows who asks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>

#include "actors/base/actor_registry.hpp"
#include "messages/schemas/trace_generated.h"

namespace troupe {

/// Who hears of one actor's log.
class actor_log {
 public:
  virtual ~actor_log() = default;

  /// How it was made; right after introduce().
  virtual void begun(fbs::SpawnRecordT record) = 0;
  /// It is about to handle this.
  virtual void got(const caf::mailbox_element& element, int64_t now_ns) = 0;
  /// It said something, or spawned `to` (`role` says what for).
  struct output {
    fbs::ActorLogKind kind = fbs::ActorLogKind::sent;
    caf::strong_actor_ptr to;
    uint64_t request = 0;
    caf::message content;
    std::string role;
  };
  virtual void said(output s) = 0;
  /// It has handled what it got, or has been spawned.
  virtual void handled(int64_t now_ns) = 0;
  virtual void ended(const std::string& why, int64_t now_ns) = 0;
  /// It reads its clock: what it shall see.
  virtual int64_t read_clock(int64_t ns) = 0;
};

/// Makes the log of an actor that has just said its path; none where nobody wants it. Any thread.
using actor_log_maker = std::function<std::shared_ptr<actor_log>(const actor_stats& stats)>;

/// Whose logs are kept, of an actor system (runtime.hpp).
class actor_log_factory {
 public:
  /// From now on; empty: no more.
  void set_maker(actor_log_maker maker);

  /// nullptr: nobody wants it.
  std::shared_ptr<actor_log> begin(const actor_stats& stats) {
    return kept_.load(std::memory_order_relaxed) ? make(stats) : nullptr;
  }

 private:
  std::shared_ptr<actor_log> make(const actor_stats& stats);

  std::atomic<bool> kept_{false};
  std::mutex mutex_;
  std::shared_ptr<const actor_log_maker> maker_;
};

namespace detail {

/// The log of the actor whose code this thread runs, nullptr where it is not kept.
inline thread_local constinit actor_log* current_log = nullptr;

/// Sets it for a scope.
class log_scope {
 public:
  explicit log_scope(actor_log* now) noexcept : before_(std::exchange(current_log, now)) {}
  ~log_scope() { current_log = before_; }
  log_scope(const log_scope&) = delete;
  log_scope& operator=(const log_scope&) = delete;

 private:
  actor_log* before_;
};

/// In place of the asker of a request: tells the log and passes on (ACL-2).
caf::strong_actor_ptr make_answer_tap(caf::actor_system& system, caf::strong_actor_ptr asker,
                                      std::shared_ptr<actor_log> log, uint64_t request);
/// Who asked, where `sender` is in an asker's place; else `sender`.
const caf::strong_actor_ptr& asker_behind(const caf::strong_actor_ptr& sender);

}  // namespace detail

/// What an actor reads from elsewhere than its messages: in a replay what was read then (RPL-1).
bool as_recorded(bool here);
/// The same of a count.
size_t count_as_recorded(size_t here);
/// The same of a number, to the bit.
double number_as_recorded(double here);

/// The name of a handle: the same for the same actor in every process. Empty for none.
std::string handle_name(const caf::strong_actor_ptr& who);
std::string handle_name(const caf::actor_addr& who);

/// As above, of a typed handle.
template <class Handle>
std::string handle_name_of(const Handle& who) {
  return handle_name(caf::actor_cast<caf::strong_actor_ptr>(who));
}

/// Adds an actor that one was handed at its record.
template <class Handle>
void add_peer(fbs::SpawnRecordT& record, std::string role, const Handle& who) {
  record.peers.push_back(std::make_unique<fbs::ActorLogPeerT>());
  record.peers.back()->role = std::move(role);
  record.peers.back()->actor = handle_name_of(who);
}

/// Says that the actor spawned another.
template <class Handle>
void note_spawned(std::string role, const Handle& who) {
  if (detail::current_log == nullptr) [[likely]]
    return;
  detail::current_log->said({fbs::ActorLogKind::spawned,
                             caf::actor_cast<caf::strong_actor_ptr>(who),
                             0,
                             {},
                             std::move(role)});
}

}  // namespace troupe
