// The coordinator: admits nodes, gives them ranks, tells the run of them, watches who is alive, and
// takes everything down in order once the run has ended.
//
// Messages: Hello, Heartbeat, Leave from nodes; StopTraining from the launcher or a person, for the
// run; Recover and RunEnded from the run; DrainNode, EvictNode, AdmitNode, ReplaceNode and
// SparesRequest from persons. Suspend, Assign, Shutdown to nodes; Launch to the launcher.
//
// Invariants
//   CRD-1  In each epoch the run begins once, when every place (places_policy.hpp) has a node that
//     has joined, runs nothing of an earlier epoch, and has its ranks. Spares are not waited for.
//     That it cannot begin, or that a node is gone, is told to it: what then becomes of the job is
//     its decision (job_policy.hpp).
//   CRD-2  The end is told to the reporter exactly once: as the run says it, or that the run's
//     actor is gone.
//   CRD-3  After the end every node is told to shut down; the coordinator goes when they are gone
//     or the grace is over.
//   CRD-4  A process that was refused is not observed.
//   CRD-5  A message of an epoch that has ended changes nothing.
//   CRD-6  A run whose actor dies without a word is an end, too.
//   CRD-7  Connections that came to nothing are told of once for each reason, and shown in the
//     status as they grow.
//   CRD-8  One death has one wording: where a launcher sees how processes end, a broken connection
//     waits a second for its word (and the run for both: JOB-10).
//   CRD-9  What a node is told of others grows with those its ranks talk with, not with the
//     cluster: neighbours in the pipeline, and loader and stages of a host.
//   CRD-10  The run alone begins another epoch (Recover). The nodes that live end their ranks; one
//     that does not within recovery.quiet_ms counts as lost. A lost node's process is started again
//     by the launcher, or joins by itself; who has been lost in an epoch gets no ranks in it, and
//     its loss is told once. A late word of a process that ended is none of the one in its place;
//     where it names no process: LAU-3 (launches_policy.hpp).
//   CRD-11  A spare that has joined comes into the place of a lost node at once; the lost node's
//     process is started again beside it and is a spare from then on. The loss of a node without a
//     place is no event of the run.
//   CRD-12  A node that was evicted (evictions_policy.hpp) is neither started nor admitted. None is
//     evicted from a place unless a spare comes into it, or the job goes on without it (CRD-17).
//   CRD-13  Whom a person takes out of a place lives until the run begins the next epoch: a run
//     that ends keeps its nodes, and so its last checkpoint.
//   CRD-14  Who is drained leaves with an epoch that began for no lost node, since the state is
//     saved then; in any other it stays, and the run is asked again.
//   CRD-15  Places and evictions are told to the journal (journal.hpp) before a rank is given out
//     by them. A coordinator that goes on for a lost one begins as in a recovery: with these, with
//     the nodes that come back, and with those that are started for want of them: at once where
//     their process has ended, else once defaults::rejoin_patience is over. Until then a spare
//     comes into the place of none but the former.
//   CRD-16  A process that has lived in an epoch is admitted by the coordinator alone that goes on
//     for the lost one of that epoch: what it holds is of that job. None is admitted twice;
//     but where there are several heads, a node that did not hear this one for a while and has
//     looked for another comes back once the next epoch has begun.
//   CRD-17  Where a place has no node in a recovery, nobody can come into it, and its node is
//     evicted, does not start or has not come within recovery.return_s, the largest smaller number
//     of replicas that has nodes gets ranks (replicas_policy.hpp), if their slices fit the memory
//     that [swap] gives them; who has none is a spare. Once there are nodes for more, the run is
//     asked to make room for them between two steps; an epoch that begins anyway has as many as
//     there are nodes for. The run is told how many it has.
//   CRD-18  Where the job has several heads (cluster.heads), no node is suspended or given ranks in
//     an epoch that no majority of voters has promised to this one (actors/heads/elector.hpp). It
//     has them promise again, three times within recovery.head_takeover_s; where a majority follows
//     another head, or has not answered for that long, it acts no more: it ends, and leaves the
//     nodes that others started to the head that does. One that begins a job waits for its first
//     majority as long as it takes; one that goes on for a lost head does not, since it may have
//     slept past the job's end.
//   CRD-19  The end of the run is told to the elector, and this one does not go before that has
//     said that the other heads know it, or did not answer in time.
//   CRD-20  Who is given up for silence is a lost host where the monitor has said so since it was
//     heard last, else a frozen process.
//   CRD-21  A node without a place whose link the monitor finds to be sick is evicted. One that has
//     got a place meanwhile is lost over it, as any other node with ranks, where the run recovers,
//     no other place has lost its node, and a spare can have its place; else it stays: steps may be
//     made all the same, and if none are, the monitor finds who holds them up.
//   CRD-22  Where the split of the layers is open (parallel.placement), all nodes with places
//     measure a layer at once, when every one of them has its ranks, so that no check of a machine
//     runs any more. Which layers each stage has is settled by that once, before the run begins: it
//     is told to the person, the run and the journal, and no later epoch measures again. Where a
//     node cannot measure, or no split fits, it is the planned one; of a node that is lost
//     meanwhile nothing is settled. A spare that has less memory than the layers of a place take by
//     a measured split does not come into it (PLA-6).
//   CRD-23  Before a run begins or goes on the predictor is told what the machines of its nodes
//     are and, where they were, what they were probed to do, of `profiled_places` of them at most.
//     Nothing is waited for: what a node says of its machine comes with its first word, or with
//     that it has its ranks.
//   CRD-24  Where the split is measured, nodes may change places (MSL-4), if each place has the
//     node that it is planned with, and nobody says which order they have (parallel.nodes). Then
//     they end the ranks that they have, in the same epoch and before the run was told of any, and
//     get those of their new places; the order is told with the layers, and stays with them. Of a
//     node that is lost meanwhile the run is told as of any: where it begins anew for that, it is
//     with the order.
//   CRD-25  How quick a node was in earlier runs, by its name, its machine and its threads,
//     outranks what it measures of a layer (NPC-1); where all are known by these nobody measures.
//     What was handed to it counts, and nobody is waited for: a replay has the same split.
//
// Failure policy: a dead node is told to the run; a refused one is counted and the cluster goes on.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "actors/base/defaults.hpp"
#include "actors/base/traced.hpp"
#include "actors/cluster/evictions_policy.hpp"
#include "actors/cluster/ingress.hpp"
#include "actors/cluster/launches_policy.hpp"
#include "actors/cluster/liveness_policy.hpp"
#include "actors/cluster/membership_policy.hpp"
#include "actors/cluster/places_policy.hpp"
#include "actors/cluster/returns_policy.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/train/device_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/disk/storage.hpp"
#include "io/perf/hw_profile.hpp"
#include "messages/actors.hpp"

