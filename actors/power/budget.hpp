// The budget: a node of a tree of power budgets, which grants its children leases of watts. Thin: a
// policy decides (budget_policy.hpp).
//
// Messages: PowerReport from children, answered with the tick after it; ReadPowerTree,
// SetPowerBudget, SetPowerBrake and FindGateway from persons (budget_orders.cpp).
//
// The brake goes with each answer to a child, so that a job has it within a tick: a person's, and
// what the policy pulls. Where the rules leave it to persons the policy's is a word in the journal
// (BGT-10).
//
// Where the budget is itself a child of another one (node_parent.hpp), what it has is the less of
// its own configuration's and of its lease there, whose time bounds what it grants. A brake there
// is one here.
//
// Invariants
//   BGA-1  Each report is answered once, at most a tick after it came: with the grant that the
//     policy has decided as an answer to that very report, or with word that none is due. One of a
//     child waits for the tick; a newer one has the older one answered.
//   BGA-2  Who a child is says the key or the certificate that it has proved, never a message;
//     nobody else changes what is counted. A certificate bears a name of its own: whose report
//     means to be another child's than the one it is for is refused.
//   BGA-3  What is set for a time falls back to what was there for good, or to what a schedule says
//     by then, and no static share is ever without cover: what is less than their sum is refused.
//   BGA-4  What children may draw, and what is set for good, is given to the keeper: the former
//     before a raise leaves (BGT-9), the latter at once. Nobody waits for him but raises: with a
//     keeper that fails, or never answers, leases are renewed and cut all the same. That is told
//     once.
//   BGA-5  A person's brake is for all children until a person lets them go on, also over lives of
//     the budget that a keeper serves; one of the budget above as long as that says (NLP-5). Each
//     answer says whether it is on (PWR-4). Who lets them go on lets them go on at once, also where
//     the policy holds them (BGT-11).
//   BGA-6  Where it follows a schedule, what that says by then is what it has, unless a person has
//     set something: for a time, or for good.
//   BGA-7  A brake that the budget has pulled is on in its next life, if that one pulls any: it is
//     released there as in this one, and not of all at once.
//   BGA-8  Who sets the brake, or the budget for good, is answered once that is in the record on
//     the disk. It holds at once all the same. Where a write fails, or takes so long that who asked
//     would give up, the answer is an error that says so.
//   BGA-9  A dry run decides as if its children kept what it decides, and journals that. It grants
//     each its ceiling, also without a lease, once the record has that for lives after it: before
//     that what it decides. It sheds none and pulls no brake, here or in those lives; a person's
//     holds.
//   BGA-10  Who sets the budget or the brake is told to whoever keeps that before it is done, and
//     what came of it before he is answered. Nobody waits for that: it is done all the same.
//   BGA-11  Children whose configuration allows it are shifted against each other, by an answer
//     that says so; not in a dry run. That changes no cap, and none waits for it.
//
// Failure policy: ends with its process. Children fall to their static shares by themselves.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/typed_response_promise.hpp>

#include "actors/base/traced.hpp"
#include "actors/power/budget_inputs.hpp"
#include "actors/power/budget_journal.hpp"
#include "actors/power/budget_policy.hpp"
#include "actors/power/budget_record.hpp"
#include "actors/power/budget_schedule.hpp"
#include "actors/power/budget_trace.hpp"
#include "actors/power/node_parent.hpp"
#include "actors/power/phase_policy.hpp"
#include "actors/power/row_account.hpp"
#include "actors/power/shared_machines.hpp"
#include "io/base/error_kind.hpp"
#include "messages/actors.hpp"

