// Lookups by hand: there are a few thousand nodes and a few incidents a day.
#include "actors/sim/days/day_nodes.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/job/replicas_policy.hpp"

namespace troupe::sim {

day_nodes::day_nodes(const config::job& job, int spares) {
  for (const auto n : train::replica_counts(job))
    counts_.push_back({n, static_cast<int>(train::places_for(job, n))});
  used_ = counts_.front().places = static_cast<int>(job.cluster.places());
  replicas_ = counts_.front().replicas;
  all_.resize(static_cast<size_t>(used_ + spares));
  in_.resize(static_cast<size_t>(used_));
  for (int place = 0; place < used_; ++place) put(place, place);
}

void day_nodes::put(int who, int place) {
  in_[static_cast<size_t>(place)] = who;
  at(who).place = place;
}

int day_nodes::nodes_there(int64_t now_ns) const {
  return static_cast<int>(
      std::ranges::count_if(all_, [&](const node& n) { return n.joined_ns <= now_ns; }));
}

int day_nodes::place_of(int who) const {
  return is_free(at(who)) ? -1 : at(who).place;
}

int day_nodes::spares(int64_t now_ns) const {
  return static_cast<int>(std::ranges::count_if(
      all_, [&](const node& n) { return is_free(n) && n.joined_ns <= now_ns; }));
}

void day_nodes::fall_sick(int who, sickness what, int64_t until_ns) {
  at(who).what = what;
  at(who).sick_until_ns = until_ns;
}

int day_nodes::place_of_sick(sickness what, int64_t now_ns) const {
  for (int place = 0; place < used_; ++place)
    if (const auto& n = at(node_in(place)); n.what == what && is_sick(n, now_ns)) return place;
  return -1;
}

void day_nodes::lose(int place, int64_t joins_ns, int64_t later_ns, int64_t now_ns) {
  auto& n = at(node_in(place));
  n.joined_ns = joins_ns;
  n.later_ns = later_ns;
  evictions_.note_loss(std::to_string(node_in(place)), now_ns);
}

/// EVC-3: who was never lost, then whose loss is the longest ago; of these the first.
int day_nodes::candidate(int64_t now_ns) const {
  int best = -1;
  std::optional<int64_t> lost_ns;
  for (int who = 0; who < std::ssize(all_); ++who) {
    if (!is_free(at(who)) || at(who).joined_ns > now_ns) continue;
    const auto last = evictions_.last_loss_ns(std::to_string(who));
    if (best >= 0 && last >= lost_ns) continue;
    best = who;
    lost_ns = last;
    if (!last) break;
  }
  return best;
}

void day_nodes::fill(int64_t back_ns, int64_t now_ns) {
  for (int place = 0; place < used_; ++place) {
    const auto from = node_in(place);
    if (at(from).joined_ns <= now_ns) continue;
    const auto to = candidate(now_ns);
    if (to < 0) return;
    const auto idle = at(to).place;
    at(from).place = -1;
    if (idle >= 0)
      put(from, idle);  // PLA-5
    else
      ++spares_used_;
    put(to, place);
    at(from).joined_ns = std::max(at(from).joined_ns, at(from).later_ns);
    evict_if_unreliable(from, back_ns, now_ns);
  }
}

/// EVC-2; it is let in again once it was repaired.
void day_nodes::evict_if_unreliable(int who, int64_t back_ns, int64_t now_ns) {
  const auto name = std::to_string(who);
  if (!evictions_.is_unreliable(name, now_ns)) return;
  healthy_evicted_ += !is_sick(at(who), now_ns);
  at(who).joined_ns = std::max(at(who).joined_ns, back_ns);
  at(who).what = sickness::none;
  evictions_.admit(name);
}

int64_t day_nodes::whole_at_ns() const {
  int64_t out = 0;
  for (int place = 0; place < used_; ++place) out = std::max(out, at(node_in(place)).joined_ns);
  return out;
}

int64_t day_nodes::next_join_ns(int64_t now_ns, int64_t never_ns) const {
  for (const auto& n : all_)
    if (n.joined_ns > now_ns) never_ns = std::min(never_ns, n.joined_ns);
  return never_ns;
}

/// CRD-17.
void day_nodes::use(const count& c, int64_t back_ns, int64_t now_ns) {
  std::vector<int> lost;
  for (int place = 0; place < used_; ++place)
    if (at(node_in(place)).joined_ns > now_ns) lost.push_back(node_in(place));
  used_ = c.places;
  replicas_ = c.replicas;
  fill(back_ns, now_ns);
  for (const auto who : lost)
    if (is_free(at(who))) evict_if_unreliable(who, back_ns, now_ns);
}

bool day_nodes::use_fewer(int64_t back_ns, int64_t hosts_ns, int64_t now_ns) {
  const auto there = nodes_there(now_ns);
  const auto fewer = std::ranges::find_if(
      counts_, [&](const count& c) { return c.replicas < replicas_ && c.places <= there; });
  if (fewer == counts_.end()) return false;
  use(*fewer, back_ns, now_ns);
  auto missing = counts_.front().places - std::ranges::count_if(all_, [&](const node& n) {
                   return n.joined_ns <= hosts_ns;
                 });
  for (auto& n : all_) {
    if (missing <= 0) break;
    if (n.joined_ns <= hosts_ns) continue;
    n.joined_ns = hosts_ns;
    n.what = sickness::none;
    --missing;
  }
  return true;
}

bool day_nodes::may_grow(int64_t now_ns) const {
  if (has_all_replicas()) return false;
  const auto there = nodes_there(now_ns);
  return std::ranges::any_of(
      counts_, [&](const count& c) { return c.replicas > replicas_ && c.places <= there; });
}

void day_nodes::use_more(int64_t back_ns, int64_t now_ns) {
  const auto there = nodes_there(now_ns);
  for (const auto& c : counts_)
    if (c.replicas > replicas_ && c.places <= there) return use(c, back_ns, now_ns);
}

void day_nodes::mend(int64_t now_ns) {
  used_ = counts_.front().places;
  replicas_ = counts_.front().replicas;
  for (int place = 0; place < used_; ++place) {
    const auto who = node_in(place);
    auto& n = at(who);
    if (n.joined_ns > now_ns || n.what != sickness::none) evictions_.admit(std::to_string(who));
    n.joined_ns = std::min(n.joined_ns, now_ns);
    n.what = sickness::none;
  }
}

}  // namespace troupe::sim
