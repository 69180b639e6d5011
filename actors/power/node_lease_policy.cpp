// Answers and sums to an own cap.
#include "actors/power/node_lease_policy.hpp"

#include <algorithm>

namespace troupe::power {

grant_verdict node_lease_policy::hear(const power_answer& a, int64_t now_ns) {
  if (a.grant.answers.incarnation != incarnation_) return grant_verdict::not_to_us;
  if (a.static_share_mw < 0 || a.static_share_mw > beyond_mw) return grant_verdict::impossible;
  lease_->set_static_share(a.static_share_mw);
  is_refused_ = false;
  const auto out = a.grant.order.epoch == 0 ? grant_verdict::taken : lease_->hear(a.grant, now_ns);
  if (out != grant_verdict::impossible) told_brake_ = a.brake;
  return out;
}

own_cap node_lease_policy::tick(int64_t bound_mw, int64_t now_ns) {
  constexpr int64_t ms_ns = 1'000'000;
  own_cap out{std::min(bound_mw, shares_mw_), false};
  if (!lease_) return out;
  out.cap_mw = std::min(bound_mw, lease_->tick(now_ns));
  out.leased = lease_->is_leased(now_ns) && !is_refused_;
  if (out.leased) out.left_ns = lease_->left_ns(now_ns) / ms_ns * ms_ns;  // NLP-4
  if (is_refused_) out.cap_mw = 0;
  is_braked_ = told_brake_ && lease_->is_leased(now_ns);  // NLP-5
  return out;
}

power_report node_lease_policy::report(int64_t now_ns, const node_account& account) {
  lease_->read_back(account.counted_mw);
  return lease_->report(now_ns, account.drawn_mw, account.wish_mw);
}

}  // namespace troupe::power
