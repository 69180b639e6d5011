// What the coordinator's files share: members and epochs (coordinator.cpp), places and ranks
// (coordinator_ranks.cpp), how many replicas there are (coordinator_replicas.cpp), what persons say
// (coordinator_orders.cpp), what a next head must know (coordinator_memory.cpp), which head acts
// (coordinator_heads.cpp), what is shown (coordinator_shown.cpp). For these alone; its invariants
// stand in coordinator.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actors/cluster/coordinator.hpp"

namespace troupe::cluster::coordinating {

message_context context(coordinator_pointer self);
void say(coordinator_pointer self, std::string text,
         fbs::NoticeLevel level = fbs::NoticeLevel::info);
/// Who has joined, with what it is (JoinedNode).
void say_joined(coordinator_pointer self, const member& who, bool is_spare);
/// The run ends without having begun, or gone on.
void give_up(coordinator_pointer self, const error& why);
void let_observe(coordinator_pointer self, const member& who, std::string ranks);
/// Two machines of one name: whoever looks for either comes to one of them.
void warn_of_shared_name(coordinator_pointer self, const member& who);
/// What the status says.
void show(coordinator_pointer self);
/// CRD-7.
void watch_ingress(coordinator_pointer self);

/// How a node was lost.
struct loss {
  std::string how;  ///< a sentence without its name
  std::string_view finding = "dead_process";
  int64_t silent_ns = 0;
  bool worded = false;  ///< who started its process says so
};
void node_lost(coordinator_pointer self, const std::string& name, const loss& what);
/// A process of a node that is not there, if the job starts its processes itself.
void launch(coordinator_pointer self, const std::string& name, const std::string& how);
bool has_launcher(const coordinator_state& st);
/// The node that has joined by this name, gone or not; null: none has in this epoch.
member* member_named(coordinator_state& st, std::string_view name);
/// Whether a node has joined and lives.
bool is_there(const coordinator_state& st, uint32_t node);

// -- places and ranks -----------------------------------------------------------------------------

/// A place that is waited for (CRD-1): everybody is there and quiet, and no ranks are given out.
bool may_assign(const coordinator_state& st);
void assign_ranks(coordinator_pointer self);
/// Whether a node has a place of the plan; false for a name that is not known.
bool has_place(const coordinator_state& st, std::string_view name);
/// The stages have these layers from now on (CRD-22), and, unless it is empty, the nodes that order
/// in the job (CRD-24); false: they are none, and it has given up.
bool use_layers(coordinator_pointer self, const std::string& layers, const std::string& order = {});
/// Nodes that live and have no place.
std::vector<spare_node> spares_of(const coordinator_state& st);
/// The same, if the places were these.
std::vector<spare_node> spares_of(const coordinator_state& st, const places_policy& places);
/// Those whose node is not there, and the names of these nodes for a person.
std::vector<uint32_t> lost_places(const coordinator_state& st);
std::string missing_from_places(const coordinator_state& st);
/// CRD-11: spares come into the places of nodes that are gone; those that are unreliable are
/// evicted then.
void fill_places(coordinator_pointer self);
/// Those that were lost again and again are not waited for once it goes on without them (CRD-12).
void evict_if_unreliable(coordinator_pointer self, const std::string& name);

// -- replicas -------------------------------------------------------------------------------------

/// CRD-17: in a recovery that has not given ranks out yet, the largest smaller number of replicas
/// that has nodes. False: there is none, or the job wants none. `why`: a sentence.
bool go_on_with_fewer(coordinator_pointer self, const std::string& why);
/// The number that there would be if a node with a place left, where no spare could come into it.
std::optional<int64_t> replicas_without(const coordinator_state& st, uint32_t node);
/// What is there for more replicas is used by the epoch that begins.
void grow_back(coordinator_pointer self);
/// While steps are made: asks the run to make room for more.
void ask_to_grow(coordinator_pointer self);
/// Takes over how many there were.
void recall_replicas(coordinator_pointer self, int64_t replicas);

// -- a lost head ----------------------------------------------------------------------------------

/// Tells the journal of places and evictions, where they have changed (CRD-15).
void remember(coordinator_pointer self);
/// Of the nodes: who joined a head before by another name is known by it; where they are the same,
/// they have the order of this job.
std::vector<std::string> names_by_index(const coordinator_state& st);
/// What the head before kept.
void recall(coordinator_pointer self, const fbs::ClusterMemoryT& memory);

// -- several heads --------------------------------------------------------------------------------

/// Whether this head follows one that was lost.
bool goes_on(const coordinator_state& st);
/// Whether this head may act in its epoch (CRD-18).
bool is_elected(const coordinator_state& st);
/// Has voters promise, where they have to again by now.
void elect(coordinator_pointer self);
/// Nodes end what they run of the epoch before, once this head may act in the new one.
void suspend_once_elected(coordinator_pointer self);
/// Votes, and who looks for a head, are the elector's.
caf::result<msg<fbs::HeadFound>> find_head(coordinator_pointer self, const msg<fbs::FindHead>& m,
                                           const caf::strong_actor_ptr& asker);
caf::result<msg<fbs::Promised>> promise(coordinator_pointer self,
                                        const msg<fbs::PromiseEpoch>& m);
caf::result<msg<fbs::Promised>> hold(coordinator_pointer self, const msg<fbs::HoldRecord>& m);
/// The job is over (CRD-19).
void tell_heads(coordinator_pointer self, const std::string& reason);

/// Has nodes end what they run of the epoch before.
void suspend(coordinator_pointer self);
/// Goes once nothing is left to wait for (CRD-3).
void quit_when_alone(coordinator_pointer self);
/// Looks after all that is due.
void tick(coordinator_pointer self);

// -- persons --------------------------------------------------------------------------------------

caf::result<msg<fbs::GatewayFound>, caf::strong_actor_ptr> find_gateway(
    coordinator_pointer self, const msg<fbs::FindGateway>& m);
caf::result<msg<fbs::Ack>> drain(coordinator_pointer self, const msg<fbs::DrainNode>& m);
caf::result<msg<fbs::Ack>> evict(coordinator_pointer self, const msg<fbs::EvictNode>& m);
caf::result<msg<fbs::Ack>> admit(coordinator_pointer self, const msg<fbs::AdmitNode>& m);
caf::result<msg<fbs::Ack>> replace(coordinator_pointer self, const msg<fbs::ReplaceNode>& m);
msg<fbs::Spares> list_spares(coordinator_pointer self, const msg<fbs::SparesRequest>& m);
/// The run makes no step more, as far as it was told so.
void stop(coordinator_pointer self, const msg<fbs::StopTraining>& m);
/// CRD-21. `why`: a sentence.
void take_sick_out(coordinator_pointer self, const std::string& name, const std::string& why);
/// Those that persons took out at once leave their places; before the epoch begins (CRD-13).
void take_out(coordinator_pointer self);
/// Those that were drained leave the places that spares can take; before the epoch begins.
void let_leave(coordinator_pointer self);
/// Those that could not leave yet are asked for again, once their ranks are given out.
void release_again(coordinator_pointer self);

}  // namespace troupe::cluster::coordinating
