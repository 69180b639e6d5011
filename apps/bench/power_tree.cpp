// Leaves and their parent, tick by tick (power_tree.hpp).
#include "apps/bench/power_tree.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/power/lease_policy.hpp"
#include "actors/sim/rng.hpp"
#include "apps/bench/stopwatch.hpp"

namespace troupe::apps::power_bench {

namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t share_mw = 500'000, ceiling_mw = 700'000, floor_mw = 200'000;

power::budget_rules rules_for(power::budget_mode mode) {
  const auto rule =
      mode == power::budget_mode::shares ? power::row_rule::none : power::row_rule::polca;
  power::budget_rules out;
  out.mode = mode;
  out.tick_ns = second_ns;
  out.ttl_ns = 9 * second_ns;
  out.row = power::rules_of(rule, {}, 2 * second_ns, second_ns);
  return out;
}

std::vector<power::budget_child> children_for(int leaves, sim::rng& random) {
  std::vector<power::budget_child> out(static_cast<size_t>(leaves));
  for (auto& c : out) {
    c.priority = random.chance(0.5) ? power::power_class::high : power::power_class::low;
    c.floor_mw = floor_mw;
    c.static_share_mw = share_mw;
    c.ceiling_mw = ceiling_mw;
    c.paused_mw = floor_mw / 4;
    c.idle_mw = floor_mw / 4;
  }
  return out;
}

class tree {
 public:
  explicit tree(const tree_plan& plan)
      : plan_(plan),
        random_(plan.seed),
        parent_(rules_for(plan.mode), children_for(plan.leaves, random_), 1, now_ns_),
        leaves_(static_cast<size_t>(plan.leaves), power::lease_policy(share_mw, 1, share_mw)),
        wishes_mw_(leaves_.size(), ceiling_mw),
        reports_(leaves_.size()) {}

  void tick(tree_measurement& out, bool counts) {
    now_ns_ += second_ns;
    const int64_t whole_mw = share_mw * plan_.leaves;
    // A budget falls by up to a quarter for some seconds, as a site's does.
    if (random_.chance(0.05)) own_mw_ = whole_mw - random_.between(0, whole_mw / 4);
    const int64_t drawn_mw = report_all();
    const auto hearing = std::chrono::steady_clock::now();
    for (size_t i = 0; i < leaves_.size(); ++i) parent_.hear(i, reports_[i], now_ns_);
    const double heard_ms = seconds_since(hearing) * 1e3;
    const auto deciding = std::chrono::steady_clock::now();
    const auto& decision = parent_.tick({.cap_mw = own_mw()}, {drawn_mw, true}, now_ns_);
    const double decided_ms = seconds_since(deciding) * 1e3;
    const auto changed = follow(decision);
    const int64_t counted_mw = parent_.counted_mw();
    const bool over = counted_mw > own_mw();
    const bool rose = over && counted_mw > counted_before_mw_;
    counted_before_mw_ = counted_mw;
    if (!counts) return;
    out.hear_ms.push_back(heard_ms);
    out.tick_ms.push_back(decided_ms);
    out.grants += decision.grants.size();
    out.changes += changed;
    out.most_counted_mw = std::max(out.most_counted_mw, counted_mw);
    out.most_own_mw = std::max(out.most_own_mw, own_mw());
    if (over) ++out.over;
    if (rose) ++out.rose_over;
  }

 private:
  int64_t own_mw() const { return own_mw_ > 0 ? own_mw_ : share_mw * plan_.leaves; }

  int64_t report_all() {
    int64_t all_mw = 0;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (random_.chance(0.1)) wishes_mw_[i] = random_.between(floor_mw, ceiling_mw);
      leaves_[i].read_back(leaves_[i].tick(now_ns_));
      const int64_t drawn_mw = std::min(wishes_mw_[i], leaves_[i].cap_mw());
      all_mw += drawn_mw;
      reports_[i] = leaves_[i].report(now_ns_, drawn_mw, wishes_mw_[i]);
    }
    return all_mw;
  }

  uint64_t follow(const power::budget_decision& decision) {
    uint64_t changed = 0;
    for (const auto& g : decision.grants) {
      auto& leaf = leaves_[g.child];
      const auto before = leaf.cap_mw();
      leaf.hear(g.grant, now_ns_);
      if (leaf.cap_mw() != before) ++changed;
    }
    return changed;
  }

  const tree_plan plan_;
  sim::rng random_;
  int64_t now_ns_ = 1000 * second_ns;
  int64_t own_mw_ = 0;  ///< 0: all static shares
  power::budget_policy parent_;
  std::vector<power::lease_policy> leaves_;
  std::vector<int64_t> wishes_mw_;
  std::vector<power::power_report> reports_;
  int64_t counted_before_mw_ = 0;
};

}  // namespace

result<tree_measurement> measure_tree(const tree_plan& plan) {
  if (plan.leaves < 1 || plan.ticks < 1)
    return error{errc::bad_config, "a tree of budgets needs a leaf and a tick at least"};
  sim::rng random(plan.seed);
  TROUPE_CHECK(
      check(rules_for(plan.mode), children_for(plan.leaves, random), share_mw * plan.leaves));
  tree all(plan);
  tree_measurement out;
  constexpr int settling = 12;  // the first leases raise nobody before they are acked (BGT-1)
  for (int i = 0; i < settling + plan.ticks; ++i) all.tick(out, i >= settling);
  return out;
}

}  // namespace troupe::apps::power_bench
