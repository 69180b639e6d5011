// How many replicas there are nodes for (CRD-17).
#include <algorithm>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/cluster/coordinating.hpp"
#include "actors/job/replicas_policy.hpp"

namespace troupe::cluster::coordinating {

namespace {

bool goes_on_with_fewer(const coordinator_state& st) {
  const auto& rules = st.record.plan.job.recovery;
  return rules.enabled && rules.fewer_replicas && st.places.is_fixed();
}

/// Whether each place that so many replicas need would have a node, if one of them left.
bool has_nodes_for(const coordinator_state& st, int64_t replicas,
                   std::optional<uint32_t> without = {}) {
  auto places = st.places;
  places.use(train::places_for(st.whole.job, replicas));
  auto spares = spares_of(st, places);
  if (without) std::erase_if(spares, [&](const auto& s) { return s.node == *without; });
  std::vector<uint32_t> lost;
  for (uint32_t place = 0; place < places.size(); ++place)
    if (const auto node = places.node_of(place); !is_there(st, node) || node == without)
      lost.push_back(place);
  return places.fill(lost, std::move(spares)).taken.size() == lost.size();
}

/// The largest number within [from, until) that has nodes.
std::optional<int64_t> largest(const coordinator_state& st, int64_t from, int64_t until,
                               std::optional<uint32_t> without = {}) {
  for (const auto n : st.replica_counts)
    if (n >= from && n < until && has_nodes_for(st, n, without)) return n;
  return std::nullopt;
}

void use_replicas(coordinator_pointer self, int64_t replicas) {
  auto& st = self->state;
  auto plan = train::with_replicas(st.whole, replicas);
  if (!plan) return give_up(self, plan.error());
  st.record.plan.ranks = std::move(plan->ranks);
  st.replicas = replicas;
  st.places.use(train::places_for(st.whole.job, replicas));
}

}  // namespace

bool go_on_with_fewer(coordinator_pointer self, const std::string& why) {
  auto& st = self->state;
  if (!goes_on_with_fewer(st) || !st.recovering || st.assigning || st.ended) return false;
  const auto fewer = largest(st, 1, st.replicas);
  if (!fewer) return false;
  std::vector<std::string> lost;
  for (const auto place : lost_places(st))
    lost.push_back(st.membership->names()[st.places.node_of(place)]);
  use_replicas(self, *fewer);
  say(self, fmt::format("{}: going on with {} of {} replicas", why, *fewer,
                        st.whole.job.parallel.data),
      fbs::NoticeLevel::warning);
  fill_places(self);
  for (const auto& name : lost)
    if (!has_place(st, name)) evict_if_unreliable(self, name);
  show(self);
  return true;
}

std::optional<int64_t> replicas_without(const coordinator_state& st, uint32_t node) {
  if (!goes_on_with_fewer(st)) return std::nullopt;
  return largest(st, 1, st.replicas, node);
}

void grow_back(coordinator_pointer self) {
  auto& st = self->state;
  const auto all = st.whole.job.parallel.data;
  if (!goes_on_with_fewer(st) || st.replicas == all) return;
  const auto more = largest(st, st.replicas + 1, all + 1);
  if (!more) return;
  use_replicas(self, *more);
  fill_places(self);
}

void ask_to_grow(coordinator_pointer self) {
  auto& st = self->state;
  const auto all = st.whole.job.parallel.data;
  const auto& rules = st.record.plan.job.recovery;
  if (st.replicas == all || !st.may_grow || !st.ready || st.ended || st.stopping) return;
  if (!st.leaving.empty() || !st.ordered_out.empty() || !lost_places(st).empty()) return;
  const auto now = now_ns(*self);
  if (st.asked_to_grow_ns && now - *st.asked_to_grow_ns < rules.return_s * 1000 * ns_per_ms)
    return;
  const auto more = goes_on_with_fewer(st) ? largest(st, st.replicas + 1, all + 1) : std::nullopt;
  st.may_grow = more.has_value();
  if (!more) return;
  st.asked_to_grow_ns = now;
  self->send(st.record.run, make_msg<fbs::ReleaseNode>(context(self), [&](auto& r) {
               r.reason = fmt::format("there are nodes for {} of {} replicas", *more, all);
               r.grows = true;
             }));
}

void recall_replicas(coordinator_pointer self, int64_t replicas) {
  const auto& counts = self->state.replica_counts;
  if (std::find(counts.begin(), counts.end(), replicas) != counts.end())
    use_replicas(self, replicas);
}

}  // namespace troupe::cluster::coordinating
