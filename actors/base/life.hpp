// A life: everything that happens to one actor, from its birth, for those who want to live it
// again. Who keeps lives (a recording, a replay) says so once per process; otherwise an actor pays
// one look at a pointer a message.
//
// What an actor is given is seen in traced<>::consume, what it sends and asks in traced<>::send and
// request. What it answers leaves by the handle of the asker; so the actor is given, in its place,
// an ear that passes on all it hears. The clock is read through now_ns(), which is told here, too.
//
// Invariants
//   LIF-1  All of a life is told on the actor's thread, in order: born, then for each thing that
//     was given got, what was said meanwhile, handled; at last ended.
//   LIF-2  What the actor says reaches whom it says it to, whoever listens.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>

#include "actors/base/board.hpp"
#include "messages/schemas/trace_generated.h"

namespace troupe {

/// Who hears of one actor's life.
class life {
 public:
  virtual ~life() = default;

  /// How it was made; right after introduce().
  virtual void born(fbs::SpawnRecordT birth) = 0;
  /// It is about to handle this.
  virtual void got(const caf::mailbox_element& element, int64_t now_ns) = 0;
  /// It said something, or spawned `to` (`role` says what for).
  struct saying {
    fbs::LifeKind kind = fbs::LifeKind::sent;
    caf::strong_actor_ptr to;
    uint64_t request = 0;
    caf::message content;
    std::string role;
  };
  virtual void said(saying s) = 0;
  /// It has handled what it got, or has begun to live.
  virtual void handled(int64_t now_ns) = 0;
  virtual void ended(const std::string& why, int64_t now_ns) = 0;
  /// It reads its clock: what it shall see.
  virtual int64_t read_clock(int64_t ns) = 0;
};

/// Makes the life of an actor that has just said its path; none where nobody wants it. Any thread.
using life_maker = std::function<std::shared_ptr<life>(const actor_card& card)>;

/// From now on; empty: no more.
void keep_lives(life_maker maker);

namespace detail {

inline std::atomic<bool> lives_are_kept{false};

std::shared_ptr<life> begin_life(const actor_card& card);

/// The life of the actor whose code this thread runs, nullptr where it is not kept.
inline thread_local constinit life* current_life = nullptr;

/// Sets it for a scope.
class life_scope {
 public:
  explicit life_scope(life* now) noexcept : before_(std::exchange(current_life, now)) {}
  ~life_scope() { current_life = before_; }
  life_scope(const life_scope&) = delete;
  life_scope& operator=(const life_scope&) = delete;

 private:
  life* before_;
};

/// In place of the asker of a request: tells the life and passes on (LIF-2).
caf::strong_actor_ptr make_ear(caf::actor_system& system, caf::strong_actor_ptr asker,
                               std::shared_ptr<life> hearer, uint64_t request);

}  // namespace detail

/// The name of a handle: the same for the same actor in every process. Empty for none.
std::string handle_name(const caf::strong_actor_ptr& who);
std::string handle_name(const caf::actor_addr& who);

/// As above, of a typed handle.
template <class Handle>
std::string handle_name_of(const Handle& who) {
  return handle_name(caf::actor_cast<caf::strong_actor_ptr>(who));
}

/// Adds an actor that one was handed at its birth.
template <class Handle>
void add_peer(fbs::SpawnRecordT& birth, std::string role, const Handle& who) {
  birth.peers.push_back(std::make_unique<fbs::LifePeerT>());
  birth.peers.back()->role = std::move(role);
  birth.peers.back()->actor = handle_name_of(who);
}

/// Says that the actor spawned another.
template <class Handle>
void note_spawned(std::string role, const Handle& who) {
  if (detail::current_life == nullptr) [[likely]]
    return;
  detail::current_life->said({fbs::LifeKind::spawned,
                              caf::actor_cast<caf::strong_actor_ptr>(who),
                              0,
                              {},
                              std::move(role)});
}

}  // namespace troupe
