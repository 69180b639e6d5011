// A node of the tree of budgets and two children that keep leases, by hand and without an actor.
//
//   family f;
//   f.ticks(5);  // each: children report, the parent grants, caps come into force
//   CHECK(f.caps() == std::vector<int64_t>{10'000, 90'000});
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/power/budget_policy.hpp"

namespace troupe::test {

inline constexpr int64_t budget_second = 1'000'000'000;

inline power::budget_rules rules_with(power::budget_mode mode) {
  const bool in_shares = mode == power::budget_mode::shares;
  power::budget_rules out;
  out.mode = mode;
  out.tick_ns = budget_second;
  out.ttl_ns = 9 * budget_second;
  out.actuation_ns = 2 * budget_second;
  out.row = power::rules_of(in_shares ? power::row_rule::none : power::row_rule::polca, {},
                            2 * budget_second, budget_second);
  return out;
}

/// A parent of 100 W and children with static shares of 50 W, ceilings of 100, floors of 10: the
/// first of low priority, the second of high.
struct family {
  std::vector<power::budget_child> terms = {
      {power::power_class::low, 10'000, 50'000, 100'000, 1000, 20'000},
      {power::power_class::high, 10'000, 50'000, 100'000, 1000, 20'000}};
  power::budget_rules rules;
  power::budget_policy parent;
  std::vector<power::lease_policy> children;
  std::vector<int64_t> wishes = {100'000, 100'000};
  std::vector<std::optional<int64_t>> draws = {{}, {}};
  std::vector<std::optional<int64_t>> claims = {{}, {}};  ///< told as in force, whatever is
  std::vector<bool> works = {true, true}, speaks = {true, true}, hears = {true, true},
                    obeys = {true, true}, held = {false, false};
  std::vector<int64_t> acts_ns = {0, 0};  ///< told as measured
  power::own_cap own{100'000};
  power::budget_sample seen{50'000, true};
  power::budget_decision last = {};
  int64_t now_ns = 1000 * budget_second;

  explicit family(power::budget_mode mode = power::budget_mode::shares)
      : rules(rules_with(mode)), parent(rules, terms, 1, now_ns) {
    for (const auto& t : terms) children.emplace_back(t.static_share_mw, 1, t.static_share_mw);
  }
  void new_parent(uint64_t epoch) { parent = power::budget_policy(rules, terms, epoch, now_ns); }

  /// A second: children report, the parent grants, caps come into force.
  void tick() {
    now_ns += budget_second;
    for (size_t i = 0; i < children.size(); ++i) {
      const auto cap = children[i].tick(now_ns);
      if (obeys[i]) children[i].read_back(cap);
      auto told = children[i].report(now_ns, draws[i], wishes[i]);
      told.works = works[i];
      told.held = held[i];
      told.actuation_ns = acts_ns[i];
      told.in_force_mw = claims[i].value_or(told.in_force_mw);
      if (speaks[i]) parent.hear(i, told, now_ns);
    }
    last = parent.tick(own, seen, now_ns);
    for (const auto& g : last.grants)
      if (speaks[g.child] && hears[g.child]) children[g.child].hear(g.grant, now_ns);
  }
  void ticks(int n) {
    for (int i = 0; i < n; ++i) tick();
  }
  std::vector<int64_t> caps() const {
    std::vector<int64_t> out;
    for (const auto& c : children) out.push_back(c.cap_mw());
    return out;
  }
};

}  // namespace troupe::test
