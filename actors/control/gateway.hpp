// The gateway: the one actor that a person's tools speak to. It knows the observer of every
// process, asks them all, passes on what a person says, and keeps the audit log.
//
// Messages: Observe from the coordinator; ListActors, CallActor, KillActor, SetLogLevel,
// DumpBlackBox, DrainNode, TraceStart/More/Stop from tools; TraceBatch from observers.
//
// Invariants
//   GTW-1  A question to many processes is answered within `patience`, whoever is silent: what a
//     silent process said last is told, with how long ago.
//   GTW-2  Whatever changes state stands in the audit log with time, who and what before it is
//     passed on, and with its result before its answer goes out.
//   GTW-3  A view belongs to one viewer; when that goes, every observer is told to stop. Another's
//     certificate neither stops it nor feeds it, by a message that a CallActor carries either. It
//     is told of a process that goes where it had begun, and is forgotten when it is over at all.
//   GTW-4  What the gate refused in this process, to whatever actor, stands in the audit log, too.
//   GTW-5  Nothing that only nodes say to each other is passed on (messages/contract.hpp, CON-4),
//     whoever asks for it; that he asked stands in the audit log.
//   GTW-6  A command that cannot be written there is refused, and the status says why; pause, stop
//     and drain are done all the same.
//   GTW-7  Where a person's kill ends a node's process, the coordinator hears so, and of whom, as
//     soon as that process has taken it.
//   GTW-8  A setting that an actor has taken is told to whoever keeps the run's log, with who set
//     it, before he is answered.
//
// Failure policy: do without it; training goes on unobserved.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/base/traced.hpp"
#include "actors/control/audit.hpp"
#include "io/base/error_kind.hpp"
#include "messages/actors.hpp"

namespace troupe::trace {

/// A command is not done since it could not be recorded (GTW-6): why. Its code is the log's.
inline constexpr error_kind<std::string_view> audit_unwritten{
    "audit_unwritten", errc::io, "refused, since the audit log cannot be written: {}",
    "make room where the job's output lies; pause, stop and drain are done anyway"};

/// A person has set something, and an actor has taken it.
struct setting_taken {
  std::string key, value, who;
  uint64_t first_step = 0;  ///< that uses it; 0: none is named
};

struct gateway_options {
  std::string job;          ///< its name
  uint32_t epoch = 1;
  std::string audit_path;   ///< JSON lines, appended to; empty: none is kept
  /// The wall clock as text, for the audit log.
  std::function<std::string()> wall_time;
  std::function<void(const setting_taken&)> set = {};  ///< GTW-8; may be empty
  /// GTW-9; waits for nothing; may be empty.
  std::function<void(fbs::ClusterViewT)> shown = {};
  /// The audit log, where others write it, too; they hear of refusals (GTW-4). Empty: one of its
  /// own at `audit_path`.
  std::shared_ptr<audit_log> audit = {};
  static constexpr int64_t shown_each_ns = 5'000'000'000;
};

/// A process the gateway knows.
struct observed {
  fbs::ObserveT facts;
  observer_actor handle;
  int64_t heard_ns = 0;
  fbs::ActorListT last;  ///< what it said last of all its actors
};

/// A view that somebody looks at.
struct open_view {
  viewer_actor viewer;
  std::map<uint32_t, bool> senders;  ///< by process, where it is not over: whether it has begun
};

struct gateway_state {
  static inline const char* name = "gateway";

  gateway_options options;
  peer_book* peers = nullptr;     ///< whose refusals it hears of (GTW-4)
  coordinator_actor coordinator;  ///< who told of the processes
  std::map<uint32_t, observed> processes;  ///< by their number; not those that have gone
  std::map<uint64_t, open_view> views;     ///< by subscription
  bool ticking = false;
  std::optional<int64_t> shown_ns;  ///< when the cluster was shown last
  std::shared_ptr<audit_log> audit;

  ~gateway_state();
};

gateway_actor::behavior_type gateway(traced_pointer<gateway_actor, gateway_state> self,
                                     gateway_options options);

}  // namespace troupe::trace