namespace troupe::cluster {

struct coordinator_state;
using coordinator_pointer = traced_pointer<coordinator_actor, coordinator_state>;

/// Why a run does not begin: who did not join in time, or did not take the ranks that it was given.
inline constexpr error_kind<int64_t, std::string_view, std::string_view> nodes_missing{
    "nodes_missing", errc::timeout, "these nodes did not join within {0} s: {1}",
    "look at their logs; {2} sets how long to wait"};
inline constexpr error_kind<std::string_view, int, std::string_view> does_not_join{
    "does_not_join", errc::unavailable, "node {} was started {} times and does not join: it {}",
    "look at its log"};
inline constexpr error_kind<std::string_view, size_t, size_t> handles_missing{
    "handles_missing", errc::bug, "node {} answered with {} handles for {} ranks"};
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> other_ranks{
    "other_ranks", errc::bug, "node {} took ranks {}, expected {}"};
/// What a process hears that counts as lost.
inline constexpr error_kind<std::string_view> left_the_cluster{
    "left_the_cluster", errc::unavailable, "node {} counts as lost in this epoch"};
/// What a process hears that was taken out.
inline constexpr error_kind<std::string_view, std::string_view> node_evicted{
    "node_evicted", errc::permission, "node {0} is evicted: it {1}",
    "`troupe console -c 'admit {0}'` lets it join again"};
/// What a person hears whose word cannot be done.
inline constexpr error_kind<std::string_view, std::string_view> no_such_node{
    "no_such_node", errc::not_found, "node not found: {0}", "the nodes are {1}"};
inline constexpr error_kind<std::string_view> no_spare{
    "no_spare", errc::unavailable, "no spare can come into the place of node {}",
    "`troupe console -c spares` lists them; `drain` saves and ends the run where there is none"};
inline constexpr error_kind<> not_training{
    "not_training", errc::unavailable, "the run gathers its nodes: none can be taken out now",
    "say it again once it trains"};
inline constexpr error_kind<> run_is_ending{
    "run_is_ending", errc::unavailable, "the run saves and ends: it needs its nodes until then",
    "start it again without the node"};
inline constexpr error_kind<> does_not_recover{
    "does_not_recover", errc::unavailable, "this run ends with a node that goes",
    "recovery.enabled is false"};
inline constexpr error_kind<std::string_view> one_at_a_time{
    "one_at_a_time", errc::unavailable, "node {} is being drained",
    "say it again once the run goes on without it"};
inline constexpr error_kind<std::string_view> not_evicted{
    "not_evicted", errc::unavailable, "node {} is not evicted", "`spares` says who is"};
/// What a coordinator answers that has ended, or has no gateway, and how it tells of a dead run.
inline constexpr error_kind<> cluster_ends{"cluster_ends", errc::unavailable,
                                           "the cluster is going down"};
inline constexpr error_kind<> no_gateway{"no_gateway", errc::unavailable,
                                         "this cluster has no gateway"};
inline constexpr error_kind<std::string_view> run_died{"run_died", errc::bug,
                                                       "the run's actor ended: {}"};

/// What a node hears that looks for another one.
inline constexpr error_kind<std::string_view> node_not_here{
    "node_not_here", errc::not_found, "node not found: {}", "it is not there, or counts as lost"};

/// Of places whose machines the predictor is told of, in an epoch: it keeps no more nodes.
inline constexpr uint32_t profiled_places = 512;

/// A node that has joined.
struct member {
  std::string name;
  node_actor handle;
  fbs::HelloT hello;
  loader_actor loader;
  std::optional<io::perf::hw_profile> profile;  ///< of its machine, where that was probed
  bool gone = false;                 ///< its connection has ended, or it counts as lost
  bool told = false;                 ///< that it is lost
  bool quiet = true;                 ///< it runs nothing of an earlier epoch
  std::optional<int64_t> broken_ns;  ///< when its connection broke, while its end is not worded
  caf::strong_actor_ptr observer;
};

struct coordinator_state {
  static inline const char* name = "coordinator";

