// Meter, vitals and medic of a node, and what its heartbeats quote of them.
#include "actors/cluster/node_companions.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "actors/base/blocking.hpp"
#include "actors/base/context.hpp"
#include "actors/base/hardware.hpp"
#include "actors/health/medic.hpp"
#include "actors/health/rank_vitals.hpp"
#include "actors/health/vitals.hpp"
#include "actors/power/meter.hpp"
#include "actors/power/readings.hpp"

namespace troupe::cluster {

meter_actor make_meter(node_pointer self, uint32_t epoch) {
  const auto& o = self->state.options;
  const auto& p = self->state.job->power;
  if (p.meter_interval_ms <= 0) return {};
  const gpu::power_model model{p.model_idle_w, p.model_core_w};
  return spawn_blocking(
      self, power::meter,
      power::meter_options{o.name, epoch, p.meter_interval_ms, machine_of(o.host->facts()),
                           [under = o.host, model] { return under->open_meters(model); },
                           [under = o.host] { return under->processor_time(); }});
}

vitals_actor make_vitals(node_pointer self, uint32_t epoch) {
  const auto& st = self->state;
  auto open = st.options.host->vitals_of(*st.job);
  if (!open) return {};
  return spawn_blocking(self, health::vitals,
                        health::vitals_options{st.options.name, epoch, std::move(open)});
}

medic_actor make_medic(node_pointer self, uint32_t epoch) {
  auto& st = self->state;
  auto examine = st.options.host->examiner_of(st.job->job.output);
  if (!examine) return {};
  return spawn_blocking(
      self, health::medic,
      health::medic_options{st.options.name, epoch, st.coordinator, std::move(examine),
                            st.examining.get_token(), st.options.advertise});
}

void dismiss(node_pointer self, std::string_view kind) {
  std::erase_if(self->state.companions, [&](const companion& c) {
    if (c.kind != kind) return false;
    self->demonitor(c.actor->address());
    self->send_exit(caf::actor_cast<caf::actor>(c.actor), caf::exit_reason::user_shutdown);
    return true;
  });
}

fbs::VitalsT vitals_of(node_pointer self) {
  const auto& st = self->state;
  fbs::VitalsT out;
  out.node = st.options.name;
  const auto told = std::min({st.stages.size(), st.workers.size(), health::most_ranks_told});
  for (size_t i = 0; i < told; ++i)
    if (const auto* stage = stats_of(st.stages[i]), *worker = stats_of(st.workers[i]);
        stage != nullptr && worker != nullptr) {
      const auto seen = worker->view();
      out.ranks.push_back(std::make_unique<fbs::RankVitalsT>(
          health::rank_vitals(st.ranks[i], stage->view(), seen, now_ns(*self))));
      out.rank_threads = std::max(out.rank_threads, health::rank_threads(seen));
    }
  if (const auto* sampled = st.vitals ? stats_of(st.vitals) : nullptr)
    if (const auto values = sampled->values(); values.vitals && values.vitals->machine) {
      out.machine = std::make_unique<fbs::MachineVitalsT>(*values.vitals->machine);
      health::shorten_for_beat(*out.machine, st.beats);
    }
  if (const auto* read = st.meter ? stats_of(st.meter) : nullptr)
    out.power = power::power_vitals(read->values(), now_ns(*self));
  return out;
}

}  // namespace troupe::cluster
