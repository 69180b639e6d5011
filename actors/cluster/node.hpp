// The node: one process of the cluster. Joins the coordinator, takes ranks, beats, and goes when
// the coordinator says so or is gone.
//
// Invariants
//   NOD-1  A node whose coordinator is lost (link broken, or no answer to heartbeats within the
//     dead time) ends itself: no orphan computes. Where the link broke and the job recovers, it
//     waits first (NOD-7).
//   NOD-2  A node takes no ranks while it has some. It leaves an epoch by Suspend, which is
//     answered when none of the actors of its ranks is left, nor a thread of theirs; its process,
//     its devices and its companions stay. Suspend in the epoch itself (CRD-24) is the same: others
//     are given to it then.
//   NOD-3  However the actor ends, what it spawned ends with it, and `ended` is told once.
//   NOD-4  A process that has lost a device for good does not go into another epoch: it ends, and
//     another one takes its place.
//   NOD-5  What a test of pairs sends comes back at once, at most 256 KiB of it.
//   NOD-6  A node takes no ranks before its check at join (health.checkup_at_join), and ends
//     where that finds wrong bits. It is done without a check that takes longer than
//     defaults::join_checkup_patience, which is far less than its ranks are waited for.
//   NOD-7  For recovery.head_grace_s a node keeps what it holds (process, devices, copies in
//     memory) and knocks where its coordinator was: its ranks finish what they were asked. Once
//     another coordinator answers there they end, and when nothing of them is left the node joins
//     as any other, in that one's epoch. Who is refused ends. Where the job has several heads
//     (cluster.heads) it knocks at one after the other, also where its own does not answer any
//     more, and joins the one that acts in no older epoch than its voter has promised.
//   NOD-8  While it has a head its voter promises nothing to another (actors/heads): nobody
//     deposes a head that its nodes hear. A node that others than the job have started has a voter.
//   NOD-9  Where there are several heads it takes orders of its own alone: one that wakes up may
//     think that this node is still, or not any more, its own.
//   NOD-10  A swapper ends when its worker is gone, whose engine has files in its folder.
//   NOD-11  What a layer takes is measured by a thread of the host's, one at a time: who asks
//     the same meanwhile gets the same answer; another question waits, and is measured behind it.
//   NOD-12  Before it takes ranks its machine is probed, once in its life (predict.probe), where
//     the host's processors are to compute, no rank swaps and no budget is kept: nothing of the
//     job computes by then. It is done without probes that fail, or take longer than
//     defaults::probe_patience, which with NOD-6 is less than its ranks are waited for; from then
//     on nothing more is begun. Where a prior is to be asked (predict.prior) it tells what its
//     machine is without probes, too.
//
// Failure policy: the death of one of its actors means what its contract says (on_death): the node
// ends with that reason, which the coordinator sees, or does without it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <caf/actor.hpp>

#include "actors/base/completion_queue.hpp"
#include "actors/base/traced.hpp"
#include "actors/cluster/clock_estimator.hpp"
#include "actors/cluster/host.hpp"
#include "io/base/error_kind.hpp"
#include "io/config/job.hpp"
#include "io/perf/hw_profile.hpp"
#include "messages/actors.hpp"
#include "messages/receive.hpp"