namespace troupe::power {

/// The budget, what it is to have, the sum, and of what: BGA-3.
inline constexpr error_kind<std::string, double, double, std::string> below_static_shares{
    "below_static_shares", errc::bad_config,
    "{} cannot have {} W: the static shares of its children are {} W together",
    "children fall to them by themselves: {3}"};
/// The child and the report.
inline constexpr error_kind<std::string, std::string> impossible_report{
    "impossible_report", errc::bad_data, "impossible report of {}: {}",
    "powers are 0 to 1e15 mW, and a lease is one that was granted"};
/// The certificate, the child that it is for, the one that was meant, and the budget.
inline constexpr error_kind<std::string, std::string, std::string, std::string> another_child{
    "another_child", errc::permission, "the certificate {0} is of the child {1} of {3}, not of {2}",
    "name the job as its certificate's [[child]], or give it the certificate of its own"};
/// The life and the budget.
inline constexpr error_kind<uint64_t, std::string> budget_superseded{
    "budget_superseded", errc::unavailable,
    "the job follows a later life of {1} than this one, {0}",
    "one process at a time serves a budget: end the other, and start the job again"};
/// The child, the processes that were heard last and now, and the budget.
inline constexpr error_kind<std::string, uint64_t, uint64_t, std::string> process_superseded{
    "process_superseded", errc::unavailable,
    "another process reports to {3} as {0}, of incarnation {1}; this one is {2}",
    "end one of them; where there is no other, the clock of this machine has gone back: start the "
    "budget again"};

/// What a person has set, in words, and why it is not on the disk: it holds all the same. BGA-8
inline constexpr error_kind<std::string, std::string> set_not_recorded{
    "set_not_recorded", errc::io,
    "{}; its record of that is not on the disk ({}): a process that serves it after this one does "
    "not know it",
    "make room on the disk of its folder, and say it again"};

/// A child, and what the site's configuration gives it.
struct named_child {
  std::string name;
  budget_child terms;
  std::string certificate = {};  ///< the name of the one that proves it; empty: a key of its name
  bool shifts = false;  ///< its steps may be shifted against those of others (phase_policy.hpp)
};

/// What a person has said to a budget, and who he is, as his key or certificate proves.
struct order_said {
  std::string who, role;
  std::string from;     ///< the address of his process; empty: it is not known
  std::string command;  ///< the name of the message
  std::string message;  ///< its JSON
};

/// Keeps what persons say (BGA-10). Waits for nothing; numbers rise from 1.
struct order_keeper {
  order_keeper() = default;
  order_keeper(const order_keeper&) = delete;
  order_keeper& operator=(const order_keeper&) = delete;
  virtual ~order_keeper() = default;
  /// Before it is done.
  virtual void begins(uint64_t number, order_said said) = 0;
  /// Before he is answered.
  virtual void ends(uint64_t number, const std::string& result) = 0;
};

/// Rules, children and budget have passed check().
struct budget_options {
  std::string name;  ///< "row0"
  budget_rules rules;
  std::vector<named_child> children;
  int64_t budget_mw = 0;
  uint64_t epoch = 1;  ///< greater than that of any life before
  /// Whom the other end of a connection has proved to be; empty: as the book of peers says, of role
  /// power.
  std::function<std::optional<std::string>(const caf::strong_actor_ptr&)> who = {};
  /// Takes a line of the journal, JSON without a newline.
  std::function<void(const std::string&)> journal = {};
  /// Takes a line of what the policy is given, the same; empty: it is kept by nobody.
  budget_inputs::sink inputs = {};
  /// Takes what was seen, each tick in which it is known what all children draw: the numbers of a
  /// trace (budget_trace.hpp), but for the time. Waits for nothing; may be empty.
  std::function<void(const budget_trace_row&)> trace = {};
  /// `budget_mw` is what a person has set in a life before.
  std::optional<budget_set> set = {};
  /// What the budget is by time, from when the actor begins; none: `budget_mw` always.
  std::optional<budget_schedule> schedule = {};
  /// Takes what ReadPowerTree is answered with, each `shown_each_ns`. Waits for nothing; may be
  /// empty.
  std::function<void(fbs::PowerTreeT)> shown = {};
  static constexpr int64_t shown_each_ns = 5'000'000'000;
  bool brake = false;   ///< a person holds all work, since a life before
  bool pulled = false;  ///< that one had pulled its brake (BGA-7)
  /// BGA-4; empty: nothing outlives the process.
  std::shared_ptr<record_keeper> keeper = {};
  /// The time of day as text, for the record; may be empty.
  std::function<std::string()> wall_time = {};
  /// The budget above it; with one it reads files: spawn it detached.
  std::optional<parent_options> parent = {};
  bool dry_run = false;  ///< BGA-9; of one without a parent
  std::shared_ptr<order_keeper> orders = {};  ///< BGA-10; empty: nobody keeps them
  gateway_actor gateway = {};  ///< of its process, which persons' tools are led to; none: nowhere
};

/// A report that waits for the tick.
struct waiting_report {
  msg<fbs::PowerReport> report;
  caf::typed_response_promise<msg<fbs::PowerGrant>> answer;
};

/// What a child said last, and what it was told.
struct child_account {
  bool heard = false;
  power_report last = {};
  bool wishes_all = false;  ///< it named no watts
  fbs::PowerSource source = fbs::PowerSource::unknown;
  uint32_t pace_of_1024 = 0;
  bool brake_armed = false;
  int64_t actuation_ms = -1;  ///< as it has measured; -1: it has not
  int64_t heard_ns = 0;
  std::optional<power_grant> told = {};
  int64_t lease_until_ns = 0;  ///< not before its own clock says so
  std::optional<waiting_report> waiting = {};
  int64_t as_if_mw = 0;  ///< BGA-9: what it would have in force
};

/// An answer to a person that waits for the record. BGA-8
struct kept_answer {
  caf::typed_response_promise<msg<fbs::Ack>> promise;
  message_header cause;
  std::string text;
  int64_t until_ns = 0;  ///< it is given by then
  uint64_t order = 0;    ///< its number (BGA-10); 0: nobody keeps it
};

struct budget_state {
  static inline const char* name = "budget";
  budget_options options;
  std::optional<budget_policy> policy;  ///< once the actor has begun
  budget_journal journal;
  budget_inputs inputs;
  std::map<std::string, size_t, std::less<>> places;  ///< of children, by name
  std::map<std::string, size_t, std::less<>> proofs;  ///< the same, by what proves them (BGA-2)
  std::vector<child_account> children;                ///< as in the options
  shared_machines machines;                           ///< on which they work
  phase_policy phase;                                 ///< how their steps stand to each other
  int64_t began_ns = 0;                               ///< of the schedule
  int64_t for_good_mw = 0;                            ///< BGA-3
  int64_t cap_mw = 0;                                 ///< of now, by configuration and persons
  int64_t leased_mw = 0;                              ///< what it had at the last tick
  int64_t counted_mw = 0;                             ///< of all children, as of then
  int64_t next_tick_ns = 0;
  std::optional<node_parent> parent;  ///< none: it is a root
  std::optional<int64_t> set_until_ns;
  std::string set_for_time_by;      ///< may be empty
  std::optional<int64_t> shown_ns;  ///< when its tree was shown last
  bool short_of_floors = false;
  bool thresholds_stand = false;
  row_account account;            ///< what a person is told of this life
  std::string over_t2_since;      ///< the time of day; empty: it is not, or that is not known
  record_policy record;           ///< BGA-4
  std::optional<budget_set> set;  ///< for good, by a person
  bool brake = false;             ///< BGA-5
  bool pulled = false;            ///< BGA-7
  bool set_is_new = false;        ///< one of the three, and no write of it has begun
  std::optional<uint64_t> set_write;  ///< the last one of it, until that has ended well
  std::deque<kept_answer> answers;    ///< BGA-8
  uint64_t last_order = 0;            ///< BGA-10
  size_t looks = 0;                   ///< ticks that are on their way
};

/// What children draw together.
struct drawn_watts {
  std::optional<int64_t> mw;  ///< none: of one of them at least it is not known
  fbs::PowerSource source = fbs::PowerSource::unknown;
};
drawn_watts drawn_by_all(const budget_state& st, int64_t now_ns);
/// What it has, also where a person has just set it, in milliwatts.
int64_t own_mw(const budget_state& st);
bool in_thresholds(const budget_state& st);
/// Whether a person, or a budget above, holds the work of all its children. BGA-5
bool holds_all(const budget_state& st);
/// The budget above whose brake does; empty: none.
std::string brake_above(const budget_state& st);
/// BGA-5, BGT-10
bool is_braked(const budget_state& st, size_t child);
/// Whether all who work now can be held within a step: not while one of them is not heard, and so
/// hears nothing. BGT-2
bool is_brake_armed(const budget_state& st, int64_t now_ns);
/// What is left for a child by all that the others may draw, as of the last tick, in milliwatts.
int64_t free_beside(const budget_state& st, size_t child);
/// What the tick before this one has come to, and what holds from now on.
void account_for(budget_state& st, const std::optional<int64_t>& drawn_mw, int64_t now_ns);
/// Writes down the rungs that thresholds take and undo.
void note_rungs(budget_state& st, const row_commands& decided, const drawn_watts& drawn);
/// Of the tick that has just been decided.
void trace_tick(const budget_state& st, const drawn_watts& drawn, int64_t now_ns);
/// As a person is shown it. `only`: a child, without the others.
fbs::PowerTreeT tree_of(const budget_state& st, std::optional<size_t> only, int64_t now_ns);

budget_actor::behavior_type budget(budget_pointer self, const budget_options& options);

}  // namespace troupe::power
