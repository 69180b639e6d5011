// Ticks, readings, counters.
#include "actors/power/meter.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/trace/export_text.hpp"
#include "actors/trace/filter_policy.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

fbs::MeteredKind kind_of(gpu::metered_kind kind) {
  switch (kind) {
    case gpu::metered_kind::accelerator:
      return fbs::MeteredKind::accelerator;
    case gpu::metered_kind::package:
      return fbs::MeteredKind::package;
    case gpu::metered_kind::sensor:
      break;
  }
  return fbs::MeteredKind::sensor;
}

/// As messages say that nothing is known; no device is colder or draws less.
constexpr double no_power = -1, no_temperature = -300;

bool is_known(double value, double none) {
  return value > none;
}

/// "gpu0 W", "gpu0 C"; of the whole "W" and "C".
void count(meter_pointer self, const std::string& device, double power_w, double temperature_c) {
  const auto one = [&](const char* unit, double value, double none) {
    if (!is_known(value, none)) return;
    const auto name = device.empty() ? std::string(unit) : fmt::format("{} {}", device, unit);
    record_counter({work_name(name), self->card().number(), self->state.last.at_ns, value});
  };
  one("W", power_w, no_power);
  one("C", temperature_c, no_temperature);
}

void look(meter_pointer self) {
  auto& st = self->state;
  if (!std::exchange(st.opened, true))
    st.readers = st.options.open ? st.options.open() : gpu::open_machine_readers();
  if (st.readers.empty()) {
    publish(self, "nothing to read");
    return;
  }
  const auto at_ns = now_ns(*self);
  std::vector<gpu::metered> all;
  for (const auto& reader : st.readers)
    for (auto& m : reader->read(at_ns)) all.push_back(std::move(m));
  st.last = readings_of(all);
  st.last.node = st.options.node;
  st.last.at_ns = at_ns;
  st.last.interval_ms = static_cast<uint32_t>(st.options.interval_ms);
  count(self, "", st.last.power_w, st.last.temperature_c);
  for (const auto& d : st.last.devices) count(self, d->device, d->power_w, d->temperature_c);
  publish(self, "reading", detail_of(st.last));
  self->delayed_send(self, std::chrono::milliseconds(st.options.interval_ms), caf::tick_atom_v);
}

}  // namespace

fbs::MeterReadingsT readings_of(const std::vector<gpu::metered>& devices) {
  fbs::MeterReadingsT out;
  std::optional<double> power, warmest;
  for (const auto& m : devices) {
    auto& d = *out.devices.emplace_back(std::make_unique<fbs::DeviceReadingT>());
    d.device = m.device;
    d.kind = kind_of(m.kind);
    d.power_w = m.power_w.value_or(no_power);
    d.limit_w = m.limit_w.value_or(no_power);
    d.temperature_c = m.temperature_c.value_or(no_temperature);
    d.busy_percent = m.busy_percent.value_or(no_power);
    if (m.power_w && m.kind != gpu::metered_kind::sensor) power = power.value_or(0) + *m.power_w;
    if (m.temperature_c) warmest = std::max(warmest.value_or(*m.temperature_c), *m.temperature_c);
  }
  out.power_w = power.value_or(no_power);
  out.temperature_c = warmest.value_or(no_temperature);
  return out;
}

std::string detail_of(const fbs::MeterReadingsT& readings) {
  const auto shown = [](double value, double none) {
    return is_known(value, none) ? fmt::format("{:.1f}", value) : std::string("null");
  };
  auto out =
      fmt::format(R"({{"power_w":{},"temperature_c":{},"devices":[)",
                  shown(readings.power_w, no_power), shown(readings.temperature_c, no_temperature));
  const char* before = "";
  for (const auto& d : readings.devices) {
    out += fmt::format(R"({}{{"device":{})", before, trace::json_string(d->device));
    before = ",";
    for (const auto& [name, value, none] : {std::tuple("power_w", d->power_w, no_power),
                                            {"limit_w", d->limit_w, no_power},
                                            {"temperature_c", d->temperature_c, no_temperature},
                                            {"busy_percent", d->busy_percent, no_power}})
      if (is_known(value, none)) out += fmt::format(R"(,"{}":{:.1f})", name, value);
    out += "}";
  }
  return out + "]}";
}

meter_actor::behavior_type meter(meter_pointer self, meter_options options) {
  guard_mailbox(self);
  introduce(self, fmt::format("meter/{}", options.node));
  auto& st = self->state;
  st.options = std::move(options);
  publish(self, "opening");
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
          r.power_w = last.power_w;
          r.temperature_c = last.temperature_c;
          for (const auto& d : last.devices)
            if (trace::glob_match(wanted, d->device))
              r.devices.push_back(std::make_unique<fbs::DeviceReadingT>(*d));
        });
      },
      [self](caf::tick_atom) { look(self); },
  };
}

}  // namespace troupe::power
