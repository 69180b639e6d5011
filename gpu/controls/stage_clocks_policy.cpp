// Looks ahead as far as setting a clock takes.
#include "gpu/controls/stage_clocks_policy.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe::gpu::controls {

namespace {

/// Operations are rarely done sooner than a profile says by more than this share.
constexpr double sooner_share = 0.02;

}  // namespace

stage_clocks_policy::stage_clocks_policy(std::vector<clocked_operation> order, double set_s)
    : order_(std::move(order)), set_s_(set_s) {
  assert(!order_.empty() && set_s >= 0);
}

/// The beginning of an operation may run at a higher clock, and then it ends sooner.
double stage_clocks_policy::lead_s(size_t i) const {
  const auto& o = order_[i];
  return set_s_ * std::max(1.0, o.lasts_s / o.shortest_s) + sooner_share * o.lasts_s;
}

std::optional<stage_clocks_policy::wish> stage_clocks_policy::began(size_t i) const {
  // Of the operations that begin before setting would have to, the nearest one that needs more.
  double ahead_s = order_[i].lasts_s;
  const double lead = lead_s(i);
  for (size_t k = i; k < i + order_.size(); ++k) {
    if (k > i && ahead_s - order_[i].lasts_s >= lead) break;
    const int mhz = after(k % order_.size()).mhz;
    if (mhz > order_[i].mhz) return wish{mhz, std::max(0.0, ahead_s - lead)};  // SCP-1
    ahead_s += after(k % order_.size()).lasts_s;
  }
  return std::nullopt;
}

std::optional<stage_clocks_policy::wish> stage_clocks_policy::ended(size_t i) const {
  if (after(i).mhz >= order_[i].mhz) return std::nullopt;
  // What comes behind it may need the clock there is, before another would be there.
  const auto next = (i + 1) % order_.size();
  if (const auto ahead = began(next); ahead && ahead->after_s <= 0) return std::nullopt;
  return wish{after(i).mhz, 0};
}

}  // namespace troupe::gpu::controls
