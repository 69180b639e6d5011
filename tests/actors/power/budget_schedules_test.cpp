// Random schedules of a tree of budgets: demand, loss, delay, reordering, duplicates, deaths and
// restarts of every node, frozen processes, clocks that do not agree, budgets that change. At every
// tick it is looked at what caps really are in force, not at what anybody believes.
// No cap is above a ceiling here, and nobody says what is not so: budget_draws_test.cpp has that.
#include <array>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/power/budget_policy.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t tick_ns = 1'000'000'000;
constexpr int ttl_ticks = 12, horizon = 32;

struct chances {
  double lost = 0, twice = 0, dies = 0, freezes = 0, budget = 0, unread = 0;
  int slowest = 0;  ///< ticks that a message may take
};

/// On its way in an actuator, which carries out one after the other.
struct setting {
  int in_force = 0;  ///< from this tick on
  int64_t cap_mw = 0;
};

/// One process of the tree: a leaf with an actuator, or a node with children.
struct node {
  int parent = -1;
  size_t place = 0;  ///< among the parent's children
  std::vector<int> children;
  budget_child terms;
  int64_t clock_offset_ns = 0;

  // What survives the process: the actuator's settings, and what it journals.
  int64_t actual_mw = 0, before_mw = 0;  ///< in force, and a tick ago
  std::vector<setting> settings;         ///< commanded, not in force yet
  std::optional<int64_t> own_mw;         ///< of a node: its own cap
  uint64_t incarnation = 0, epoch = 0;
  int64_t journalled_mw = 0;  ///< by its parent: what it counts

  std::optional<lease_policy> lease;
  std::optional<budget_policy> budget;
  int down_until = -1, frozen_until = -1, lives_since = 0;
  lease_order seen = {};
  int64_t wish_mw = 0;
  int last_grant_sent = -1000;  ///< when the parent sent the latest grant that was taken
  int64_t commanded_mw = 0;
  bool granted = false;  ///< since the last command
};

struct letter {
  int from, to, sent;
  std::variant<power_grant, power_report> what;
};

class schedule {
 public:
  explicit schedule(uint64_t seed) : chance_(sim::mix(seed)) {
    odds_ = {chance_.unit() * 0.4,
             chance_.unit() * 0.2,
             chance_.unit() * 0.04,
             chance_.unit() * 0.03,
             chance_.unit() * 0.05,
             chance_.unit() * 0.3,
             static_cast<int>(chance_.below(9))};
    noise_mw_ = chance_.chance(0.5) ? 0 : 200;
    actuation_ticks_ = 1 + static_cast<int>(chance_.below(5));
    fall_ticks_ = ttl_ticks + 1 + actuation_ticks_;
    journals_own_ = chance_.chance(0.5);
    const bool thresholds = chance_.chance(0.25);
    grow(thresholds ? budget_mode::thresholds : budget_mode::shares);
    for (size_t i = 0; i < nodes_.size(); ++i) start(i);
  }

  /// What was broken, in words; empty: nothing.
  std::string run(int ticks) {
    for (; now_ < ticks && wrong_.empty(); ++now_) {
      if (chance_.chance(odds_.budget)) budget_mw_ = chance_.between(most_mw_ / 4, most_mw_);
      deliver();
      for (size_t i = nodes_.size(); i-- > 0;) live(i);
      judge();
    }
    return wrong_;
  }

  /// From now on nothing fails and everybody wishes for all there is.
  void calm() {
    odds_ = {};
    hungry_ = true;
    budget_mw_ = most_mw_;
  }
  /// What is in force of a shares tree that has calmed down, less what it could be.
  int64_t unused_mw() const {
    int64_t ceilings = 0;
    for (const auto& n : nodes_)
      if (n.children.empty()) ceilings += n.terms.ceiling_mw;
    return std::min(budget_mw_, ceilings) - actual(0);
  }
  bool is_shares() const { return mode_ == budget_mode::shares; }
  int64_t raises = 0, falls = 0, restarts = 0;

