// A node of the tree of budgets: what it grants to its children, in leases.
//
// It divides in one of two modes. `shares` promises no watt that the node does not have.
// `thresholds` (POLCA) promises MORE than it has: every child may draw its ceiling, or what clocks
// of its class let through, and row_policy locks clocks and pulls the brake by the row's measured
// power. That stands only while the row is measured, the node's own lease is valid and the brake is
// armed; else every child gets its static share, and falls to it by itself if it hears nothing.
//
// A parent counts for each child the most that it may draw by all that is known: what it last told
// as in force, and every cap granted since that it may still come to follow. What is free is what
// is left of the node's own cap.
//
// Leases nest: none outlasts the node's own, so where that lapses the whole subtree has fallen, and
// nobody has to be reached for it. One parent acts at a time: what a dead one still has under way
// may arrive (PWR-2), a second living one must be kept out by who starts it. So a child that says
// that it follows a later one is believed for itself alone: it may have said what is not so.
//
// Pure: no clock, no actor; a tick allocates nothing, but where the row's rises are to be seen over
// a longer time.
//
// Invariants
//   PWR-1  In shares, the sum over children of max(in force, granted, drawn where that is more than
//     its cap lets it) is at most the own cap in force, always; where the own cap falls, the sum
//     falls with what is acked and never rises. A decrease counts when acked. An increase comes out
//     of what is free. A silent child counts at its last acked cap for ever, one never heard of at
//     its static share (its ceiling where others' work may run there, what the journal says where
//     that is more). What a child draws above its cap, by `unruly_ticks` readings in a row, is cut
//     from the others within a tick. But nothing that a child says, or draws by its word, counts
//     above its ceiling, or what it was granted or the journal says where that is more: a wrong
//     number of one takes no more from the others than its machines can draw.
//   BGT-1  A parent raises nobody before each child has acked a lease of its own epoch, or has
//     fallen by itself: ttl, a tick and the actuation, a lease's time of it at most (BGT-12), after
//     it began. It cuts before that where what children have told is more than its own cap.
//   BGT-2  Thresholds stand only while telemetry is fresh, the own lease valid and the brake armed,
//     and not before a first reading.
//   BGT-3  At most `ring` caps are unacked; a further change replaces the newest of them.
//   BGT-4  A child that tells less than its newest lease has fallen by itself: it gets back what it
//     has lost by a new lease, as any increase. While there is too little, nobody is granted more
//     than it told, nor more than its static share where our own lease has lapsed, or where cuts
//     that are lost would leave too much.
//   BGT-6  A process that follows a parent of a later epoch is granted nothing, and counts at its
//     ceiling. The others have what is left, as beside a silent child.
//   BGT-5  No cap makes a machine draw less than it does without work: who makes no steps is not
//     unruly by that. It is made room for what it draws so, and for work above that; not for what
//     it draws while a brake holds it, whose operations may still end.
//   BGT-8  Noise keeps nobody from its static share: who has less of it than there would be for it
//     is raised by any difference, and the others are cut for it by any.
//   BGT-9  Where a record of this life is kept, which a parent after it counts, nobody is raised
//     above what that covers. The watts of the raise are kept free; cuts and renewals never wait.
//   BGT-10  A brake that is pulled holds all children, and once it is released those of the groups
//     whose turn has not come. In thresholds the row's policy pulls it; in shares an overload does
//     that goes on although caps are in force (overload_policy.hpp), where the rules say so: else
//     it is wanted, and holds nobody. Nothing that is not read pulls one. In thresholds of which a
//     child is not heard static shares hold, and a brake is released as in shares.
//   BGT-11  What a person says of the brake goes first: once that lets work go on no thresholds
//     stand, and no brake is pulled, before what is drawn has been calm for a while (OVL-4).
//   BGT-7  Where a later process of a child is heard, its machines may still do what they did for
//     the one before: no less is counted than before that, as long as a child may take to fall by
//     itself. What the one before says from then on is refused: it is to make no steps, unless the
//     later one has been silent as long as that. It is let in again then, and no less is counted
//     than before, until a later one is heard: silence does not say that nothing draws.
//   BGT-12  A child that has measured that its caps take longer to be in force than the rules say
//     is waited for so long: until it has fallen by itself, and, up to a lease's time, where there
//     is too little for all, and by the others that are to be raised as a parent begins. Beyond a
//     lease's time nobody waits for it: what it may draw until then is kept free of what rises.
//     What was measured is not taken back.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/power/division_policy.hpp"
#include "actors/power/lease_policy.hpp"
#include "actors/power/overload_policy.hpp"
#include "actors/power/recent_most.hpp"
#include "actors/power/row_policy.hpp"
#include "actors/power/safe_threshold_policy.hpp"
#include "io/base/result.hpp"

