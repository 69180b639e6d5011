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

/// As messages say that nothing is known; no device is colder or draws less.
constexpr double no_power = -1, no_temperature = -300;

bool is_known(double value, double none) {
  return value > none;
}

}  // namespace

fbs::MeterReadingsT readings_of(const std::vector<gpu::metered>& devices) {
  fbs::MeterReadingsT out;
  std::optional<double> power, sensed, warmest;
  for (const auto& m : devices) {
    auto& d = *out.devices.emplace_back(std::make_unique<fbs::DeviceReadingT>());
    d.device = m.device;
    d.kind = kind_of(m.kind);
    d.power_w = m.power_w.value_or(no_power);
    d.limit_w = m.limit_w.value_or(no_power);
    d.temperature_c = m.temperature_c.value_or(no_temperature);
    d.busy_percent = m.busy_percent.value_or(no_power);
    if (m.power_w && m.kind == gpu::metered_kind::sensor) {
      sensed = std::max(sensed.value_or(*m.power_w), *m.power_w);
    } else if (m.power_w) {
      power = power.value_or(0) + *m.power_w;
    }
    if (m.temperature_c) warmest = std::max(warmest.value_or(*m.temperature_c), *m.temperature_c);
  }
  out.power_w = power.value_or(sensed.value_or(no_power));
  out.temperature_c = warmest.value_or(no_temperature);
  return out;
}

std::vector<reading_counter> counters_of(const fbs::MeterReadingsT& readings) {
  std::vector<reading_counter> out;
  const auto add = [&](const std::string& device, double power_w, double temperature_c) {
    const auto before = device.empty() ? device : device + " ";
    if (is_known(power_w, no_power)) out.push_back({before + "W", power_w});
    if (is_known(temperature_c, no_temperature)) out.push_back({before + "C", temperature_c});
  };
  add("", readings.power_w, readings.temperature_c);
  for (const auto& d : readings.devices) add(d->device, d->power_w, d->temperature_c);
  return out;
}

}  // namespace troupe::power
