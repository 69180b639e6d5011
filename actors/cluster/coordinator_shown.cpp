// What the coordinator shows: its status, and who was turned away.
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/cluster/coordinating.hpp"
#include "actors/cluster/ingress.hpp"

namespace troupe::cluster::coordinating {

namespace {

/// In the order of the reasons.
constexpr std::array reasons{
    &fbs::TurnedAwayT::no_certificate, &fbs::TurnedAwayT::unknown_authority,
    &fbs::TurnedAwayT::expired,        &fbs::TurnedAwayT::bad_certificate,
    &fbs::TurnedAwayT::not_tls,        &fbs::TurnedAwayT::not_ours,
    &fbs::TurnedAwayT::hung_up,        &fbs::TurnedAwayT::impostor,
    &fbs::TurnedAwayT::too_slow,       &fbs::TurnedAwayT::crowded_out,
    &fbs::TurnedAwayT::no_key};
static_assert(reasons.size() == turned_away_count);

}  // namespace

void show(coordinator_pointer self) {
  const auto& st = self->state;
  publish(self,
          st.ended   ? "ending"
          : st.ready ? "running"
                     : "gathering",
          [&](fbs::CoordinatorStatusT& s) {
            s.members = static_cast<uint32_t>(st.members.size());
            s.spares = static_cast<uint32_t>(spares_of(st).size());
            s.spares_configured = static_cast<uint32_t>(st.record.plan.job.cluster.spares);
            s.evicted = st.evictions.all();
            for (const auto& [node, row] : st.rows)
              if (row < s.nodes.size()) s.nodes[row]->spare = !st.places.place_of(node);
            s.refused = st.membership->refused();
            s.turned_away = std::make_unique<fbs::TurnedAwayT>();
            s.turned_away->all = st.ingress.all();
            for (size_t i = 0; i < reasons.size(); ++i)
              (*s.turned_away).*reasons[i] = st.ingress.counts[i];
          });
}

void watch_ingress(coordinator_pointer self) {
  auto& st = self->state;
  auto now = ingress_seen();
  if (now.all() == st.ingress.all()) return;
  for (size_t i = 0; i < turned_away_count; ++i)
    if (st.ingress.counts[i] == 0 && now.counts[i] > 0)
      say(self,
          fmt::format("turned away a connection from {}: {} (`troupe status coordinator` counts "
                      "further ones)",
                      now.last_address[i], in_words(static_cast<turned_away>(i))),
          fbs::NoticeLevel::warning);
  st.ingress = std::move(now);
  show(self);
}

}  // namespace troupe::cluster::coordinating
