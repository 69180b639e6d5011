// The wait-for graph of a cluster: who waits for whom, for how long, and who waits for nobody. In a
// cluster that is stuck, the last is the culprit: everybody else waits for it, through others or
// directly. (MegaScale 3.4.2 finds the faulty one of a hang in the same way, from what each rank
// says it was doing last.)
//
// It is made of what actors say on the registry (actors/base/actor_registry.hpp) and so needs no
// answer of theirs; a process that does not answer is represented by what it said last.
//
// Invariants
//   WG-1  A process that does not answer waits for nobody, whatever it said last: what it said may
//     be long past. It and all its actors are culprits before anybody else.
//   WG-2  Next come actors that have been handling one message for long: they hold what they owe.
//     Next, waits for actors that do not exist. Last, actors with nothing to do that somebody waits
//     for.
//   WG-3  A deadlock is a set of actors all of whose waits lead back into it; each is reported as
//     one cycle, once all its waits are older than deadlock_ns: two ends of a transfer wait for
//     each other all the time. A cycle with a way out is none: the way out is what is waited for.
//   WG-4  Who asks for the graph waits for the gateway meanwhile, and that for all observers: these
//     are no waits of it before they are conspicuous.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/rank_grid.hpp"

namespace troupe::fbs {
struct ClusterView;
}

namespace troupe::trace {

struct waiting_for {
  std::string whom;    ///< path of an actor, may hold * and ?: any of them may answer
  std::string what;    ///< what is to come from there
  int64_t for_ns = 0;  ///< for how long already
};

/// An actor as the registry shows it.
struct waiting_actor {
  std::string path;
  std::string state;         ///< one word, may be empty
  int64_t state_for_ns = 0;  ///< for how long it has been in it
  std::optional<grid_place> place;  ///< of a stage
  std::string handling;      ///< message under its hands, empty: none
  int64_t handling_for_ns = 0;
  std::vector<waiting_for> waits;
};

/// A process and what it said last.
struct waiting_process {
  std::string node, host;
  uint32_t pid = 0;
  std::string ranks;                  ///< "0, 1"; empty: none
  int64_t silent_ns = 0;              ///< since it was last heard of; 0: it answered
  std::vector<waiting_actor> actors;  ///< the living
};

struct wait_options {
  int64_t busy_ns = 1'000'000'000;      ///< handling one message for longer is conspicuous
  int64_t deadlock_ns = 1'000'000'000;  ///< a cycle of shorter waits is none yet
  int64_t least_ns = 0;                 ///< shorter waits are left out
};

/// Where an actor is.
struct actor_place {
  size_t process = 0, actor = 0;  ///< indices into the input
  friend bool operator==(const actor_place&, const actor_place&) = default;
};

/// One wait.
struct wait_edge {
  actor_place from, to;
  std::string what;
  int64_t for_ns = 0;
  bool implied = false;  ///< not said by anybody: follows from how a sum over replicas works
};

enum class culprit_kind : uint8_t {
  silent,   ///< its process does not answer
  busy,     ///< it has been handling one message for long
  missing,  ///< somebody waits for an actor that does not exist
  idle,     ///< it waits for nobody, and somebody waits for it
};

/// Somebody who waits for nobody.
struct culprit {
  culprit_kind kind{};
  size_t process = 0;               ///< index; of `missing`: that of the one who waits
  std::vector<std::string> actors;  ///< paths: of `silent` all of the process, else one
  std::string place;                ///< "data 0, pipeline 1"; ranks or empty where unknown
  int64_t for_ns = 0;            ///< silent or handling for so long; else the longest wait for it
  size_t waiters = 0;            ///< how many actors wait for it, directly or through others
  std::vector<wait_edge> chain;  ///< from somebody nobody waits for, to it; may be empty
};

/// The whole answer.
struct wait_report {
  std::vector<wait_edge> edges;                ///< the longest first
  std::vector<culprit> culprits;               ///< the most waited for first
  std::vector<culprit> suspects;               ///< of a lesser kind (WG-2): probably victims
  std::vector<std::vector<wait_edge>> cycles;  ///< deadlocks (WG-3)
};

wait_report find_culprits(const std::vector<waiting_process>& cluster, const wait_options& options);

/// In words, lines ending with '\n'.
std::string wait_text(const std::vector<waiting_process>& cluster, const wait_report& report);

/// One JSON object without a line end: {"type":"wait_graph","culprits":[...],...}.
std::string wait_json(const std::vector<waiting_process>& cluster, const wait_report& report);

/// As a graph for Graphviz, lines ending with '\n': culprits are red.
std::string wait_dot(const std::vector<waiting_process>& cluster, const wait_report& report);

/// The report with so many waits, and of each other list so many, at most: the first, which say
/// most. For what must not grow with the cluster.
wait_report shortened(wait_report report, size_t most_edges, size_t most_others);

/// What the gateway's answer says of the living actors.
std::vector<waiting_process> waits_of(const fbs::ClusterView& view);

}  // namespace troupe::trace
