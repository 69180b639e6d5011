// The observer: the actor that looks at one process. It reads the registry and the flight recorder
// and never waits for an actor, so it answers for those that are busy, stuck or dead.
//
// Messages: ListActors, CallActor, KillActor, SetLogLevel, DumpBlackBox, TraceStart, TraceMore,
// TraceStop from the gateway.
//
// Invariants
//   OBS-1  A subscription ends by itself: at its limit, when its lease is not renewed, or when its
//     viewer is gone; the viewer is told why where it can be. A viewer of whom nothing is to be
//     shown gets an empty batch twice a lease, so that he asks for more.
//   OBS-2  At most `subscription_limit` at a time; without credit from the viewer records are
//     dropped and counted, never kept.
//   OBS-3  Every call it passes on has a finite timeout and ends in one answer.
//   OBS-4  An actor that dies of an error leaves a black box, but at most `box_limit` of them and
//     one in defaults::black_box_pause: a process that dies all over writes once.
//   OBS-5  It gives no actor a message that only nodes send (messages/contract.hpp, CON-4), whoever
//     asks for it.
//
// Failure policy: do without it; a process whose observer died trains on unobserved.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "actors/base/traced.hpp"
#include "actors/capture/filter_policy.hpp"
#include "messages/actors.hpp"

namespace troupe::trace {

struct observer_options {
  std::string node = "head";  ///< the name of this process's node
  std::string host;           ///< the host it runs on
  std::string black_box_dir;  ///< where black boxes are written; empty: nowhere
};

/// One view of this process.
struct subscription {
  subscription(caf::strong_actor_ptr to, filter_policy wanted, record_reader from)
      : viewer(std::move(to)), filter(std::move(wanted)), reader(std::move(from)) {}

  caf::strong_actor_ptr viewer;
  filter_policy filter;
  record_reader reader;
  bool payloads = false;
  uint32_t credits = 8;  ///< batches the viewer can take
  uint64_t sequence = 0;
  uint64_t dropped = 0;  ///< for want of credit
  int64_t lease_ns = 0;
  int64_t until_ns = 0;
  int64_t said_ns = 0;                 ///< when the viewer was last sent anything
  std::unordered_set<uint32_t> named;  ///< actors the viewer knows already
};

struct observer_state {
  static inline const char* name = "observer";
  static constexpr size_t subscription_limit = 8;
  static constexpr uint64_t box_limit = 16;

  observer_options options;
  runtime* in = nullptr;  ///< of the process it looks at
  std::map<uint64_t, subscription> views;
  bool ticking = false;
  struct rate {
    uint64_t handled = 0;
    int64_t at_ns = 0;
    double per_s = 0;
  };
  std::unordered_map<uint64_t, rate> rates;  ///< by key
  uint64_t black_boxes = 0;
  int64_t last_box_ns = 0;

  ~observer_state();
};

observer_actor::behavior_type observer(traced_pointer<observer_actor, observer_state> self,
                                       observer_options options);

}  // namespace troupe::trace
