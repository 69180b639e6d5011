// The own cap of a budget below another one: which lease it holds there, what it has without one,
// and what it tells of it.
//
// Its children's caps are what it keeps its own by. So what is read back is what it counts for
// them, and where its process begins, what they tell is what it had. What its configuration gives
// it, or a person, is a bound beside the lease.
//
// Pure: it is told answers and sums, and handed the time.
//
// Invariants
//   NLP-1  It reports nothing before it is known what its children have. Until then its cap is the
//     sum of their static shares, out of which nobody is raised (BGT-1).
//   NLP-2  Its first cap is what its children tell as in force, at most that sum: a budget that was
//     never granted anything, with children that have nothing, has nothing (PWR-3).
//   NLP-3  While the budget above hears a later process at its place, or knows no child of its
//     name, it has nothing.
//   NLP-4  What is left of the lease is told in whole milliseconds, as messages have it: what is
//     granted out of less than one is no lease.
//   NLP-5  The brake above is on here as the last sound answer says, whether or not a lease is in
//     it, and no longer than the lease that is held (JLP-5).
#pragma once

#include <cstdint>
#include <optional>

#include "actors/power/budget_policy.hpp"
#include "actors/power/lease_policy.hpp"

namespace troupe::power {

/// What a budget tells of itself.
struct node_account {
  int64_t counted_mw = 0;  ///< the most that its children may draw
  std::optional<int64_t> drawn_mw = {};
  int64_t wish_mw = 0;
};

class node_lease_policy {
 public:
  /// `incarnation` is greater than that of any process before at this place. `shares_mw`: the sum
  /// of its children's static shares.
  node_lease_policy(uint64_t incarnation, int64_t shares_mw)
      : incarnation_(incarnation), shares_mw_(shares_mw) {}

  /// What its children have is known: they tell that together. Once. NLP-1, NLP-2
  void begin(int64_t told_mw) { lease_.emplace(shares_mw_, incarnation_, told_mw); }
  bool has_begun() const { return lease_.has_value(); }

  /// Once it has begun. `taken`: the answer is to this process and sound, whether or not a lease is
  /// in it.
  grant_verdict hear(const power_answer& a, int64_t now_ns);
  /// NLP-3; until it is answered again.
  void refused() { is_refused_ = true; }
  /// Once a tick. `bound_mw`: what its configuration or a person lets it have.
  own_cap tick(int64_t bound_mw, int64_t now_ns);
  /// What is left of its lease; 0: it has none.
  int64_t left_ns(int64_t now_ns) const {
    return lease_ && !is_refused_ ? lease_->left_ns(now_ns) : 0;
  }
  /// As of the last tick. NLP-5
  bool is_braked() const { return is_braked_; }
  /// Once it has begun.
  power_report report(int64_t now_ns, const node_account& account);

 private:
  uint64_t incarnation_;
  int64_t shares_mw_;
  bool is_refused_ = false;
  bool told_brake_ = false, is_braked_ = false;
  std::optional<lease_policy> lease_;
};

}  // namespace troupe::power
