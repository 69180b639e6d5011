// NVML's devices, the kernel's energy counters, the kernel's sensors.
//
// Source of the files' names and units: Documentation/power/powercap/powercap.rst and
// Documentation/hwmon/sysfs-interface.rst of Linux.
#include "gpu/meters/readers.hpp"

#include <unistd.h>

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

/// Joules that a counter of energy has counted since its first look, over its restarts. None before
/// the second look; looks that do not have it are left out.
class joules_since_first {
 public:
  std::optional<double> count(std::optional<double> now_j) {
    if (now_j && last_j_) total_j_ = total_j_.value_or(0) + std::max(0.0, *now_j - *last_j_);
    if (now_j) last_j_ = now_j;
    return total_j_;
  }

 private:
  std::optional<double> last_j_, total_j_;
};

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
      m.energy_j =
          energy_[device.index].count(r ? times(r->energy_mj, 1e-3) : std::optional<double>{});
      if (!r) continue;  // lost: it reports nothing
      m.power_w = times(r->power_mw, 1e-3);
      m.limit_w = times(r->power_limit_mw, 1e-3);
      m.temperature_c = times(r->temperature_c, 1);
      m.busy_percent = times(r->busy_percent, 1);
      m.power_brake = r->power_brake;
    }
    return out;
  }

 private:
  std::unique_ptr<nvml::gpu_meter> meter_;
  std::map<int, joules_since_first> energy_;
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
      zones_.push_back({entry, unique(used, name)});
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
        if (const auto used_uj = used_since(z, *energy)) {
          m.power_w = static_cast<double>(*used_uj) * 1e3 / static_cast<double>(now_ns - z.last_ns);
          z.used_j = z.used_j.value_or(0) + static_cast<double>(*used_uj) * 1e-6;
        }
      }
      m.energy_j = z.used_j;
      if (!energy) continue;  // the next look's mean is over both intervals
      z.last_uj = energy;
      z.last_ns = now_ns;
    }
    return out;
  }

 private:
  struct zone {
    std::filesystem::path folder;
    std::string name;
    std::optional<int64_t> last_uj = {};
    int64_t last_ns = 0;
    std::optional<double> used_j = {};
  };

  /// Since the last look. None: the counter went round, and nobody knows at what.
  static std::optional<int64_t> used_since(const zone& z, int64_t now_uj) {
    const auto used_uj = now_uj - *z.last_uj;
    if (used_uj >= 0) return used_uj;
    const auto range_uj = number_of(z.folder / "max_energy_range_uj");
    if (!range_uj || *range_uj < *z.last_uj) return std::nullopt;
    return used_uj + *range_uj;
  }

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

// -- the model ------------------------------------------------------------------------------------

/// Of the whole machine, by the first lines of /proc/stat.
struct processor_time {
  int64_t busy_ticks = 0;  ///< of all processors, in the kernel's ticks
  int processors = 0;
};

std::optional<processor_time> processor_time_in(const std::filesystem::path& stat) {
  std::ifstream in(stat);
  processor_time out;
  std::string name, rest;
  int64_t user = 0, nice = 0, system = 0, idle = 0, waits = 0, hard = 0, soft = 0;
  if (!(in >> name >> user >> nice >> system >> idle >> waits >> hard >> soft) || name != "cpu")
    return std::nullopt;
  out.busy_ticks = user + nice + system + hard + soft;  // guests are in user's
  std::getline(in, rest);
  while (in >> name && name.starts_with("cpu") && std::getline(in, rest)) ++out.processors;
  if (std::min({user, nice, system, hard, soft}) < 0 || out.processors == 0) return std::nullopt;
  return out;
}

double ticks_per_s() {
  return static_cast<double>(sysconf(_SC_CLK_TCK));
}

class model_reader final : public meter_reader {
 public:
  model_reader(const power_model& model, std::filesystem::path stat)
      : model_(model), stat_(std::move(stat)) {}

  bool empty() const { return !processor_time_in(stat_); }

  std::vector<metered> read(int64_t now_ns) override {
    metered m;
    m.device = "machine";
    m.kind = metered_kind::package;
    m.modelled = true;
    const auto now = processor_time_in(stat_);
    if (now) m.limit_w = model_.idle_w + model_.core_w * now->processors;
    if (now && last_ && now_ns > last_ns_) {
      const auto seconds = static_cast<double>(now_ns - last_ns_) * 1e-9;
      const auto ticks = std::max<int64_t>(0, now->busy_ticks - last_->busy_ticks);
      // Counts of ticks are late by a tick, and no processor is busy for longer than there was.
      const auto busy = std::min(static_cast<double>(ticks) / ticks_per_s_ / seconds,
                                 static_cast<double>(now->processors));
      m.power_w = model_.idle_w + model_.core_w * busy;
      m.busy_percent = 100 * busy / now->processors;
      used_j_ = used_j_.value_or(0) + *m.power_w * seconds;
    }
    m.energy_j = used_j_;
    if (!now) return {m};  // the next look's mean is over both intervals
    last_ = now;
    last_ns_ = now_ns;
    return {m};
  }

 private:
  const power_model model_;
  const std::filesystem::path stat_;
  const double ticks_per_s_ = ticks_per_s();
  std::optional<processor_time> last_;
  int64_t last_ns_ = 0;
  std::optional<double> used_j_;
};

/// Whether it says of any device what it draws.
bool says_power(meter_reader& reader) {
  const auto all = reader.read(0);
  return std::any_of(all.begin(), all.end(),
                     [](const metered& m) { return m.power_w.has_value(); });
}

}  // namespace

double machine_processor_s(const std::filesystem::path& proc) {
  const auto now = processor_time_in(proc / "stat");
  return now ? static_cast<double>(now->busy_ticks) / ticks_per_s() : -1;
}

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

result<std::unique_ptr<meter_reader>> open_model_reader(const power_model& model,
                                                        const std::filesystem::path& proc) {
  return if_any(std::make_unique<model_reader>(model, proc / "stat"),
                "count of the processors' time to read", "it is /proc/stat of Linux");
}

std::vector<std::unique_ptr<meter_reader>> open_machine_readers(const power_model& model) {
  auto gpus = open_gpu_reader();
  return open_machine_readers(model, gpus ? std::move(*gpus) : nullptr, "/sys/class/powercap",
                              "/sys/class/hwmon", "/proc");
}

std::vector<std::unique_ptr<meter_reader>> open_machine_readers(
    const power_model& model, std::unique_ptr<meter_reader> gpus,
    const std::filesystem::path& powercap, const std::filesystem::path& hwmon,
    const std::filesystem::path& proc) {
  std::vector<std::unique_ptr<meter_reader>> out;
  if (gpus) out.push_back(std::move(gpus));
  bool measured = false;
  if (auto packages = open_package_reader(powercap)) {
    measured = true;
    out.push_back(std::move(*packages));
  }
  if (auto sensors = open_sensor_reader(hwmon)) {
    measured = measured || says_power(**sensors);
    out.push_back(std::move(*sensors));
  }
  if (!measured && model.given())
    if (auto modelled = open_model_reader(model, proc)) out.push_back(std::move(*modelled));
  return out;
}

}  // namespace troupe::gpu
