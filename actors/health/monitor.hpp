// The monitor: hears how every node is, and says what is wrong and who it is, before anybody's
// time-out. In the head.
//
// Messages: Hello and Heartbeat from the coordinator, which passes on those of the cluster's nodes;
// FindingsRequest from whoever looks; from the run IncidentReport, when it has decided what is done
// about a fault (Evidence, what stands then, goes to the reporter), FindingTold, and StepDone of
// every rank, which it passes on; Suspect from the predictor. ListActors to the gateway, where no
// rank moves: the wait graph of the answer names whom the others wait for; CallActor, where a
// suspect's medic is to examine its machine, or two are to test the way between them. Notice to the
// reporter, of what is raised. Leave and FindingTold to the coordinator.
//
// Invariants
//   MON-1  It finds and changes nothing: what is done about a finding is decided elsewhere. Of a
//     rank that holds up all others for recovery.stuck_after_s the coordinator is told, once while
//     it does, that its node is to be taken for lost; never on the word of a log. So it is of a
//     node that is slow for long, where recovery.evict_slow says so (slow_evictions_policy.hpp).
//   MON-2  One question about who waits is open at a time; its answer counts only if the training
//     has not moved since it was asked.
//   MON-3  What the run is at it reads from the registry, which never waits for the run.
//   MON-4  Evidence is of a bounded size, however large the cluster is.
//   MON-5  What the run tells of stands until the run takes it back.
//   MON-6  The machine of a node that a finding accuses is examined by its medic, seldom
//     (suspicion_policy.hpp); what that shows is told, and stands in the finding.
//   MON-7  Where ranks wait for each other, or for somebody in another process who waits for
//     nobody, pairs of their nodes and of others are tested (link_policy.hpp) before anybody is
//     told of: of a link that is sick at one end it is that end's node, else whom the wait graph
//     names. Each test has a time limit, and nobody is asked
//     who waits meanwhile: the medics do, for each other.
//   MON-8  A node that is silent is a frozen process or a lost host, as its host answers or not
//     (host_reach.hpp); neither is said before that is known. Of a lost host the coordinator is
//     told, for its word about the node.
//   MON-9  The links of a node that was lost over one are tested when it comes back
//     (returned_policy.hpp). Of one that is sick still the coordinator is told.
//   MON-10 A rank whose part of a step takes longer than it did, or than on its peers, is told of
//     (blame_policy.hpp) by whole steps alone, and by none that were not as others are.
//   MON-11 What the predictor expected of such a part by what it learned stands in the finding; it
//     makes none, and takes none back: without a predictor the same findings stand. A part that
//     takes far longer than its node's own probes allow, or than in all earlier runs, is one where
//     nothing else was found of the rank, and for as long as the predictor lives, which alone says
//     when it is over (doubts_policy.hpp). Where most ranks take longer than ever it is the job.
//
// Failure policy: done without. Training goes on, unwatched.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/health/blame_policy.hpp"
#include "actors/health/doubts_policy.hpp"
#include "actors/health/evidence_policy.hpp"
#include "actors/health/findings_policy.hpp"
#include "actors/health/host_reach.hpp"
#include "actors/health/link_policy.hpp"
#include "actors/health/log_findings_policy.hpp"
#include "actors/health/regression_policy.hpp"
#include "actors/health/returned_policy.hpp"
#include "actors/health/step_windows_policy.hpp"
#include "actors/health/straggler_policy.hpp"
#include "actors/health/stuck_policy.hpp"
#include "actors/health/suspicion_policy.hpp"
#include "io/config/job.hpp"
#include "messages/actors.hpp"

namespace troupe::health {

/// Nodes whose vitals are part of the evidence of a fault (MON-4).
inline constexpr size_t most_vitals_kept = 64;
/// Waits of a graph that is part of it, and entries of each other list of the graph.
inline constexpr size_t most_waits_kept = 256;
inline constexpr size_t most_culprits_kept = 16;

struct monitor_options {
  config::job job;
  uint32_t epoch = 0;
  gateway_actor gateway;  ///< there is one
  reporter_actor reporter;
  host_asker ask_host = {};  ///< none: of a silent node nobody knows whether its host is there
};

struct monitor_state {
  static inline const char* name = "monitor";
  monitor_options options;
  stuck_policy progress;
  findings_policy findings;
  evidence_policy evidence;
  struct last_word {
    msg<fbs::Heartbeat> said;
    int64_t heard_ns = 0;
  };
  std::map<std::string, last_word> heard;  ///< by node
  log_findings_policy logs;
  step_windows_policy steps;
  straggler_policy stragglers;
  regression_policy regression;
  blame_policy blames;
  doubts_policy doubts;
  std::map<std::string, std::string> machine_kinds;  ///< by node, of its hardware
  suspicion_policy suspicions;
  link_policy links, returned_links;
  returned_policy returned;
  silent_hosts hosts;
  std::vector<std::string> nodes;  ///< names by index
  coordinator_actor coordinator;   ///< whose heartbeats came
  std::set<std::string> told_of;   ///< nodes whose ranks hold up all others
  bool asking = false;             ///< who waits for whom (MON-2)
  int64_t asked_ns = 0;
  uint64_t questions = 0;
  uint64_t step = 0;  ///< that every rank has finished
  bool trains = false, saves = false;  ///< the run, when it was looked at last
  bool stands_still = false;           ///< no rank's counter moves
  std::optional<uint64_t>
      first_step;  ///< the step that the run had finished when it was seen first
};
using monitor_pointer = traced_pointer<monitor_actor, monitor_state>;

monitor_actor::behavior_type monitor(monitor_pointer self, monitor_options options);

}  // namespace troupe::health