namespace troupe::power {

enum class budget_mode : uint8_t { shares, thresholds };
inline constexpr std::array<std::string_view, 2> budget_mode_names = {"shares", "thresholds"};

/// By the site's configuration, not by the child's word. 0 <= paused <= floor <= static share <=
/// ceiling, idle <= ceiling.
struct budget_child {
  power_class priority = power_class::low;
  int64_t floor_mw = 0;         ///< below it nothing useful is done
  int64_t static_share_mw = 0;  ///< what it has without any message
  int64_t ceiling_mw = 0;       ///< its nameplate
  int64_t paused_mw = 0;        ///< drawn while its work is paused
  int64_t idle_mw = 0;          ///< drawn whatever the clocks are
  bool others_work = false;     ///< may run there, uncapped, before it is heard of
  /// What the parent before counted for it, by its journal: settings outlive a process that died
  /// with them, and it cannot fall by itself.
  int64_t remembered_mw = 0;
};

struct budget_rules {
  budget_mode mode = budget_mode::shares;
  int64_t tick_ns = 1'000'000'000;
  int64_t ttl_ns = 10'000'000'000;
  int64_t actuation_ns = 0;  ///< until a commanded cap is in force, at the least (BGT-12)
  /// Less is no difference: a cap that would change by less stays where nothing is short and nobody
  /// lacks (BGT-8), and a draw above its cap by less, or by less than a hundredth of it, is none.
  int64_t noise_mw = 0;
  /// After so many reports behind its ack a child draws no more than its cap: so many readings in
  /// a row above it make it unruly. 1 to 16.
  int unruly_ticks = 3;
  /// A report that was heard so long ago says nothing of what is drawn now.
  int64_t fresh_ns = 2'500'000'000;
  bool pulls_brake = false;  ///< in shares, too; else it is wanted (BGT-10)
  /// In thresholds, of the watts above idle by the share of the clock: as POLCA's brief fits it. 1
  /// where a pace stands for the clock: half the work has half of them.
  double clock_exponent = 1.2;
  row_thresholds thresholds = {};  ///< of which `row` was made
  /// Of thresholds; in shares of the brake alone how long it is held, and how it is released.
  row_rules row = {};
};

/// Errors: bad_config. `budget_mw` is what the node has: static shares must fit into it.
status check(const budget_rules& rules, std::span<const budget_child> children, int64_t budget_mw);

/// The node's own cap, of its lease_policy or of a person.
struct own_cap {
  int64_t cap_mw = 0;
  bool leased = true;  ///< false: its lease has lapsed, the cap is what it has fallen to
  /// Of the lease; a root's, and what a node has fallen to, end never.
  int64_t left_ns = std::numeric_limits<int64_t>::max();
};

/// What a tick sees of the node itself.
struct budget_sample {
  std::optional<int64_t> drawn_mw;  ///< mean of the tick; none: no reading came
  bool brake_armed = false;         ///< the path of the brake has been tried and is free
  /// Up to what each child may be raised (BGT-9); empty: no record is kept, and nobody waits.
  std::span<const int64_t> covered_mw = {};
};

enum class report_verdict : uint8_t {
  taken,
  older,          ///< a later one has been heard
  older_process,  ///< one of a later process of the child has been heard (BGT-7)
  newer_life,     ///< it follows a parent of a later epoch, not us
  impossible,     ///< no child of ours says that
};

struct budget_decision {
  struct addressed {
    size_t child;
    power_grant grant;
  };
  std::vector<addressed> grants;  ///< to send
  row_commands row;               ///< clocks by class, and the brake
  bool thresholds_stand = false;
  bool short_of_floors = false;  ///< somebody is shed
};

class budget_policy {
 public:
  /// `epoch` is greater than that of any parent before at this place. `row`: what that one had
  /// last, by its journal, so that a brake that it pulled is released and clocks that it locked are
  /// undone; times in it begin anew, since clocks of two processes need not agree. Its commands may
  /// not have been sent: who starts this one sends what `row` says.
  budget_policy(const budget_rules& rules, std::vector<budget_child> children, uint64_t epoch,
                int64_t now_ns, const row_state& row = {});

