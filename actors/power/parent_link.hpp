// A link to a power budget above: finds it, connects, reports each second how it is below, and
// hears what may be drawn. The pacer of a job has one (job_parent.hpp), and so has a budget below
// another (node_parent.hpp).
//
// Why: the budget above is another process, which may begin later, end earlier and come back at
// another address. So it is looked for anew after each failure; what holds between two answers is
// the lease's, whose policy is the holder's.
//
// Messages: FindBudget and LeaveBudget to its finder (budget_finder.hpp); PowerReport to the
// budget, which answers PowerGrant.
//
// Invariants
//   PPL-1  One call is under way at most, a connection or a report, and what comes of an earlier
//     one is not heard.
//   PPL-3  A person is told once why the budget is not heard, until it has been heard again; once
//     that a lease has lapsed, and once that there is one again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include "actors/base/traced.hpp"
#include "actors/power/budget_finder.hpp"
#include "actors/power/lease_policy.hpp"
#include "actors/power/shared_machines.hpp"
#include "io/base/result.hpp"
#include "messages/actors.hpp"

namespace troupe::power {

struct parent_options {
  std::string named;         ///< as the child's configuration names it
  std::string child = {};    ///< the child's own name
  uint64_t incarnation = 0;  ///< greater than that of any process before at the child's place
  /// Makes who finds the budget (budget_finder.hpp).
  std::function<finder_actor(caf::actor_system&)> finder;
  reporter_actor reporter = {};  ///< of a job
};

/// How the budget above is known.
struct parent_link {
  explicit parent_link(parent_options o) : options(std::move(o)) {}

  parent_options options;
  std::string name, address;          ///< as far as they are known
  finder_actor finder;
  budget_actor handle;        ///< none: it is not connected
  bool busy = false;          ///< a call is under way
  uint64_t calls = 0;         ///< PPL-1
  int64_t next_ns = 0;        ///< when to call next
  int64_t pause_ns = 0;       ///< after the last failure; 0: it was heard since
  std::string problem;        ///< why it was not heard last
  bool told_problem = false;  ///< PPL-3

  // What its holder does; all of them are there before the first call.
  std::function<fbs::PowerReportT()> report = {};
  /// An error: the answer is none.
  std::function<status(const fbs::PowerGrant&)> heard = {};
  /// The budget answers a report with that.
  std::function<void(const error& why)> refused = {};
  std::function<void(std::string)> say = {};  ///< PPL-3
  bool says_unfound = false;                  ///< also where it was never found
  std::function<void()> changed = {};         ///< what is known of the budget has
};

/// Its finder begins, and ends with the holder.
template <class Self>
void begin_link(Self self, parent_link& l);
/// Connects, or reports, where that is due. `Self`: a pacer's or a budget's pointer.
template <class Self>
void keep_in_touch(Self self, parent_link& l);
/// Somebody that is watched has ended.
template <class Self>
void parent_down(Self self, parent_link& l, const caf::down_msg& m);

/// A report as it is sent. Not in it are its source, the pace, the brake and the machines.
fbs::PowerReportT message_of(const power_report& r);
power_answer answer_in(const fbs::PowerGrant& g);
/// How many share the child's machines; who is not there has it alone.
machine_counts shared_in(const fbs::PowerGrant& g);
/// Whether an answer is one to `whom`, "this job".
status must_fit(grant_verdict verdict, std::string_view whom);

/// As a person calls it: "the power budget row0".
std::string parent_in_words(const parent_link& l);
/// Where it was found, too, if it was.
std::string parent_place_in_words(const parent_link& l);

}  // namespace troupe::power
