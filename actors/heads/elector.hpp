// The elector: what each head of a job with several (cluster.heads) has, be it the one that acts or
// one that stands by. It has a vote itself (vote_store.hpp), knows how to reach the other voters,
// and counts what they say.
//
//   head that acts: coordinator --Elect(epoch)--> elector --PromiseEpoch--> voters   a new epoch
//                   run         --Elect(epoch)--> the same                           a commit
//                   journal     --ShareRecord-->  elector --HoldRecord-->   voters   a decision
//   standby:        elector --PromiseEpoch--> voters, then `decided`: its process becomes the head
//
// Who reaches whom: nodes knock at heads; of two heads the one that stands later in the list knocks
// at the other, since CAF breaks links where two processes knock at each other. Who was found is
// asked every `defaults::heads_period` how it is.
//
// Messages: FindHead from other heads and nodes, PromiseEpoch and HoldRecord from other heads (all
// by way of the coordinator where there is one, which is what others find at this address); Elect,
// ShareRecord, HeadEnds from coordinator, run and journal of the same process; HeadEnds from the
// head that acts, too.
//
// Invariants
//   ELC-1  Elect is answered once more than half of all voters have promised that epoch (0: the
//     one that was asked for last) to this head, each asked anew; with `outvoted` where they
//     cannot, with `no_majority` where they did not within defaults::round_patience.
//   ELC-2  Before the first Elect of a head that goes on for another is answered, what that one
//     decided is held by a majority under the new epoch: it acts by nothing that the next head may
//     not find.
//   ELC-3  A standby decides once: that it acts, that the job is over, or that it is none of this
//     job's heads. The head that acts says that the job is over to each head within reach and
//     waits until they have heard it, or cannot.
//   ELC-4  Its own vote is given as any other, but to nobody else while this head acts, or hears
//     one that does (TKO-4).
//   ELC-5  A standby gives itself its own vote last: one that is cut off from the head that acts
//     alone wins nobody, and still follows that one when it is back.
//   ELC-6  A standby whose settings are not those of the head that acts is none of the job's: it
//     could not go on with the same training (same_job.hpp).
//   ELC-7  A standby that hears of no head that acts says so, ever less often (waiting_policy.hpp),
//     and looks whether the job has ended while it was not there (end_of_job).
//
// Failure policy: a voter that does not answer is asked again until the round is over. Where its
// own vote cannot be kept it has none.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/heads/majority_policy.hpp"
#include "actors/heads/same_job.hpp"
#include "actors/heads/takeover_policy.hpp"
#include "actors/heads/vote_store.hpp"
#include "actors/heads/waiting_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/config/job.hpp"
#include "messages/actors.hpp"

namespace troupe::heads {

/// A majority follows another head, or has promised it a later epoch.
inline constexpr error_kind<uint32_t, std::string_view> outvoted{
    "outvoted", errc::unavailable, "epoch {} is promised to the head at {}"};
/// Too few voters answer: how many did, of how many, how many are needed.
inline constexpr error_kind<size_t, size_t, size_t> no_majority{
    "no_majority", errc::unavailable, "{} of {} voters answer, {} are needed",
    "voters are the heads of cluster.heads and, where a scheduler starts them, the nodes"};

/// What a standby begins with that is to act.
struct won_epoch {
  uint32_t epoch = 0;
  held_records held;          ///< what heads before have decided
  std::string lost_head;      ///< who acted last, an address; empty: nobody was heard of
  std::string how;            ///< it was lost: a sentence without its subject
  int64_t lost_ns = 0;        ///< when it was heard last
  int64_t clock_ahead_ns = 0;  ///< of this machine's clock over that head's
  uint64_t step = 0;          ///< the last that a node finished
  size_t voters = 0;          ///< that promised
};

struct elector_options {
  std::string name;                  ///< this head's address in cluster.heads
  config::cluster_section cluster;
  std::filesystem::path output;
  shared_settings settings = {};     ///< ELC-6; empty: they are not compared
  uint32_t acting = 0;               ///< the epoch that it acts in; 0: it stands by
  held_records begins_with = {};     ///< ELC-2
  takeover_policy::rules takeover = {};
  std::function<void(const won_epoch&)> decided = {};        ///< by a standby, once
  std::function<void(const std::string& reason)> over = {};  ///< told to a standby, once
  std::function<void(const error&)> refused = {};  ///< told to a standby, once (ELC-6)
  /// Asked by a standby that hears of no head that acts: how the job has ended, if it has (ELC-7).
  std::function<std::optional<std::string>()> has_ended = {};
  std::function<void(std::string)> tell = {};  ///< a standby's words to a person
  io::file_system* files = &io::local_files();
  /// Makes connections: understands connect_atom as CAF's middleman does.
  std::function<caf::actor(caf::actor_system&)> connector = {};
  /// Told of an address before it is connected to.
  std::function<void(const std::string& host, uint16_t port)> expect = {};
};

/// Another head.
struct other_head {
  std::string name;
  bool knocks = false;  ///< it knocks at this one, else this one at it
  elector_actor handle = {};
  bool asked = false;   ///< an answer, or a connection, is under way
  int64_t knock_ns = 0;  ///< when to knock again
  uint32_t epoch = 0;   ///< that it said it acts in
  int64_t heard_ns = 0;
  int64_t ahead_ns = 0;  ///< of this machine's clock over its
};

/// A round of votes.
struct vote_round {
  uint32_t epoch = 0;
  std::optional<held_record> record;  ///< none: the epoch is to be promised
  majority_policy votes;
  std::set<std::string> asked;  ///< whose answers are under way
  int64_t until_ns = 0;
  std::function<void(const status&)> done;
};

struct elector_state {
  static inline const char* name = "elector";
  elector_options options;
  std::vector<std::string> voters;
  std::optional<vote_store> votes;
  std::vector<other_head> heads;
  std::map<std::string, voter_actor> nodes;  ///< those that have been heard of, and live
  uint64_t step = 0;
  uint32_t acting = 0;
  uint32_t wanted = 0;  ///< the latest that this head has asked for, to act in
  bool open = false;  ///< nodes may join
  uint64_t records = 0;
  held_records to_hold;  ///< ELC-2
  std::optional<takeover_policy> takeover;
  std::optional<waiting_policy> waiting;
  std::vector<std::shared_ptr<vote_round>> rounds;
  std::string last_acting, lost_how;  ///< of a standby
  int64_t last_heard_ns = 0, last_ahead_ns = 0;
  bool decided = false;
  std::optional<msg<fbs::HeadEnds>> over;  ///< told to each head that asks, while this one is there
};

elector_actor::behavior_type elector(traced_pointer<elector_actor, elector_state> self,
                                     elector_options options);

}  // namespace troupe::heads