  report_verdict hear(size_t child, const power_report& r, int64_t now_ns);

  /// Once a tick. The decision stands until the next one.
  const budget_decision& tick(const own_cap& own, const budget_sample& sample, int64_t now_ns);

  /// The most that a child, or all, may draw by what is known.
  int64_t counted_mw(size_t child) const;
  int64_t counted_mw() const;
  /// What children have told as in force; of whom nothing was heard, nothing.
  int64_t told_mw() const;
  /// Whether what is counted is what there may be (BGT-1). A node that does not know that yet does
  /// not report to its own parent.
  bool knows(int64_t now_ns) const;
  /// Whether it works and has drawn more than its cap for `unruly_ticks` readings in a row: it
  /// counts at what it draws.
  bool is_unruly(size_t child) const { return ledgers_[child].is_unruly(); }
  bool is_silent(size_t child, int64_t now_ns) const;
  /// As of the last tick. BGT-10
  bool is_braked(size_t child) const;
  /// Whether a brake that it finds needed holds children. BGT-10
  bool pulls() const { return rules_.mode == budget_mode::thresholds || rules_.pulls_brake; }
  /// Whether any child is held.
  bool holds_work() const { return pulls() && row_.brake != row_brake::off; }
  /// A person lets work go on, whatever holds it. BGT-11
  void let_go();
  /// Whether a report of then still says what is drawn.
  bool is_fresh(size_t child, int64_t now_ns) const;
  /// What it is raised to once that is covered (BGT-9); 0: it waits for no record.
  int64_t awaits_mw(size_t child) const { return awaits_[child]; }
  /// The process of it that was heard last.
  uint64_t incarnation(size_t child) const { return ledgers_[child].last.id.incarnation; }
  /// How long any child may take until it has fallen by itself, and how long this one. BGT-12
  int64_t fall_ns() const { return fall_within(acts_ns_); }
  int64_t fall_ns(size_t child) const { return fall_within(ledgers_[child].acts_ns); }
  const row_state& row() const { return row_; }
  /// In thresholds: of the watts above idle, what the clocks of a class let through.
  double speed_of(power_class priority) const;
  /// What the row's own rises leave for T2.
  const safe_threshold_policy& safe() const { return safe_; }
  bool is_t2_safe() const { return rules_.thresholds.t2 <= safe_.safe_t2(); }

 private:
  static constexpr size_t ring = 4;
  static constexpr int unruly_ring = 16;
  static constexpr int64_t draw_parts = 100;  ///< of a cap: a draw above it by less is none
  friend status check(const budget_rules&, std::span<const budget_child>, int64_t);

