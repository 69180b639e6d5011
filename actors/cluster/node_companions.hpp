// What lives as long as a node (its meter, its vitals, its medic, its voter): how it is made, kept
// and dismissed, and what is asked of it. For node.cpp alone; the invariants stand in node.hpp.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <caf/result.hpp>

#include "actors/base/ask.hpp"
#include "actors/cluster/node.hpp"

namespace troupe::cluster {

/// None where no interval is given.
meter_actor make_meter(node_pointer self, uint32_t epoch);
/// None where the host has nothing to sample.
vitals_actor make_vitals(node_pointer self, uint32_t epoch);
/// None where the host has nothing to examine.
medic_actor make_medic(node_pointer self, uint32_t epoch);

/// Its death is heard of.
template <class Handle>
Handle monitored(node_pointer self, Handle actor) {
  self->monitor(actor);
  return actor;
}

/// Ends one of its companions, whose death is then no news.
void dismiss(node_pointer self, std::string_view kind);

/// Keeps an actor for as long as the node lives, where there is one.
template <class Handle>
Handle keep(node_pointer self, std::string_view kind, Handle actor) {
  if (actor)
    self->state.companions.push_back(
        {kind, caf::actor_cast<caf::strong_actor_ptr>(monitored(self, actor))});
  return actor;
}

/// How the ranks and the machine are, as they published it: nobody is waited for.
fbs::VitalsT vitals_of(node_pointer self);

/// Its medic's answer, where it has one.
template <class T, class R>
auto by_medic(node_pointer self) {
  return [self](const msg<T>& m) -> caf::result<msg<R>> {
    const auto& all = self->state.companions;
    const auto medic =
        std::find_if(all.begin(), all.end(), [](const companion& c) { return c.kind == "medic"; });
    if (medic == all.end()) return to_caf(no_medic(self->state.options.name));
    auto rp = self->make_response_promise<msg<R>>();
    ask_for<R>(
        self, caf::actor_cast<medic_actor>(medic->actor), m,
        {fmt::format("medic/{}", self->state.options.name), std::string(message_traits<R>::name)},
        [rp](const msg<R>& r) mutable { rp.deliver(r); },
        [rp](const error& e) mutable { rp.deliver(to_caf(e)); });
    return rp;
  };
}

}  // namespace troupe::cluster
