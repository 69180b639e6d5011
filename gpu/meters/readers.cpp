// NVML's devices, the kernel's energy counters, the kernel's sensors.
//
// Source of the files' names and units: Documentation/power/powercap/powercap.rst and
// Documentation/hwmon/sysfs-interface.rst of Linux.
#include "gpu/meters/readers.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "gpu/meters/nvml.hpp"

namespace troupe::gpu {

namespace {

// -- files of the kernel --------------------------------------------------------------------------

/// The first line of a file; nothing where it cannot be read.
std::optional<std::string> line_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<int64_t> number_of(const std::filesystem::path& file) {
  const auto line = line_of(file);
  if (!line) return std::nullopt;
  int64_t value = 0;
  const auto [end, bad] = std::from_chars(line->data(), line->data() + line->size(), value);
  if (bad != std::errc{} || end == line->data()) return std::nullopt;
  return value;
}

/// What stands in a folder, in the order of its names; "hwmon10" comes after "hwmon9".
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code bad;
  for (std::filesystem::directory_iterator it(folder, bad), end; !bad && it != end;
       it.increment(bad))
    out.push_back(it->path());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    const auto x = a.filename().string(), y = b.filename().string();
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  });
  return out;
}

/// The same name a second time is "name#2".
std::string unique(std::map<std::string, int>& used, const std::string& name) {
  const auto n = ++used[name];
  return n == 1 ? name : fmt::format("{}#{}", name, n);
}

template <class Reader>
result<std::unique_ptr<meter_reader>> if_any(std::unique_ptr<Reader> made, const char* what,
                                             const char* hint) {
  if (made->empty()) return error{errc::unavailable, fmt::format("there is no {}", what), hint};
  return std::unique_ptr<meter_reader>(std::move(made));
}

// -- GPUs -----------------------------------------------------------------------------------------

template <class T>
std::optional<double> times(const std::optional<T>& value, double unit) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value) * unit;
}

class gpu_reader final : public meter_reader {
 public:
  explicit gpu_reader(std::unique_ptr<nvml::gpu_meter> meter) : meter_(std::move(meter)) {}

  std::vector<metered> read(int64_t) override {
    std::vector<metered> out;
    for (const auto& device : meter_->devices()) {
      auto& m = out.emplace_back();
      m.device = fmt::format("gpu{}", device.index);
      m.kind = metered_kind::accelerator;
      const auto r = meter_->read(device.index);
      if (!r) continue;  // lost: it reports nothing
      m.power_w = times(r->power_mw, 1e-3);
      m.limit_w = times(r->power_limit_mw, 1e-3);
      m.temperature_c = times(r->temperature_c, 1);
      m.busy_percent = times(r->busy_percent, 1);
    }
    return out;
  }

 private:
  std::unique_ptr<nvml::gpu_meter> meter_;
};

// -- packages -------------------------------------------------------------------------------------

class package_reader final : public meter_reader {
 public:
  /// Zones are "intel-rapl:0" (on AMD, too), parts of them "intel-rapl:0:0". Cores and graphics are
  /// within the package's energy; memory is not.
  explicit package_reader(const std::filesystem::path& powercap) {
    std::map<std::string, int> used;
    for (const auto& entry : entries_of(powercap)) {
      const auto file = entry.filename().string();
      const auto parts = std::count(file.begin(), file.end(), ':');
      if (!file.starts_with("intel-rapl:") || !number_of(entry / "energy_uj")) continue;
      auto name = line_of(entry / "name").value_or(file);
      if (parts == 2 && name != "dram") continue;
      if (parts == 2)
        name =
            line_of(powercap / file.substr(0, file.rfind(':')) / "name").value_or(file) + "-dram";
      zones_.push_back({entry, unique(used, name), std::nullopt, 0});
    }
  }

  bool empty() const { return zones_.empty(); }

  std::vector<metered> read(int64_t now_ns) override {
    std::vector<metered> out;
    for (auto& z : zones_) {
      auto& m = out.emplace_back();
      m.device = z.name;
      m.kind = metered_kind::package;
      m.limit_w = times(number_of(z.folder / "constraint_0_power_limit_uw"), 1e-6);
      const auto energy = number_of(z.folder / "energy_uj");
      if (energy && z.last_uj && now_ns > z.last_ns) {
        auto used_uj = *energy - *z.last_uj;
        if (used_uj < 0)  // the counter went round
          used_uj += number_of(z.folder / "max_energy_range_uj").value_or(-used_uj);
        m.power_w = static_cast<double>(used_uj) * 1e3 / static_cast<double>(now_ns - z.last_ns);
      }
      z.last_uj = energy;
      z.last_ns = now_ns;
    }
    return out;
  }

 private:
  struct zone {
    std::filesystem::path folder;
    std::string name;
    std::optional<int64_t> last_uj;
    int64_t last_ns;
  };
  std::vector<zone> zones_;
};

// -- sensors --------------------------------------------------------------------------------------

class sensor_reader final : public meter_reader {
 public:
  explicit sensor_reader(const std::filesystem::path& hwmon) {
    std::map<std::string, int> used;
    for (const auto& folder : entries_of(hwmon)) {
      chip c;
      for (const auto& file : entries_of(folder)) {
        const auto name = file.filename().string();
        const bool input = name.ends_with("_input");
        if (name.starts_with("temp") && input && number_of(file)) c.temperatures.push_back(file);
        if (name.starts_with("power") && (input || name.ends_with("_average")) && number_of(file))
          c.powers.push_back(file);
      }
      if (c.temperatures.empty() && c.powers.empty()) continue;
      c.name = unique(used, line_of(folder / "name").value_or(folder.filename().string()));
      chips_.push_back(std::move(c));
    }
  }

  bool empty() const { return chips_.empty(); }

  std::vector<metered> read(int64_t) override {
    std::vector<metered> out;
    for (const auto& c : chips_) {
      auto& m = out.emplace_back();
      m.device = c.name;
      for (const auto& file : c.temperatures)
        if (const auto t = times(number_of(file), 1e-3))  // thousandths of a degree
          m.temperature_c = std::max(m.temperature_c.value_or(*t), *t);
      for (const auto& file : c.powers)
        if (const auto w = times(number_of(file), 1e-6)) m.power_w = m.power_w.value_or(0) + *w;
    }
    return out;
  }

 private:
  struct chip {
    std::string name;
    std::vector<std::filesystem::path> temperatures, powers;
  };
  std::vector<chip> chips_;
};

}  // namespace

result<std::unique_ptr<meter_reader>> open_gpu_reader() {
  TROUPE_TRY(functions, nvml::load());
  return open_gpu_reader(*functions);
}

result<std::unique_ptr<meter_reader>> open_gpu_reader(const nvml::library& functions) {
  TROUPE_TRY(meter, nvml::gpu_meter::open(functions));
  return std::unique_ptr<meter_reader>(std::make_unique<gpu_reader>(std::move(meter)));
}

result<std::unique_ptr<meter_reader>> open_package_reader(const std::filesystem::path& powercap) {
  return if_any(std::make_unique<package_reader>(powercap), "energy counter to read",
                "root may read them, where the processor has any");
}

result<std::unique_ptr<meter_reader>> open_sensor_reader(const std::filesystem::path& hwmon) {
  return if_any(std::make_unique<sensor_reader>(hwmon), "sensor of temperature or power",
                "virtual machines have none");
}

std::vector<std::unique_ptr<meter_reader>> open_machine_readers() {
  std::vector<std::unique_ptr<meter_reader>> out;
  if (auto gpus = open_gpu_reader()) out.push_back(std::move(*gpus));
  if (auto packages = open_package_reader()) out.push_back(std::move(*packages));
  if (auto sensors = open_sensor_reader()) out.push_back(std::move(*sensors));
  return out;
}

}  // namespace troupe::gpu
