// What `troupe power tree` says of a budget and its children. Text from an actor's answer, so that
// tests hold it; nothing here reads a clock or a network.
#pragma once

#include <cstdint>
#include <string>

#include "io/base/result.hpp"
#include "messages/schemas/power_generated.h"

namespace troupe::apps::power_verb {

/// "row0   shares  ~61.3 of 70 W  88 %", and a line for each child under it.
std::string tree_text(const fbs::PowerTreeT& tree);
/// The same as a JSON object, a line.
std::string tree_json(const fbs::PowerTreeT& tree);

/// Gauges in Prometheus's text format, for node_exporter's textfile collector.
std::string tree_prometheus(const fbs::PowerTreeT& tree);

/// Why it has what it has: "set by alice, for 1:59:00 more", "by demand.csv"; empty: by its
/// configuration.
std::string cause_text(const fbs::PowerTreeT& tree);
/// "its steps of 1.02 s shifted by 510 ms 41 s ago"; empty: none of its steps was held back.
std::string offset_text(const fbs::PowerChildT& child);
/// "12 s", "2:00:00".
std::string time_text(uint64_t ms);

/// "60" and "60W", in milliwatts: above 0, at most 1e9 W. Errors: usage.
result<int64_t> milliwatts_in(const std::string& text);

/// "2h", "90s", "1.5d" in milliseconds, at most 366 days. Errors: usage.
result<uint64_t> milliseconds_in(const std::string& text);

}  // namespace troupe::apps::power_verb
