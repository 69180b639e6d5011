// Readings to a table and to JSON.
#include "apps/gpu/devices.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "trace/text.hpp"

namespace troupe::apps {

namespace {

using json = nlohmann::ordered_json;
using gpu::nvml::gpu_meter;
using gpu::nvml::gpu_reading;

std::string with_unit(const std::optional<uint64_t>& value, const char* unit) {
  return value ? fmt::format("{}{}", *value, unit) : "-";
}

std::string power_text(const gpu_reading& r) {
  if (!r.power_mw) return "-";
  const auto watts = [](uint64_t mw) { return (mw + 500) / 1000; };
  return r.power_limit_mw ? fmt::format("{}/{} W", watts(*r.power_mw), watts(*r.power_limit_mw))
                          : fmt::format("{} W", watts(*r.power_mw));
}

std::string memory_text(const gpu_reading& r) {
  if (!r.memory_used_bytes || !r.memory_total_bytes) return "-";
  constexpr double gib = 1 << 30;
  return fmt::format("{:.1f}/{:.1f} GiB", static_cast<double>(*r.memory_used_bytes) / gib,
                     static_cast<double>(*r.memory_total_bytes) / gib);
}

std::string ecc_text(const gpu_reading& r) {
  if (!r.ecc_corrected || !r.ecc_uncorrected) return "-";
  return fmt::format("{}/{}", *r.ecc_corrected, *r.ecc_uncorrected);
}

std::string slowed_text(const gpu_reading& r) {
  if (!r.slowed_by) return "-";
  return r.slowed_by->empty() ? "no" : fmt::format("{}", fmt::join(*r.slowed_by, ", "));
}

std::string name_of(const seen_gpu& g) {
  const auto name = g.driver && !g.driver->name.empty() ? g.driver->name
                    : g.cuda                            ? g.cuda->name
                                                        : std::string("no answer");
  return g.driver ? fmt::format("{} {}", g.driver->index, name) : name;
}

std::vector<std::string> row_of(const seen_gpu& g) {
  const auto r = g.reading.value_or(gpu_reading{});
  return {name_of(g),
          g.cuda ? fmt::format("{} {}", g.cuda->ordinal, g.cuda->instruction_set) : "-",
          with_unit(r.busy_percent, " %"),
          power_text(r),
          memory_text(r),
          with_unit(r.sm_mhz, " MHz"),
          r.temperature_c ? fmt::format("{} C", *r.temperature_c) : "-",
          ecc_text(r),
          slowed_text(r)};
}

template <class T>
json known(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json facts_of(const gpu_reading& r) {
  return {{"power_mw", known(r.power_mw)},
          {"power_limit_mw", known(r.power_limit_mw)},
          {"energy_mj", known(r.energy_mj)},
          {"sm_mhz", known(r.sm_mhz)},
          {"memory_mhz", known(r.memory_mhz)},
          {"temperature_c", known(r.temperature_c)},
          {"busy_percent", known(r.busy_percent)},
          {"memory_busy_percent", known(r.memory_busy_percent)},
          {"memory_used_bytes", known(r.memory_used_bytes)},
          {"memory_total_bytes", known(r.memory_total_bytes)},
          {"ecc_corrected", known(r.ecc_corrected)},
          {"ecc_uncorrected", known(r.ecc_uncorrected)},
          {"slowed_by", known(r.slowed_by)}};
}

json facts_of(const gpu::cuda_facts& c) {
  return {{"ordinal", c.ordinal},
          {"name", c.name},
          {"uuid", c.uuid},
          {"instruction_set", c.instruction_set},
          {"multiprocessors", c.multiprocessors},
          {"memory_bytes", c.memory_bytes}};
}

/// The devices that the driver knows, each with its reading or why there is none.
std::vector<seen_gpu> by_driver(const gpu_meter& meter) {
  std::vector<seen_gpu> out;
  for (const auto& d : meter.devices()) {
    auto& g = out.emplace_back();
    g.driver = d;
    if (auto r = meter.read(d.index))
      g.reading = *r;
    else
      g.trouble = r.error().message;
  }
  return out;
}

}  // namespace

result<gpu_picture> look(const gpu_meter* meter, const error& why,
                         const result<std::vector<gpu::cuda_facts>>& cuda) {
  gpu_picture p;
  if (meter) {
    p.driver_version = meter->driver_version();
    p.devices = by_driver(*meter);
  } else {
    p.driver_trouble = why.message;
  }
  if (!cuda) {
    p.cuda_trouble = cuda.error().message;
    if (!meter) return why;
    return p;
  }
  for (const auto& c : *cuda) {
    const auto same = std::find_if(p.devices.begin(), p.devices.end(), [&](const seen_gpu& g) {
      return g.driver && g.driver->uuid == c.uuid;
    });
    (same != p.devices.end() ? *same : p.devices.emplace_back()).cuda = c;
  }
  return p;
}

std::string gpu_text(const gpu_picture& p, int columns) {
  std::vector<std::vector<std::string>> rows{
      {"GPU", "CUDA", "busy", "power", "memory", "SM clock", "heat", "ECC cor/unc", "slowed by"}};
  for (const auto& g : p.devices) rows.push_back(row_of(g));
  auto out = trace::table_text(rows, columns);
  if (!p.driver_version.empty()) out += fmt::format("driver {}\n", p.driver_version);
  for (const auto& g : p.devices)
    if (!g.trouble.empty()) out += g.trouble + "\n";
  for (const auto& x : p.xids)
    out += fmt::format("GPU {}: Xid {} (docs.nvidia.com/deploy/xid-errors)\n", x.index, x.xid);
  if (!p.driver_trouble.empty()) out += "no meters: " + p.driver_trouble + "\n";
  if (!p.cuda_trouble.empty()) out += "not usable for training: " + p.cuda_trouble + "\n";
  return out;
}

std::string gpu_json(const gpu_picture& p) {
  json j{{"format", 1}, {"driver", p.driver_version}};
  const auto trouble = [](const std::string& text) { return text.empty() ? json() : json(text); };
  j["driver_trouble"] = trouble(p.driver_trouble);
  j["cuda_trouble"] = trouble(p.cuda_trouble);
  j["devices"] = json::array();
  for (const auto& g : p.devices) {
    json d;
    d["index"] = g.driver ? json(g.driver->index) : json();
    d["name"] = g.driver ? g.driver->name : g.cuda->name;
    d["uuid"] = g.driver ? g.driver->uuid : g.cuda->uuid;
    d["trouble"] = trouble(g.trouble);
    d["reading"] = g.reading ? facts_of(*g.reading) : json();
    d["cuda"] = g.cuda ? facts_of(*g.cuda) : json();
    j["devices"].push_back(std::move(d));
  }
  j["xids"] = json::array();
  for (const auto& x : p.xids) j["xids"].push_back({{"index", x.index}, {"xid", x.xid}});
  return j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps
