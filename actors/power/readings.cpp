// Sums, the warmest, and what is known at all.
#include "actors/power/readings.hpp"

#include <algorithm>
#include <memory>
#include <optional>

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

fbs::PowerSource source_of(bool known, bool modelled) {
  if (!known) return fbs::PowerSource::unknown;
  return modelled ? fbs::PowerSource::modelled : fbs::PowerSource::measured;
}

/// As messages say that nothing is known; no device is colder or draws less.
constexpr double no_power = -1, no_temperature = -300;

bool is_known(double value, double none) {
  return value > none;
}

}  // namespace

double limit_of(const std::vector<std::unique_ptr<fbs::DeviceReadingT>>& devices) {
  double out = 0;
  bool any = false;
  for (const auto& d : devices) {
    if (d->kind == fbs::MeteredKind::sensor || !is_known(d->power_w, no_power)) continue;
    if (!is_known(d->limit_w, no_power)) return no_power;
    out += d->limit_w;
    any = true;
  }
  return any ? out : no_power;
}

fbs::MeterReadingsT readings_of(const std::vector<gpu::metered>& devices) {
  fbs::MeterReadingsT out;
  std::optional<double> power, warmest, energy;
  const gpu::metered* most = nullptr;  // of the sensors
  bool modelled = false;
  for (const auto& m : devices) {
    auto& d = *out.devices.emplace_back(std::make_unique<fbs::DeviceReadingT>());
    d.device = m.device;
    d.kind = kind_of(m.kind);
    d.power_w = m.power_w.value_or(no_power);
    d.limit_w = m.limit_w.value_or(no_power);
    d.temperature_c = m.temperature_c.value_or(no_temperature);
    d.busy_percent = m.busy_percent.value_or(no_power);
    d.source = source_of(m.power_w.has_value(), m.modelled);
    d.energy_j = m.energy_j.value_or(no_power);
    d.power_brake = m.power_brake;
    if (m.kind == gpu::metered_kind::sensor) {
      if (m.power_w && (most == nullptr || *m.power_w > *most->power_w)) most = &m;
    } else {
      if (m.power_w) power = power.value_or(0) + *m.power_w;
      if (m.energy_j) energy = energy.value_or(0) + *m.energy_j;
      modelled = modelled || (m.modelled && (m.power_w || m.energy_j));
    }
    if (m.temperature_c) warmest = std::max(warmest.value_or(*m.temperature_c), *m.temperature_c);
  }
  if (!power && most != nullptr) {
    power = most->power_w;
    energy = most->energy_j;
  }
  out.power_w = power.value_or(no_power);
  out.source = source_of(power.has_value(), modelled);
  out.energy_j = energy.value_or(no_power);
  out.temperature_c = warmest.value_or(no_temperature);
  return out;
}

std::unique_ptr<fbs::PowerVitalsT> power_vitals(const fbs::StatusValuesT& published,
                                                int64_t now_ns) {
  const auto& meter = published.meter;
  if (!meter || meter->read_at_ns == 0) return {};
  auto out = std::make_unique<fbs::PowerVitalsT>();
  out->machine = meter->machine;
  out->power_w = meter->power_w;
  out->source = meter->source;
  out->energy_j = meter->energy_j;
  out->age_ms = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - meter->read_at_ns)) / 1'000'000;
  out->interval_ms = meter->interval_ms;
  out->limit_w = limit_of(meter->devices);
  out->process_busy = meter->process_busy;
  out->machine_busy = meter->machine_busy;
  return out;
}

int64_t next_due_ns(int64_t due_ns, int64_t now_ns, int64_t interval_ns) {
  const auto late_ns = std::max<int64_t>(0, now_ns - due_ns);
  return due_ns + (late_ns / interval_ns + 1) * interval_ns;
}

std::vector<reading_counter> counters_of(const fbs::MeterReadingsT& readings) {
  std::vector<reading_counter> out;
  const auto add = [&](const std::string& device, const auto& r) {
    const auto before = device.empty() ? device : device + " ";
    const auto* watts = r.source == fbs::PowerSource::modelled ? "~W" : "W";
    if (is_known(r.power_w, no_power)) out.push_back({before + watts, r.power_w});
    if (is_known(r.temperature_c, no_temperature)) out.push_back({before + "C", r.temperature_c});
  };
  add("", readings);
  for (const auto& d : readings.devices) add(d->device, *d);
  return out;
}

}  // namespace troupe::power