  /// What is known of a child.
  struct ledger {
    struct entry {
      uint64_t sequence = 0;
      int64_t cap_mw = 0;
    };
    bool heard = false;
    std::optional<uint64_t> elsewhere = {};  ///< the incarnation that follows a later epoch
    bool fenced = false;  ///< has acked a lease of our epoch
    power_report last = {};
    int64_t heard_ns = 0;
    int64_t before_mw = 0;  ///< counted until a later process was heard (BGT-7)
    int64_t before_until_ns = 0;
    std::array<entry, ring> open = {};  ///< oldest first: what it may still come to follow
    size_t open_count = 0;
    int64_t granted_mw = 0;  ///< the newest, if open_count > 0
    bool granted_shed = false;
    uint64_t sequence = 0;
    report_id answered = {};
    int64_t given_ttl_ns = 0;
    /// What it was free to draw by the last `unruly_ticks` reports, in a ring.
    std::array<int64_t, unruly_ring> allowed_mw = {};
    size_t reports = 0;
    int64_t drawn_mw = 0;   ///< by the last reading
    int above_reports = 0;  ///< readings in a row of more than it was free to draw
    bool above = false;     ///< there were enough of them, and not yet enough that keep
    bool worked = false;   ///< by the last report that said so
    int kept_reports = 0;  ///< with a reading, since such a child draws no more than its cap
    int64_t idle_mw = 0;   ///< what it drew above a cap without work, and nothing less since
    int64_t acts_ns = 0;   ///< that its caps take to be in force, as it has measured
    bool is_unruly() const { return above && worked; }
  };

  int64_t fall_within(int64_t acts_ns) const {
    return rules_.ttl_ns + rules_.tick_ns + std::max(rules_.actuation_ns, acts_ns);
  }
  int64_t most_mw(size_t child) const;
  void note_actuation(ledger& l, int64_t takes_ns);
  void judge_draw(ledger& l, const power_report& r) const;
  void acked(ledger& l) const;
  bool has_fallen(const ledger& l) const;
  void forget_processes(int64_t now_ns);
  void watch(const own_cap& own, const budget_sample& sample, int64_t now_ns);
  int64_t carried_mw(const own_cap& own, int64_t now_ns);
  overload_look look_at_draws(const own_cap& own, int64_t carries_mw, int64_t now_ns) const;
  void watch_row(const budget_sample& sample, const overload_look& look, int64_t carries_mw,
                 int64_t now_ns);
  void release_unseen(row_decision& decided, const overload_look& look, int64_t now_ns);
  void draw_groups();
  void measure_row(const std::optional<double>& drawn, int64_t now_ns);
  void divide(const own_cap& own, int64_t now_ns);
  power_ask ask_of(size_t child, bool must_fall) const;
  void share(const own_cap& own, bool must_fall, int64_t now_ns);
  int64_t unreached_mw() const;
  int64_t ceiling_mw(const budget_child& c) const;
  int64_t held_mw(size_t child, const own_cap& own) const;
  static void change(ledger& l, const power_share& to);
  bool lacks(size_t child, int64_t has_mw) const;
  void cut(const own_cap& own, bool knows);
  int64_t unfallen_mw(int64_t now_ns) const;
  void raise(int64_t own_mw, std::span<const int64_t> covered_mw, int64_t now_ns);
  void send(const own_cap& own, int64_t now_ns);

  budget_rules rules_;
  row_policy row_policy_;
  overload_policy overload_;
  safe_threshold_policy safe_;
  std::optional<int64_t> commanded_ns_ = {};  ///< a cut of a class, which not all have acked yet
  std::vector<budget_child> children_;
  uint64_t epoch_;
  int64_t began_ns_;
  int64_t acts_ns_ = 0;  ///< of the slowest child; a lease's time at the most
  bool knew_ = false;    ///< by the last tick
  std::vector<ledger> ledgers_;
  std::vector<power_ask> asks_;
  std::vector<power_share> shares_;
  std::vector<int64_t> awaits_;  ///< BGT-9
  std::vector<std::pair<int, size_t>> order_;  ///< in which children come back from this brake
  std::vector<int> groups_;                    ///< the same, as groups
  row_state row_;
  std::optional<int64_t> short_since_ns_ = {};
  std::optional<int64_t> own_mw_ = {};  ///< the own cap of the tick before
  recent_most own_before_;
  int64_t counted_before_mw_ = 0;  ///< a tick ago
  bool measured_ = false;          ///< a reading has come
  budget_decision out_;
};

}  // namespace troupe::power
