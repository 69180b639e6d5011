// What readings of meters come to: as a message, as counters of the flight recorder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/meters/readers.hpp"
#include "messages/schemas/power_generated.h"
#include "messages/schemas/status_generated.h"

namespace troupe::power {

/// Readings as a message says them: with the sum over what can be added (where nothing can, the
/// sensor that says most: it contains the others or at least is not less), and the warmest of all.
/// `at_ns`, node and interval are left open.
fbs::MeterReadingsT readings_of(const std::vector<gpu::metered>& devices);

/// Of what a machine's power is the sum of, the limits together; -1: one of them says none.
double limit_of(const std::vector<std::unique_ptr<fbs::DeviceReadingT>>& devices);

/// What a heartbeat passes on of what a meter has published; null: it has read nothing yet.
std::unique_ptr<fbs::PowerVitalsT> power_vitals(const fbs::StatusValuesT& published,
                                                int64_t now_ns);

/// When the next reading is due after one that was at `due_ns`: the first whole interval after
/// `now_ns` (MTR-3 of meter.hpp).
int64_t next_due_ns(int64_t due_ns, int64_t now_ns, int64_t interval_ns);

/// A value of the flight recorder, by its name there.
struct reading_counter {
  std::string name;  ///< "gpu0 W", "gpu0 C"; of the whole "W" and "C"; "~W" what is calculated
  double value = 0;
};

/// All that is known.
std::vector<reading_counter> counters_of(const fbs::MeterReadingsT& readings);

}  // namespace troupe::power
