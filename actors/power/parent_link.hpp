// The pacer's link to the power budget above its job: finds it, connects, reports each second how
// the job is, and hears what it may draw.
//
// Why: the budget is another process, which may begin after the job, end before it and come back
// at another address. So it is looked for anew after each failure, and until it has granted
// something no step begins; what holds between two answers is the lease's (job_lease_policy.hpp).
//
// Messages: PowerReport to the budget, which answers PowerGrant; CheckpointNow to the run; Notice
// to the reporter.
//
// Invariants
//   PPL-1  One call is under way at most, a connection or a report, and what comes of an earlier
//     one is not heard.
//   PPL-2  A process proves itself as the job before it connects, and connects to where it found
//     the budget last. The proof ends with the link: the port may be another's next.
//   PPL-3  A person is told once why the budget is not heard, until it has been heard again; once
//     that a lease has lapsed, and once that there is one again.
//   PPL-4  A run that is to pause is asked for a checkpoint first, once each time, if it has made
//     steps: it is of the end of the step under way (PWR-2). No pause waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include "actors/base/traced.hpp"
#include "actors/power/job_lease_policy.hpp"
#include "io/base/result.hpp"
#include "io/tls/keyring.hpp"
#include "messages/actors.hpp"

namespace troupe::power {

/// Where a budget is, and how a job proves itself to it.
struct budget_parent {
  std::string name;  ///< empty: it is not known before it answers
  std::string host;
  uint16_t port = 0;
  tls::proof proof;
};

struct parent_options {
  std::string named;         ///< power.parent
  uint64_t incarnation = 0;  ///< greater than that of any head of the job before
  /// Reads small files, each time that it is to be connected.
  std::function<result<budget_parent>()> find;
  /// Told before a connection to the port: the job proves itself so there, for as long as what is
  /// returned is kept.
  std::function<std::shared_ptr<const void>(uint16_t port, const tls::proof& who)> prove;
  /// Makes connections: understands connect_atom as CAF's middleman does.
  std::function<caf::actor(caf::actor_system&)> connector;
  reporter_actor reporter = {};
};

/// How the budget above the job is known.
struct parent_link {
  explicit parent_link(parent_options o) : options(std::move(o)), lease(options.incarnation) {}

  parent_options options;
  job_lease_policy lease;
  std::string name, address;                      ///< as far as they are known
  std::shared_ptr<const void> proof;              ///< PPL-2
  budget_actor handle;                            ///< none: it is not connected
  bool busy = false;                              ///< a call is under way
  uint64_t calls = 0;                             ///< PPL-1
  int64_t next_ns = 0;                            ///< when to call next
  int64_t pause_ns = 0;                           ///< after the last failure; 0: it was heard since
  std::string problem;                            ///< why it was not heard last
  bool told_problem = false, told_lapse = false;  ///< PPL-3
  bool stepped = false;                           ///< the run has made steps
  bool shed = false;                              ///< PPL-4
  std::function<void()> changed = {};             ///< what is known of the budget has
};

struct pacer_state;
using pacer_pointer = traced_pointer<pacer_actor, pacer_state>;

/// A report as it is sent. Not in it are its source, the pace and the machines.
fbs::PowerReportT message_of(const power_report& r);
power_answer answer_in(const fbs::PowerGrant& g);

/// Connects, or reports, where that is due.
void keep_in_touch(pacer_pointer self);
/// The cap of now, in milliwatts; a lease that has lapsed is said.
int64_t cap_of_now(pacer_pointer self);
/// PPL-4: before the run is told to pause.
void save_if_shed(pacer_pointer self);
/// Somebody that is watched has ended.
void parent_down(pacer_pointer self, const caf::down_msg& m);
/// Why no step may begin, a sentence; empty: steps may.
std::string why_held(const parent_link& l);
/// As a person calls it: "the power budget row0".
std::string parent_in_words(const parent_link& l);

}  // namespace troupe::power
