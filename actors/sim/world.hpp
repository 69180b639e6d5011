// The world of a simulation: one actor system on virtual time, in which groups of actors are nodes
// with a network between them.
//
//   world w(options);
//   auto coordinator = w.spawn(0, cluster::coordinator, ...);   // lives on node 0
//   w.run(until_ns, [&] { return over; });
//
// An actor belongs to the node it was spawned on, and so do the actors it spawns. Messages within a
// node arrive at once, but for those that block their receiver; others go by link_model. A node
// can be crashed (its process is gone, the kernel says so to its peers), cut off (its host is gone
// or unreachable, nobody says anything) and frozen (its process does not run, but its links stand).
//
// Invariants
//   WLD-1  Everything follows from the options: the same ones give the same fingerprint.
//   WLD-2  Nothing leaves a crashed node but the news that it is gone.
//   WLD-3  One world at a time in a process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/base/processes.hpp"
#include "actors/base/traced.hpp"
#include "actors/sim/link_model.hpp"
#include "actors/sim/rng.hpp"
#include "actors/sim/scheduler.hpp"
#include "messages/any_msg.hpp"

namespace troupe::sim {

struct world_options {
  uint64_t seed = 1;
  int nodes = 1;  ///< the head among them, which is number 0
  link_options links;
  bool shuffle = true;             ///< actors have their turns by random
  size_t burst = 1;                ///< messages an actor may handle in a turn
  uint32_t process = 1;            ///< the process's number in the keys of its actors
  /// What the actors are in; by default a fresh one.
  std::shared_ptr<troupe::runtime> in = std::make_shared<troupe::runtime>();
  uint32_t mailbox_limit = 4096;   ///< a deeper mailbox is a violation
  bool check_requests = true;      ///< that each has a time limit
};

/// What was counted.
struct world_counts {
  uint64_t events = 0;     ///< messages put into mailboxes
  uint64_t crossed = 0;    ///< of them between nodes
  uint64_t lost = 0;       ///< never delivered
  uint64_t requests = 0;
  uint32_t deepest = 0;    ///< the most messages a mailbox held
};

/// Worlds come and go: from now on what one gives back is the next one's, and not the system's
/// meanwhile.
void keep_memory_of_worlds();

class world : public simulated_network, public simulated_processes {
 public:
  explicit world(const world_options& options);
  ~world() override;

  /// Of all its processes.
  troupe::runtime& runtime() const { return *config_->own; }

  // -- making -----------------------------------------------------------------------------------

  /// Spawns an actor on a node.
  template <class F, class... Ts>
  auto spawn(int node, F behaviour, Ts&&... arguments) {
    const auto handle = system_->spawn(behaviour, std::forward<Ts>(arguments)...);
    adopt(node, caf::actor_cast<caf::strong_actor_ptr>(handle));
    return handle;
  }

  caf::actor_system& system() { return *system_; }
  virtual_clock& clock() { return scheduler_->clock(); }
  int64_t now_ns() const { return scheduler_->clock().now_ns(); }
  rng& chance() { return chance_; }

  /// Ends every actor; nothing happens after it. The destructor does it where nobody has.
  void end();

  // -- running ----------------------------------------------------------------------------------

  /// No actor can run before time moves.
  bool idle() const { return scheduler_->idle(); }
  /// Lets one actor run.
  void turn();
  /// Steps until `over()` says so, or `until_ns` has come; false where it was the time.
  bool run(int64_t until_ns, const std::function<bool()>& over);

  /// Calls `then` on a node after a while, unless whose `alive` it is has gone. A frozen node does
  /// it when it thaws.
  void after(int64_t delay_ns, int node, std::weak_ptr<int> alive, std::function<void()> then);
  /// The same, as if from the actor of `stats`.
  void after(int64_t delay_ns, actor_stats& stats, std::weak_ptr<int> alive,
             std::function<void()> then);

  // -- faults -----------------------------------------------------------------------------------

  /// Ends the process of a node at once. `silent`: nobody is told (its host has gone).
  void crash(int node, bool silent);
  /// A node crashed before is there again, as an empty process.
  void restart(int node);
  void freeze(int node);
  void thaw(int node);
  /// See link_model. What was under way to the other side waits for heal().
  void partition(std::vector<int> group_of_node);
  void heal();
  /// See link_model: each from the first to the second. What was under way waits for mend_ways().
  void cut_ways(const std::vector<std::pair<int, int>>& ways);
  void mend_ways(const std::vector<std::pair<int, int>>& ways);
  /// Both directions, for good; what waits for it is lost.
  void break_link(int a, int b);
  bool broken(int a, int b) const { return links_.broken(a, b); }
  /// Two processes connect that had lost each other.
  void reconnect(int a, int b) { links_.reconnect(a, b); }
  void lose(double share) { links_.lose(share); }