namespace troupe::cluster {

struct node_state;
using node_pointer = traced_pointer<node_actor, node_state>;

/// Why a node ends: it did not find its coordinator (where, why, what to do), lost it, or was
/// killed; and its answer where it is given ranks twice (NOD-2).
inline constexpr error_kind<std::string_view, uint16_t, std::string_view, std::string_view>
    no_coordinator{"no_coordinator", errc::unavailable, "no coordinator at {0}:{1}: {2}", "{3}"};
inline constexpr error_kind<> coordinator_lost{"coordinator_lost", errc::unavailable,
                                               "the coordinator is lost"};
inline constexpr error_kind<int64_t> coordinator_silent{
    "coordinator_silent", errc::unavailable, "the coordinator has not answered for {} ms"};
inline constexpr error_kind<> node_killed{"node_killed", errc::cancelled,
                                          "the node's actor was killed"};
inline constexpr error_kind<std::string_view> device_lost{"device_lost", errc::unavailable,
                                                          "this process lost its device: {}"};
inline constexpr error_kind<std::string_view> has_ranks{"has_ranks", errc::bug,
                                                        "node {} has ranks already"};

inline constexpr error_kind<> suspended{"suspended", errc::cancelled, "another epoch has begun"};
/// Why a node takes no part in a job that has drills ([[inject]]).
inline constexpr error_kind<std::string_view> makes_no_drills{
    "makes_no_drills", errc::bad_config,
    "the job has drills, faults that it makes itself, and node {} was not told to take part",
    "start it with --allow-injection, or leave [[inject]] out of the job"};
/// NOD-8, and its answer where it has no vote.
inline constexpr error_kind<std::string_view> has_head{
    "has_head", errc::unavailable, "node {} has a head: it votes for no other"};
inline constexpr error_kind<std::string_view> no_voter{"no_voter", errc::unavailable,
                                                       "node {} has no vote"};
/// NOD-9.
inline constexpr error_kind<std::string_view> not_its_head{
    "not_its_head", errc::unavailable, "node {} follows another head"};
/// It is asked for a test of a group, and nothing examines its machine.
inline constexpr error_kind<std::string_view> no_medic{"no_medic", errc::unavailable,
                                                       "node {} has no medic"};
/// Why a node takes no ranks: which checks of its machine were bad.
inline constexpr error_kind<std::string_view, std::string_view> wrong_bits{
    "wrong_bits", errc::unavailable, "the machine of node {} computes or holds wrong bits: {}",
    "`troupe doctor --local --deep` there shows more; health.checkup_at_join = false lets it in"};

struct node_options {
  std::string name;
  std::string coordinator_host;
  uint16_t coordinator_port = 0;
  std::string advertise;  ///< address other nodes reach this one at
  int64_t join_timeout_ms = 30'000;
  /// Of this process. Weak: CAF keeps a copy of these options for as long as anything refers to the
  /// node, a timer that will not run any more among it, and waits for detached actors at the end.
  caf::weak_actor_ptr observer;
  /// Told once, on the actor's thread, why the node ended; code none for an orderly end.
  std::function<void(const error&)> ended;
  std::shared_ptr<cluster::host> host = this_host();
  /// The network: understands publish_atom and connect_atom as CAF's middleman does, which is meant
  /// where it is empty.
  caf::actor connector = {};
  std::vector<std::string> accelerators = {};  ///< names of the GPUs this process may use
  bool probes = false;                         ///< its machine, where the job wants that (NOD-12)
  bool makes_drills = false;                   ///< else it takes no part in a job that has any
  /// Where else its coordinator may be, in turn: HOST:PORT. The job's own (cluster.heads) once it
  /// has joined.
  std::vector<std::string> heads = {};
};

/// Who is answered once nothing of an earlier epoch is left.
struct asked_to_suspend {
  caf::typed_response_promise<msg<fbs::Suspended>> promise;
  message_header cause;
};

/// What it is to take, and who waits for it.
struct asked_to_assign {
  caf::typed_response_promise<msg<fbs::Assigned>, std::vector<caf::strong_actor_ptr>> promise;
  msg<fbs::Assign> assign;
};

/// Who waits for what a layer takes.
struct asked_to_measure {
  caf::typed_response_promise<msg<fbs::LayersMeasured>> promise;
  message_header cause;
  layers_to_measure of;
};

/// NOD-12.
struct node_probing {
  bool under_way = false, over = false;
  int64_t begun_ns = 0;
  double took_s = 0;
  std::stop_source stop = {};
  std::function<void()> then = {};  ///< once it is over
  std::optional<io::perf::hw_profile> profile = {};
};

/// An actor that is there for as long as the node, whatever its ranks are: its meter, its medic.
struct companion {
  std::string_view kind;  ///< its contract's, which says what its death means
  caf::strong_actor_ptr actor;
};

struct node_state {
  static inline const char* name = "node";
  node_options options;
  uint16_t port = 0;  ///< own published port
  coordinator_actor coordinator;
  uint32_t index = 0;
  std::shared_ptr<const config::job> job;  ///< since it has joined
  int64_t answered_ns = 0;  ///< when the coordinator last answered
  int64_t first_try_ns = 0;
  int64_t try_for_ms = 0;  ///< since then
  bool rejoins = false;    ///< it has lost its coordinator and looks for the next (NOD-7)
  bool greets = false;     ///< it says Hello once nothing of its ranks is left
  size_t head = 0;         ///< of options.heads: where it knocks next
  voter_actor voter;       ///< a companion; none: it has no vote (NOD-8)
  uint32_t promised = 0;   ///< the latest epoch that this has promised
  uint64_t beats = 0;
  clock_estimator clock;
  fbs::NodeState doing = fbs::NodeState::joining;
  bool over = false;
  std::stop_source going;  ///< of the node: its loader hears no message while it tokenises
  loader_actor loader;
  std::vector<companion> companions;  ///< one of a kind at most
  meter_actor meter;                  ///< the same; none: it reads none
  vitals_actor vitals;    ///< the companion that heartbeats quote; none: there is nothing to sample
  bool checking = false;  ///< its machine, before it takes ranks (NOD-6)
  std::optional<asked_to_assign> assignment;  ///< meanwhile
  std::vector<asked_to_measure> measurements;  ///< what the first asked is measured (NOD-11)
  std::shared_ptr<completion_queue> measured;  ///< how its end comes here
  node_probing probing;                        ///< of its machine
  std::stop_source examining;   ///< of the medic, which hears no message while it examines
  std::vector<uint32_t> ranks;  ///< those of stages and workers, in their order
  std::vector<stage_actor> stages;
  std::vector<worker_actor> workers;
  std::vector<swapper_actor> swappers;  ///< of those, null where all is in memory
  /// What ends behind an actor of an earlier epoch: a worker's swapper (NOD-10).
  std::map<caf::actor_addr, swapper_actor> behind;
  std::set<caf::actor_addr> leaving;  ///< actors of an earlier epoch that have not ended (NOD-2)
  std::vector<asked_to_suspend> suspensions;

  ~node_state();
};

node_actor::behavior_type node(node_pointer self, node_options options);

}  // namespace troupe::cluster