 private:
  void grow(budget_mode mode) {
    mode_ = mode;
    nodes_.emplace_back();
    const auto add = [&](int parent) {
      auto& n = nodes_.emplace_back();
      n.parent = parent;
      auto& above = nodes_[static_cast<size_t>(parent)];
      n.place = above.children.size();
      above.children.push_back(static_cast<int>(nodes_.size()) - 1);
      return static_cast<int>(nodes_.size()) - 1;
    };
    for (auto inner = chance_.below(3); inner-- > 0;) {
      const int it = add(0);
      for (auto leaves = 1 + chance_.below(3); leaves-- > 0;) add(it);
    }
    for (auto leaves = 1 + chance_.below(3); leaves-- > 0;) add(0);
    for (size_t i = nodes_.size(); i-- > 0;) set_terms(nodes_[i]);
    most_mw_ = budget_mw_ = nodes_[0].terms.static_share_mw;
  }
  /// A node's are the sums of its children's, so that static shares fit.
  void set_terms(node& n) {
    auto& t = n.terms;
    n.clock_offset_ns = chance_.between(1, 1000) * tick_ns;
    t.priority = chance_.chance(0.5) ? power_class::high : power_class::low;
    if (n.children.empty()) {
      t.static_share_mw = chance_.between(2000, 20'000);
      t.ceiling_mw = t.static_share_mw * 2;
      t.floor_mw = chance_.between(0, t.static_share_mw / 3);
      t.paused_mw = t.floor_mw / 2;
      n.actual_mw = n.before_mw = chance_.chance(0.2) ? t.ceiling_mw : t.static_share_mw;
      t.others_work = n.actual_mw > t.static_share_mw;
      return;
    }
    for (const int c : n.children) {
      const auto& of = nodes_[static_cast<size_t>(c)].terms;
      t.static_share_mw += of.static_share_mw;
      t.ceiling_mw += of.ceiling_mw;
      t.floor_mw += of.floor_mw;
      t.paused_mw += of.paused_mw;
      t.others_work |= of.others_work;
    }
  }

  int64_t clock_ns(const node& n) const { return n.clock_offset_ns + now_ * tick_ns; }

  void start(size_t i) {
    auto& n = nodes_[i];
    n.lives_since = now_;
    n.lease.reset();
    n.budget.reset();
    n.seen = {};
    ++restarts;
    if (n.children.empty()) {
      int64_t found_mw = n.actual_mw;
      for (const auto& s : n.settings) found_mw = std::max(found_mw, s.cap_mw);
      n.lease.emplace(n.terms.static_share_mw, ++n.incarnation, found_mw,
                      actuation_ticks_ * tick_ns);
      n.commanded_mw = n.lease->cap_mw();
      n.granted = false;
      return;
    }
    budget_rules rules;
    rules.mode = n.parent < 0 ? mode_ : budget_mode::shares;
    rules.tick_ns = tick_ns;
    rules.ttl_ns = ttl_ticks * tick_ns;
    rules.actuation_ns = actuation_ticks_ * tick_ns;
    rules.noise_mw = noise_mw_;
    rules.row = rules_of(rules.mode == budget_mode::shares ? row_rule::none : row_rule::polca, {},
                         tick_ns, tick_ns);
    std::vector<budget_child> children;
    for (const int c : n.children) {
      children.push_back(nodes_[static_cast<size_t>(c)].terms);
      children.back().remembered_mw = nodes_[static_cast<size_t>(c)].journalled_mw;
    }
    n.budget.emplace(rules, std::move(children), ++n.epoch, clock_ns(n));
  }

  void send(int from, int to, const std::variant<power_grant, power_report>& what) {
    for (int copies = chance_.chance(odds_.twice) ? 2 : 1; copies-- > 0;) {
      if (chance_.chance(odds_.lost)) continue;
      const auto after = 1 + static_cast<int>(chance_.below(uint64_t(odds_.slowest) + 1) *
                                              (chance_.chance(0.1) ? 3 : 1));
      post_[static_cast<size_t>((now_ + after) % horizon)].push_back({from, to, now_, what});
    }
  }

  bool is_up(const node& n) const { return now_ > n.down_until; }
  bool acts(const node& n) const { return is_up(n) && now_ > n.frozen_until; }

  void deliver() {
    auto& due = post_[static_cast<size_t>(now_ % horizon)];
    for (size_t i = due.size(); i > 1; --i) std::swap(due[i - 1], due[chance_.below(i)]);
    for (const auto& l : due) {
      auto& n = nodes_[static_cast<size_t>(l.to)];
      if (!acts(n)) continue;
      if (const auto* grant = std::get_if<power_grant>(&l.what))
        take(n, *grant, l.sent);
      else
        n.budget->hear(nodes_[static_cast<size_t>(l.from)].place, std::get<power_report>(l.what),
                       clock_ns(n));
    }
    due.clear();
  }

  void take(node& n, const power_grant& g, int sent) {
    if (!n.lease) return;  // a node that does not know its children yet
    if (n.lease->hear(g, clock_ns(n)) != grant_verdict::taken) return;
    if (g.order < n.seen) wrong_ = fmt::format("tick {}: an older lease was taken", now_);
    n.seen = g.order;
    n.last_grant_sent = std::max(n.last_grant_sent, sent);
    n.granted = true;
  }

  void live(size_t i) {
    auto& n = nodes_[i];
    n.before_mw = n.actual_mw;
    carry_out(n);  // whatever has become of the process
    if (!is_up(n)) {
      if (now_ == n.down_until) start(i);
      return;
    }
    if (chance_.chance(odds_.dies)) {
      n.down_until = now_ + 1 + static_cast<int>(chance_.below(12));
      return;
    }
    if (!acts(n)) {
      n.lives_since = now_ + 1;
      return;
    }
    if (chance_.chance(odds_.freezes)) {
      n.frozen_until = now_ + 1 + static_cast<int>(chance_.below(12));
      n.lives_since = n.frozen_until + 1;
      return;
    }
    if (n.children.empty())
      tick_leaf(i);
    else
      tick_node(i);
  }

  void tick_leaf(size_t i) {
    auto& n = nodes_[i];
    if (chance_.chance(0.2) || hungry_)
      n.wish_mw = hungry_ ? n.terms.ceiling_mw : chance_.between(0, n.terms.ceiling_mw);
    const int64_t cap = n.lease->tick(clock_ns(n));
    if (cap > n.commanded_mw && !(n.granted && n.lease->is_leased(clock_ns(n))))
      wrong_ = fmt::format("tick {}: PWR-2: a cap rose to {} without a grant", now_, cap);
    n.commanded_mw = cap;
    n.granted = false;
    command(n, cap);
    n.lease->read_back(n.actual_mw);
    std::optional<int64_t> drawn_mw;  // a mean: what was in force a tick ago is in it
    if (!chance_.chance(odds_.unread)) drawn_mw = std::min(n.wish_mw, n.before_mw);
    send(static_cast<int>(i), n.parent, n.lease->report(clock_ns(n), drawn_mw, n.wish_mw));
  }

  void command(node& n, int64_t cap_mw) {
    const auto last = n.settings.empty() ? setting{now_, n.actual_mw} : n.settings.back();
    if (cap_mw == last.cap_mw) return;
    const auto takes = static_cast<int>(chance_.below(static_cast<uint64_t>(actuation_ticks_) + 1));
    n.settings.push_back({std::max(now_ + takes, last.in_force), cap_mw});
    carry_out(n);
  }
  void carry_out(node& n) {
    size_t done = 0;
    for (; done < n.settings.size() && n.settings[done].in_force <= now_; ++done)
      set_actual(n, n.settings[done].cap_mw);
    n.settings.erase(n.settings.begin(), n.settings.begin() + static_cast<ptrdiff_t>(done));
  }

  void set_actual(node& n, int64_t cap_mw) {
    raises += cap_mw > n.actual_mw;
    falls += cap_mw < n.actual_mw;
    n.actual_mw = cap_mw;
  }

  int64_t actual(size_t i) const {
    const auto& n = nodes_[i];
    if (n.children.empty()) return n.actual_mw;
    int64_t sum = 0;
    for (const int c : n.children) sum += actual(static_cast<size_t>(c));
    return sum;
  }

  void tick_node(size_t i) {
    auto& n = nodes_[i];
    auto& b = *n.budget;
    const auto clock = clock_ns(n);
    own_cap own{budget_mw_};
    if (n.parent >= 0) {
      own = {n.terms.static_share_mw, false};
      if (!n.lease && b.knows(clock))
        n.lease.emplace(n.terms.static_share_mw, ++n.incarnation,
                        journals_own_ ? n.own_mw.value_or(b.told_mw()) : b.told_mw());
      if (n.lease) {
        own.cap_mw = n.lease->tick(clock);
        n.own_mw = own.cap_mw;
        own.leased = n.lease->is_leased(clock);
        if (own.leased) own.left_ns = n.lease->left_ns(clock);
      }
    }
    budget_sample seen{actual(i), true};
    if (n.parent < 0) {
      if (chance_.chance(0.05)) unread_until_ = now_ + static_cast<int>(chance_.below(16));
      if (now_ < unread_until_ && odds_.unread > 0) seen.drawn_mw.reset();
      unread_ = seen.drawn_mw ? 0 : unread_ + 1;
    }
    const auto& decided = b.tick(own, seen, clock);
    if (decided.thresholds_stand) stood_ = now_;
    if (decided.thresholds_stand && unread_ >= 3)
      wrong_ = fmt::format("tick {}: BGT-2: thresholds stand without a reading", now_);
    for (const auto& g : decided.grants) send(static_cast<int>(i), n.children[g.child], g.grant);
    for (const int c : n.children) {
      auto& child = nodes_[static_cast<size_t>(c)];
      child.journalled_mw = b.counted_mw(child.place);
    }
    if (!n.lease) return;
    n.lease->read_back(b.counted_mw());
    if (n.parent >= 0) send(static_cast<int>(i), n.parent, n.lease->report(clock, {}, wishes(n)));
  }

  int64_t wishes(const node& n) const {
    int64_t sum = 0;
    for (const int c : n.children) sum += nodes_[static_cast<size_t>(c)].wish_mw;
    return sum;
  }

  void judge() {
    for (size_t i = 0; i < nodes_.size(); ++i) judge_node(i);
    // A budget that was cut is in force once what was granted before has been taken back.
    const auto& root = nodes_[0];
    if (acts(root) && root.budget->knows(clock_ns(root)))
      in_force_mw_ = std::min(in_force_mw_, root.budget->counted_mw());
    in_force_mw_ = std::max(in_force_mw_, budget_mw_);
    const int64_t sum = actual(0);
    if (is_shares() && sum > in_force_mw_ && wrong_.empty())
      wrong_ = fmt::format("tick {}: PWR-1: caps are {} mW, {} are in force, the budget is {}",
                           now_, sum, in_force_mw_, budget_mw_);
  }

  void judge_node(size_t i) {
    const auto& n = nodes_[i];
    if (!wrong_.empty()) return;
    if (n.budget && acts(n) && n.budget->knows(clock_ns(n)))
      for (const int c : n.children) {
        const auto& child = nodes_[static_cast<size_t>(c)];
        const auto counted = n.budget->counted_mw(child.place);
        const auto caps = actual(static_cast<size_t>(c));
        if (counted < caps)
          wrong_ = fmt::format("tick {}: PWR-1: node {} counts {} of {}, whose caps are {}", now_,
                               i, counted, c, caps);
        if (n.budget->is_unruly(child.place)) wrong_ = "who obeys is not unruly";
      }
    if (n.parent < 0) return;
    // PWR-2: who has had no grant for so long, and was there to fall, has fallen. BGT-2
    const bool lost = now_ - n.last_grant_sent > fall_ticks_ ||
                      (!is_shares() && n.parent == 0 && now_ - stood_ > fall_ticks_);
    bool all_there = now_ - n.lives_since > fall_ticks_ && acts(n);
    if (!n.children.empty()) {
      all_there = true;
      for (const int c : n.children) {
        const auto& child = nodes_[static_cast<size_t>(c)];
        all_there &= now_ - child.lives_since > 2 * fall_ticks_ && acts(child);
      }
    }
    if (lost && all_there && actual(i) > n.terms.static_share_mw)
      wrong_ = fmt::format("tick {}: PWR-2: {} has {} mW, its static share is {}", now_, i,
                           actual(i), n.terms.static_share_mw);
  }

  sim::rng chance_;
  chances odds_;
  budget_mode mode_ = budget_mode::shares;
  int actuation_ticks_ = 1, fall_ticks_ = 0;
  bool journals_own_ = false;
  int64_t noise_mw_ = 0, budget_mw_ = 0, most_mw_ = 0, in_force_mw_ = 1'000'000'000;
  std::vector<node> nodes_;
  std::array<std::vector<letter>, horizon> post_;
  int now_ = 0, unread_until_ = 0, unread_ = 0, stood_ = 0;
  bool hungry_ = false;
  std::string wrong_;
};

}  // namespace

TEST_CASE("PWR-1 and PWR-2: budgets: random schedules keep both at every tick") {
  int64_t raises = 0, falls = 0, restarts = 0;
  for (uint64_t seed = 1; seed <= 100'000; ++seed) {
    schedule s(seed);
    const auto wrong = s.run(24 + static_cast<int>(seed % 32));
    raises += s.raises;
    falls += s.falls;
    restarts += s.restarts;
    if (!wrong.empty()) FAIL("seed " << seed << ": " << wrong);
  }
  CHECK(raises > 100'000);
  CHECK(falls > 200'000);
  CHECK(restarts > 500'000);
}

TEST_CASE("budgets: after any schedule, what is there is used once nothing fails any more") {
  int looked_at = 0;
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    schedule s(seed);
    CHECK(s.run(40) == "");
    s.calm();
    CHECK(s.run(110) == "");
    if (!s.is_shares()) continue;
    ++looked_at;
    CAPTURE(seed);
    CHECK(s.unused_mw() < 4000);  // noise of a dozen children, at most
  }
  CHECK(looked_at > 1000);
}