  bool alive(int node) const { return nodes_[static_cast<size_t>(node)].alive; }
  bool frozen(int node) const { return nodes_[static_cast<size_t>(node)].frozen; }
  bool fell_silent(int node) const { return nodes_[static_cast<size_t>(node)].silent; }
  bool reachable(int a, int b) const;
  /// No cut is in the way from a to b.
  bool passes(int a, int b) const { return !links_.cut(a, b); }

  // -- looking ----------------------------------------------------------------------------------

  int node_of(const actor_stats& stats);
  /// Of the actor whose key a message bears as its sender, which has said something already.
  int node_of_sender(uint64_t key) const;
  /// Living actors of a node.
  std::vector<std::shared_ptr<actor_stats>> actors_of(int node) const;
  /// The living one with this path on the first of nodes 0 to `last` that has it; null if none.
  std::shared_ptr<actor_stats> actor_at(const std::string& path, int last) const;
  /// Over (time, receiver, message type, header) of every delivery so far.
  uint64_t fingerprint() const { return fingerprint_; }
  const world_counts& counts() const { return counts_; }

  /// Something that must never be. The first one is kept.
  void violation(std::string what);
  const std::optional<std::string>& violated() const { return violation_; }

  /// Sees every message of ours that is put into a mailbox, with its sender's node (WLD-1: must
  /// change nothing).
  std::function<void(const any_msg&, const actor_stats& receiver)> observe;

  /// How long whoever handles a message that blocks is at it: it hears it, and what comes behind
  /// it, that much later. Messages within a node alone and those from others alike.
  std::function<int64_t(const any_msg&)> blocks_ns;

  /// What befalls a message between nodes beside what links do: how much later it leaves; 0:
  /// nothing, less: it never does.
  std::function<int64_t(int from, int to, const any_msg&)> detains;

  /// The time of the actor that runs now: later than now_ns() where it has called what blocks.
  int64_t own_time_ns() const;
  /// What the actor that runs now has called takes until then: what it says leaves it then, and
  /// what comes to it is heard then. Nothing where no actor runs.
  void block_until(int64_t at_ns);
  /// When the last of a node's actors is done with what it has called.
  int64_t blocked_until(int node) const;

  bool intercept(traced_actor& receiver, const caf::strong_actor_ptr& self,
                 caf::mailbox_element_ptr& message) override;
  bool together(const caf::strong_actor_ptr& a, const caf::strong_actor_ptr& b) override;

 private:
  struct parcel {
    caf::strong_actor_ptr self;
    traced_actor* receiver = nullptr;
    caf::mailbox_element_ptr message;
    int from = 0, to = 0;
  };
  struct place {
    bool alive = true;
    bool frozen = false;
    bool silent = false;  ///< died without a word
    std::shared_ptr<int> process = std::make_shared<int>();  ///< new with each
    std::vector<parcel> waiting;               ///< while frozen
    std::vector<std::function<void()>> calls;  ///< while frozen
  };

  void adopt(int node, const caf::strong_actor_ptr& actor);
  int64_t busy_until(const actor_stats* stats) const;
  int64_t heard_at(const actor_stats& receiver, const caf::mailbox_element& message);
  void leave_at(int64_t at_ns, parcel&& p);
  void later(int64_t at_ns, parcel&& p);
  void arrive(parcel&& p);
  void deliver(parcel&& p);
  void note(traced_actor& receiver, caf::actor_id to, const caf::mailbox_element& message);
  void kill(actor_stats& stats);
  void travel(parcel&& p);
  void leave(parcel&& p);
  void check_new_requests();
  uint64_t path_hash(const actor_stats& stats);

  world_options options_;
  rng chance_;
  link_model links_;
  std::vector<place> nodes_;
  std::unique_ptr<runtime_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  virtual_scheduler* scheduler_ = nullptr;
  std::vector<int> node_of_;            ///< by number
  std::vector<uint64_t> path_hash_;     ///< by number, 0: not known yet
  std::vector<int64_t> busy_until_ns_;  ///< by number, of those that block
  std::vector<parcel> held_;         ///< for the other side of a partition
  std::vector<std::pair<caf::actor_id, caf::message_id>> new_requests_;
  int running_node_ = -1;  ///< on which a call runs, -1: by the actor
  uint64_t fingerprint_ = 0;
  world_counts counts_;
  std::optional<std::string> violation_;
};

}  // namespace troupe::sim
