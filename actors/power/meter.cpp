// Ticks, readings, counters.
#include "actors/power/meter.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/power/readings.hpp"
#include "io/base/text.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

/// Seconds a second; -1: not known.
double busy_between(double before_s, double now_s, int64_t time_ns) {
  if (before_s < 0 || now_s < 0 || time_ns <= 0) return -1;
  return std::max(0.0, now_s - before_s) / (static_cast<double>(time_ns) * 1e-9);
}

/// Since the reading before.
void put_processor_time(meter_state& st, const fbs::MeterReadingsT& last,
                        fbs::MeterReadingsT& into) {
  if (!st.options.processor_time) return;
  const auto time_ns = into.at_ns - last.at_ns;
  if (2 * time_ns < st.options.interval_ms * ns_per_ms) {  // behind a late one: of ticks of 10 ms
    into.process_busy = last.process_busy;
    into.machine_busy = last.machine_busy;
    return;
  }
  const auto now = st.options.processor_time();
  const auto before = std::exchange(st.processor_time, now);
  into.process_busy = busy_between(before.process_s, now.process_s, time_ns);
  into.machine_busy = busy_between(before.machine_s, now.machine_s, time_ns);
}

void look(meter_pointer self) {
  auto& st = self->state;
  if (!std::exchange(st.opened, true)) st.readers = st.options.open();
  if (st.readers.empty()) {
    publish(self, "nothing to read");
    return;
  }
  const auto at_ns = now_ns(*self);
  std::vector<gpu::metered> all;
  for (const auto& reader : st.readers)
    for (auto& m : reader->read(at_ns)) all.push_back(std::move(m));
  const auto interval_ns = st.options.interval_ms * ns_per_ms;
  if (!st.energy) st.energy.emplace(interval_ns);
  st.energy->add(all, at_ns);
  const auto before = std::exchange(st.last, readings_of(all));
  st.last.node = st.options.node;
  st.last.machine = st.options.machine;
  st.last.at_ns = at_ns;
  st.last.interval_ms = static_cast<uint32_t>(st.options.interval_ms);
  put_processor_time(st, before, st.last);
  for (const auto& c : counters_of(st.last))
    self->runtime().records.note(
        counter_note{work_name(c.name), self->stats().number(), at_ns, c.value});
  publish(self, "reading", [&](fbs::MeterStatusT& s) {
    fbs::MeterReadingsT last(st.last);
    s.power_w = last.power_w;
    s.temperature_c = last.temperature_c;
    s.devices = std::move(last.devices);
    s.machine = last.machine;
    s.read_at_ns = last.at_ns;
    s.interval_ms = last.interval_ms;
    s.source = last.source;
    s.energy_j = last.energy_j;
    s.process_busy = last.process_busy;
    s.machine_busy = last.machine_busy;
  });
  const auto now = now_ns(*self);
  st.due_ns = next_due_ns(st.due_ns == 0 ? at_ns : st.due_ns, now, interval_ns);
  self->delayed_send(self, std::chrono::nanoseconds(st.due_ns - now), caf::tick_atom_v);
}

}  // namespace

meter_actor::behavior_type meter(meter_pointer self, meter_options options) {
  guard_mailbox(self);
  introduce(self, fmt::format("meter/{}", options.node), options.epoch);
  auto& st = self->state;
  st.options = std::move(options);
  publish(self, "opening", [](fbs::MeterStatusT&) {});
  self->send(self, caf::tick_atom_v);
  return {
      status_handler(self),
      [self](const msg<fbs::ReadMeters>& m) {
        const auto wanted = text_of(m->device());  // empty: all
        const auto& last = self->state.last;
        return make_msg<fbs::MeterReadings>(context_of(*self, m.header()), [&](auto& r) {
          r.node = self->state.options.node;
          r.at_ns = last.at_ns;
          r.interval_ms = last.interval_ms;
          r.machine = last.machine;
          r.power_w = last.power_w;
          r.source = last.source;
          r.energy_j = last.energy_j;
          r.process_busy = last.process_busy;
          r.machine_busy = last.machine_busy;
          r.temperature_c = last.temperature_c;
          for (const auto& d : last.devices)
            if (glob_match(wanted, d->device))
              r.devices.push_back(std::make_unique<fbs::DeviceReadingT>(*d));
        });
      },
      [self](caf::tick_atom) { look(self); },
  };
}

}  // namespace troupe::power