  train::spawn_record record;
  io::storage* storage = nullptr;  ///< of the checkpoints
  /// Of the record's plan: with all replicas; the ranks that the record has are those of `replicas`
  /// (CRD-17).
  train::job_plan whole;
  int64_t replicas = 1;
  std::vector<int64_t> replica_counts;      ///< with which it can go on, its own first
  bool may_grow = false;                    ///< somebody joined since that was judged last
  std::optional<int64_t> asked_to_grow_ns;  ///< in this epoch
  std::optional<membership_policy> membership;
  std::optional<liveness_policy> liveness;
  std::map<uint32_t, member> members;  ///< by index of the node, spares too
  train::device_choice devices;        ///< once ranks are assigned
  std::vector<stage_actor> stages;  ///< by rank
  size_t assigned = 0;
  std::string layers;  ///< of each stage, as measured here or by a head before; empty: as planned
  bool assigning = false;
  bool ready = false;                   ///< every rank has its stage: the run begins
  bool recovering = false;              ///< this epoch is not the first
  places_policy places;
  evictions_policy evictions;
  std::set<std::string> leaving;  ///< drained: they leave their places with the next epoch
  std::map<std::string, bool> ordered_out;  ///< they too, at once; whether they are evicted
  bool stopping = false;                    ///< the run was told to make no step more
  launches_policy launches{std::chrono::nanoseconds(defaults::launches_forgotten).count(),
                           std::chrono::nanoseconds(defaults::launch_doubt).count()};
  std::vector<uint8_t> remembered;  ///< what the journal was told last, as a message
  uint32_t first_epoch = 0;         ///< of this coordinator
  returns_policy returns;
  std::set<std::string> unreachable;       ///< silent nodes whose hosts do not answer either
  std::map<std::string, uint32_t> fallen;  ///< the process that was lost last, by node
  std::map<uint32_t, size_t> rows;      ///< of the status, by index of the node
  uint32_t elected = 0;    ///< the epoch that a majority has promised (CRD-18)
  int64_t elected_ns = 0;  ///< when it did so last
  std::optional<int64_t> first_asked_ns;  ///< a majority, by this coordinator
  bool electing = false;   ///< votes are being counted
  bool to_suspend = false;  ///< nodes still run the epoch before
  bool told_minority = false;
  std::optional<std::string> pacer_ended;  ///< how; the run ends for it
  bool ended = false;
  int64_t started_ns = 0;  ///< the epoch
  int64_t ended_ns = 0;
  bool heads_to_hear = false;  ///< that the job is over: they have not all said that they know
  std::string config_toml;
  ingress_counts ingress;  ///< as last shown
};

/// Who stands in the record as committer, replicator and run takes that part, as in a replay or a
/// test; each other one is spawned. `storage` is of the checkpoints and outlives the cluster.
coordinator_actor::behavior_type coordinator(coordinator_pointer self, train::spawn_record record,
                                             io::storage* storage = &io::local_storage());

}  // namespace troupe::cluster
