// The actor registry: the stats of every actor of an actor system, readable at any time without
// asking the actor. So status is answered for an actor that is busy, stuck, or dead.
//
// Who writes: the traced base (traced.hpp) counts and times; the actor itself publishes its state
// and what it waits for. Who reads: the observer, tests, the wait-for graph.
//
// Invariants
//   BRD-1  What is written per message is atomics only; strings change under the stats' own lock.
//     The registry's lock may be held while that of stats is taken, never the other way round.
//   BRD-2  Stats outlive their actor as one of the last dead, at most `dead_limit` of them.
//   BRD-3  A key is unique in the cluster: process tag above, number in the process below.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "messages/schemas/control_generated.h"

namespace troupe {

/// Something an actor waits for.
struct actor_wait {
  uint64_t id = 0;        ///< unique in the stats
  std::string whom;       ///< path of the actor it waits for
  std::string what;       ///< what is to come: "StepDone", "activation of micro-batch 3"
  int64_t since_ns = 0;   ///< on the actor clock
  bool spans_epochs = false;  ///< it goes on where its actor lives in another epoch
};

/// What is known of an actor at one moment.
struct actor_view {
  uint64_t key = 0;
  uint64_t parent = 0;       ///< key of the actor that spawned it, 0: none
  std::string path, kind, state, last_error, ended;
  fbs::StatusValuesT values;  ///< what it says of itself
  int64_t started_ns = 0;
  int64_t since_ns = 0;      ///< since when in this state
  int64_t ended_ns = 0;      ///< 0: alive
  uint64_t received = 0, handled = 0, failed = 0;
  uint16_t handling = 0;     ///< message type under its hands, 0: none
  int64_t handling_since_ns = 0;
  uint32_t deepest = 0;      ///< most messages its mailbox ever held
  std::vector<actor_wait> waits;
};

/// The same as messages hold it.
std::unique_ptr<fbs::ActorInfoT> info_of(const actor_view& view, int64_t now_ns);

/// One actor's stats.
class actor_stats {
 public:
  actor_stats(uint32_t number, uint64_t parent);

  uint64_t key() const noexcept { return key_; }
  uint32_t number() const noexcept { return static_cast<uint32_t>(key_); }
  /// The key of the actor that spawned it, 0: none.
  uint64_t parent() const noexcept { return parent_; }

  // -- by the traced base -----------------------------------------------------------------------

  void message_came() noexcept { received_.fetch_add(1, std::memory_order_relaxed); }
  /// Messages in the mailbox; asks the senders' cache line, so not for every message.
  uint32_t depth() const noexcept {
    const auto in = received_.load(std::memory_order_relaxed);
    const auto out = handled_.load(std::memory_order_relaxed);
    return in > out ? static_cast<uint32_t>(in - out) : 0;
  }
  /// `in_mailbox`: messages that wait behind this one, as far as the actor has looked.
  void handling(uint16_t type, uint32_t in_mailbox, int64_t now_ns) noexcept {
    if (in_mailbox > deepest_.load(std::memory_order_relaxed))
      deepest_.store(in_mailbox, std::memory_order_relaxed);
    handling_since_ns_.store(now_ns, std::memory_order_relaxed);
    handling_.store(type, std::memory_order_relaxed);
  }
  void handled() noexcept {
    handling_.store(0, std::memory_order_relaxed);
    handled_.store(handled_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void not_handled() noexcept { handling_.store(0, std::memory_order_relaxed); }
  void started(caf::weak_actor_ptr handle, int64_t now_ns);
  void ended(std::string why, int64_t now_ns);

  // -- by the actor -----------------------------------------------------------------------------

  void set_path(std::string path);
  void set_kind(std::string kind);
  std::string path() const;
  std::string kind() const;  ///< its actor's name in CAF: "stage"
  /// A state, which may be the old one.
  void publish(std::string state, int64_t now_ns);
  /// `change(fbs::StatusValuesT&)` changes what the actor says of itself.
  template <class Change>
  void publish(Change&& change) {
    std::lock_guard lock(mutex_);
    change(values_);
  }
  void failed(std::string why);
  /// Begins a wait; end it by its id.
  uint64_t begin_wait(std::string whom, std::string what, int64_t now_ns,
                      bool spans_epochs = false);
  /// Its actor lives in another epoch: what it waited for in the one before is over (ASK-4).
  void end_waits_of_epoch();
  /// Begins a wait for all of these under one id.
  uint64_t begin_waits(std::vector<std::string> whom, const std::string& what, int64_t now_ns);
  void end_wait(uint64_t id);

  actor_view view() const;
  /// What it says of itself.
  fbs::StatusValuesT values() const;
  /// The actor, empty where it is gone.
  caf::strong_actor_ptr handle() const;

 private:
  const uint64_t key_, parent_;
  std::atomic<int64_t> started_ns_{0};
  alignas(64) std::atomic<uint64_t> received_{0};  ///< the senders' line, which moves about
  alignas(64) std::atomic<uint64_t> handled_{0};   ///< the actor's own
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint32_t> deepest_{0};
  std::atomic<uint16_t> handling_{0};
  std::atomic<int64_t> handling_since_ns_{0};
  mutable std::mutex mutex_;
  std::string kind_, path_, state_, last_error_, ended_;
  fbs::StatusValuesT values_;
  int64_t since_ns_ = 0, ended_ns_ = 0;
  uint64_t last_wait_ = 0;
  std::multimap<uint64_t, actor_wait> waits_;  ///< by id: a run waits for thousands
  caf::weak_actor_ptr handle_;
};

/// The stats of all actors of an actor system (runtime.hpp).
class actor_registry {
 public:
  static constexpr size_t dead_limit = 256;

  /// Stats for a new actor.
  std::shared_ptr<actor_stats> add(uint64_t parent);
  /// The actor is gone and all who watch it have been told; its stats move to the dead (BRD-2).
  void remove(const std::shared_ptr<actor_stats>& stats);

  /// Waits until no actor is left. Before an actor system is destroyed: CAF 0.17.6 forgets an actor
  /// before it tells those who watch it, and what then comes to a broker that has been stopped is
  /// never freed, nor is its sender; a detached sender is waited for without end.
  void await_empty();

  /// Called for every actor that dies of an error, on its thread; one at a time. Empty: nobody.
  using death_handler = std::function<void(const std::string& path, const std::string& why)>;
  void set_death_handler(death_handler told);
  void report_death(const actor_stats& stats, const std::string& why);

  /// The living, then the dead (newest last) where wanted, in the order of their numbers.
  std::vector<actor_view> view(bool dead = false) const;
  /// The stats of the living, in the order of their numbers.
  std::vector<std::shared_ptr<actor_stats>> living() const;
  /// The living actor of this path; the newest where several bear it.
  std::shared_ptr<actor_stats> find(const std::string& path) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  std::vector<std::shared_ptr<actor_stats>> living_;  ///< sorted by number
  std::vector<std::shared_ptr<actor_stats>> dead_;
  std::mutex death_mutex_;
  death_handler on_death_;
};

/// The stats of the actor whose code this thread runs now; nullptr outside of traced actors.
actor_stats* current_stats() noexcept;

/// Sets it for a scope.
class stats_scope {
 public:
  explicit stats_scope(actor_stats* stats) noexcept;
  ~stats_scope();
  stats_scope(const stats_scope&) = delete;
  stats_scope& operator=(const stats_scope&) = delete;

 private:
  actor_stats* before_;
};

/// Messages made by this thread so far: how a record knows what a handler sent.
uint64_t messages_made() noexcept;
void count_message_made() noexcept;

}  // namespace troupe
