// What is heard, and what lapses.
#include "actors/power/lease_policy.hpp"

namespace troupe::power {

grant_verdict lease_policy::hear(const power_grant& g, int64_t now_ns) {
  if (g.answers.incarnation != incarnation_) return grant_verdict::not_to_us;
  const auto sent_ns = g.answers.sent_ns;
  if (g.cap_mw < 0 || g.cap_mw > beyond_mw || g.ttl_ns <= 0 || sent_ns < 0 || sent_ns > now_ns ||
      g.ttl_ns > std::numeric_limits<int64_t>::max() - sent_ns || g.order.epoch > beyond_lives)
    return grant_verdict::impossible;
  if (g.order < order_) return grant_verdict::older;  // PWR-2
  const int64_t until_ns = sent_ns + g.ttl_ns;
  if (now_ns >= until_ns) return grant_verdict::late;  // PWR-2
  // Renewals overtake each other: the one that answers the later report holds.
  until_ns_ = g.order == order_ ? std::max(until_ns_, until_ns) : until_ns;
  if (g.order.epoch > order_.epoch) first_ = g.order;
  cap_mw_ = g.order == first_ ? std::min(cap_mw_, g.cap_mw) : g.cap_mw;  // LSE-2
  order_ = g.order;
  shed_ = g.shed;
  return grant_verdict::taken;
}

int64_t lease_policy::tick(int64_t now_ns) {
  // What was granted and lapsed before it was commanded was never in force. PWR-2
  if (!is_leased(now_ns)) cap_mw_ = std::min({cap_mw_, commanded_mw_, static_share_mw_});
  under_way_.forget(now_ns);
  if (cap_mw_ != commanded_mw_) under_way_.ended(commanded_mw_, now_ns);
  return commanded_mw_ = cap_mw_;
}

}  // namespace troupe::power
