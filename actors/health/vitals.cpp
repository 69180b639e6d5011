// Ticks and samples.
#include "actors/health/vitals.hpp"

#include <utility>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"

namespace troupe::health {

namespace {

void look(vitals_pointer self) {
  auto& st = self->state;
  if (!st.sample) st.sample = st.options.open();
  st.last = st.sample(now_ns(*self));
  publish(self, "sampling", [&](fbs::VitalsStatusT& s) {
    s.machine = std::make_unique<fbs::MachineVitalsT>(st.last);
  });
  self->delayed_send(self, defaults::vitals_period, caf::tick_atom_v);
}

}  // namespace

vitals_actor::behavior_type vitals(vitals_pointer self, vitals_options options) {
  guard_mailbox(self);
  introduce(self, fmt::format("vitals/{}", options.node), options.epoch);
  self->state.options = std::move(options);
  publish(self, "opening", [](fbs::VitalsStatusT&) {});
  self->send(self, caf::tick_atom_v);
  return {
      status_handler(self),
      [self](const msg<fbs::ReadVitals>& m) {
        return make_msg<fbs::MachineVitals>(context_of(*self, m.header()), self->state.last);
      },
      [self](caf::tick_atom) { look(self); },
  };
}

}  // namespace troupe::health
