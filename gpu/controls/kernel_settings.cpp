// Folders of sysfs; see kernel_settings.hpp.
#include "gpu/controls/kernel_settings.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "io/machine/available_memory.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

std::optional<uint64_t> number_at(const fs::path& file) {
  return number_in(io::kernel_text(file.string()));
}

/// SGV-5
bool is_below_devices(const control_place& at, const std::string& where) {
  const auto from = fs::path(where).lexically_relative(at.devices);
  return !from.empty() && *from.begin() != "..";
}

/// SGV-7: what holds clocks down now; empty: nothing.
std::string cooler_at_work(const control_place& at) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(at.devices / "class/thermal", code)) {
    const auto type = io::kernel_text((entry.path() / "type").string());
    const bool is_of_clocks = type.starts_with("Processor") || type.starts_with("cpufreq-") ||
                              type.starts_with("thermal-cpufreq-");
    if (is_of_clocks && number_at(entry.path() / "cur_state").value_or(0) > 0)
      return entry.path().string();
  }
  return {};
}

/// A policy of cpufreq: processors that have their clock together, `found` at their highest one.
std::optional<machine_setting> clock_of(const fs::path& policy, std::optional<uint64_t> found) {
  const auto file = policy / "scaling_max_freq";
  const auto lowest = number_at(policy / "cpuinfo_min_freq");
  if (!found || !lowest || *found == 0) return std::nullopt;
  const auto least = std::max(*lowest, number_at(policy / "scaling_min_freq").value_or(0));
  const auto listed = io::kernel_text((policy / "scaling_available_frequencies").string());
  return machine_setting{{file.string(), *found}, clock_range(least, *found, listed)};
}

/// SGV-7: what each clock was that reads no more than that now; none: of one at least it is not
/// known.
std::optional<std::map<fs::path, uint64_t>> known_clocks(const control_place& at,
                                                         const fs::path& folder) {
  const auto known = at.known->of(device_of({setting_kind::cpufreq, {}}));
  std::map<fs::path, uint64_t> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const auto file = entry.path() / "scaling_max_freq";
    const auto now = number_at(file);
    if (!now) continue;
    const auto it = std::ranges::find(known, file.string(), &found_setting::where);
    if (it == known.end() || it->found < *now) return std::nullopt;
    out[entry.path()] = it->found;
  }
  return out;
}

/// What `before` says of a setting; none: nothing.
std::optional<uint64_t> found_before(const std::vector<found_setting>& before,
                                     const fs::path& file) {
  const auto it = std::ranges::find(before, file.string(), &found_setting::where);
  return it != before.end() ? std::optional(it->found) : std::nullopt;
}

/// A package of powercap whose long-term limit holds.
std::optional<machine_setting> limit_of(const fs::path& zone,
                                        const std::vector<found_setting>& before) {
  const auto file = zone / "constraint_0_power_limit_uw";
  auto found = number_at(file);
  if (const auto was = found_before(before, file); found && was) found = was;
  const bool is_package = io::kernel_text((zone / "name").string()).starts_with("package");
  const bool is_long = io::kernel_text((zone / "constraint_0_name").string()) == "long_term\n";
  const bool is_on = number_at(zone / "enabled").value_or(1) != 0;
  if (!is_package || !is_long || !is_on || !found || *found == 0) return std::nullopt;
  return machine_setting{{file.string(), *found}, limit_range(*found)};
}

}  // namespace

result<std::vector<machine_setting>> kernel_settings::find(
    const std::vector<found_setting>& before) {
  const bool of_clocks = kind_ == setting_kind::cpufreq;
  const auto folder = at_.devices / (of_clocks ? "devices/system/cpu/cpufreq" : "class/powercap");
  const auto cooler = of_clocks ? cooler_at_work(at_) : std::string();
  std::optional<std::map<fs::path, uint64_t>> known;
  if (!cooler.empty()) {
    known = known_clocks(at_, folder);
    if (!known) return setting_held_lower(to_string(kind_), cooler);
  }
  const auto clock_found = [&](const fs::path& policy) -> std::optional<uint64_t> {
    if (const auto was = found_before(before, policy / "scaling_max_freq")) return was;
    if (!known) return number_at(policy / "scaling_max_freq");
    const auto it = known->find(policy);
    return it != known->end() ? std::optional(it->second) : std::nullopt;
  };
  std::vector<machine_setting> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    auto one = of_clocks ? clock_of(entry.path(), clock_found(entry.path()))
                         : limit_of(entry.path(), before);
    if (one && names_setting(kind_, one->now.where)) out.push_back(*std::move(one));
  }
  if (out.empty())
    return no_such_setting(to_string(kind_),
                           fmt::format("{} has no {}", folder.string(),
                                       of_clocks ? "processor whose highest clock can be set"
                                                 : "package with a limit in force"));
  std::ranges::sort(out, {}, [](const machine_setting& s) { return s.now.where; });
  return out;
}

bool kernel_settings::is_held_lower() const {
  return kind_ == setting_kind::cpufreq && !cooler_at_work(at_).empty();
}

status kernel_settings::write(const std::string& where, uint64_t value) {
  if (!is_below_devices(at_, where))
    return error{errc::permission, where + " is not below " + at_.devices.string(),
                 "remove the record that names it"};
  return at_.groups->write(where, fmt::format("{}", value));
}

result<uint64_t> kernel_settings::read_back(const std::string& where, uint64_t) {
  const auto read = number_at(where);
  if (!read) return error{errc::bad_data, where + " holds no number"};
  return *read;
}

}  // namespace troupe::gpu::controls
