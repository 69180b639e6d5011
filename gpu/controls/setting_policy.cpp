// Roots, floors and names; see setting_policy.hpp.
#include "gpu/controls/setting_policy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace troupe::gpu::controls {

namespace {

constexpr std::array<std::pair<setting_kind, std::string_view>, 4> kind_names{
    {{setting_kind::cpufreq, "cpufreq"},
     {setting_kind::rapl, "rapl"},
     {setting_kind::nvml_clocks, "nvml_clocks"},
     {setting_kind::nvml_limit, "nvml_limit"}}};

/// Of the whole range, at a pace.
double share_of(setting_kind kind, const setting_range& range, double pace) {
  const auto most = static_cast<double>(range.most);
  if (!is_limit(kind)) return most * std::sqrt(pace);
  const auto least = static_cast<double>(range.least);
  return least + (most - least) * pace;
}

/// "GPU-1f3c..."
bool is_gpu(std::string_view name) {
  constexpr size_t longest = 96;
  return name.starts_with("GPU-") && name.size() <= longest &&
         name.find_first_not_of("0123456789abcdefGPU-") == name.npos;
}

/// "policy0" or "intel-rapl:1": a word and a number.
bool is_numbered(std::string_view name, std::string_view word) {
  if (!name.starts_with(word) || name.size() == word.size()) return false;
  return name.find_first_not_of("0123456789", word.size()) == name.npos;
}

}  // namespace

std::string_view to_string(setting_kind kind) {
  for (const auto& [k, name] : kind_names)
    if (k == kind) return name;
  return "";
}

bool is_of_gpu(setting_kind kind) {
  return kind == setting_kind::nvml_clocks || kind == setting_kind::nvml_limit;
}

bool is_limit(setting_kind kind) {
  return kind == setting_kind::rapl || kind == setting_kind::nvml_limit;
}

std::optional<setting_kind> setting_kind_named(std::string_view name) {
  for (const auto& [k, of_kind] : kind_names)
    if (of_kind == name) return k;
  return std::nullopt;
}

setting_range clock_range(uint64_t least_khz, uint64_t found_khz, std::string_view listed) {
  setting_range out{
      std::min(least_khz, found_khz), found_khz, clock_step_khz, clock_rounded_khz, {}};
  while (!listed.empty()) {
    const auto end = listed.find_first_of(" \n");
    const auto clock = number_in(listed.substr(0, end));
    if (clock && *clock >= out.least && *clock <= out.most) out.only.push_back(*clock);
    listed.remove_prefix(end == listed.npos ? listed.size() : end + 1);
  }
  std::ranges::sort(out.only);
  return out;
}

setting_range limit_range(uint64_t found_uw) {
  const auto floor = found_uw / 4;
  return {floor - floor % limit_step_uw, found_uw, limit_step_uw, limit_step_uw, {}};
}

setting_range lock_range(std::vector<uint64_t> listed_mhz) {
  std::ranges::sort(listed_mhz);
  return {listed_mhz.front(), listed_mhz.back(), lock_step_mhz, lock_step_mhz,
          std::move(listed_mhz)};
}

setting_range gpu_limit_range(uint64_t least_mw, uint64_t found_mw) {
  return {std::min(least_mw, found_mw), found_mw, gpu_limit_step_mw, gpu_limit_step_mw, {}};
}

uint64_t setting_at(setting_kind kind, const setting_range& range, int pace_of_1024) {
  if (pace_of_1024 >= whole_pace) return range.most;
  const double pace = static_cast<double>(std::max(0, pace_of_1024)) / whole_pace;
  const auto wanted = static_cast<uint64_t>(share_of(kind, range, pace));
  if (!range.only.empty()) {
    const auto above = std::ranges::upper_bound(range.only, wanted);
    return above == range.only.begin() ? range.only.front() : *std::prev(above);
  }
  return std::clamp(wanted - wanted % range.step, range.least, range.most);
}

uint64_t setting_of_clock(setting_kind kind, const setting_range& range, int mhz) {
  constexpr uint64_t khz_of_mhz = 1000;
  const auto wanted =
      static_cast<uint64_t>(std::max(0, mhz)) * (kind == setting_kind::cpufreq ? khz_of_mhz : 1);
  if (is_limit(kind) || wanted >= range.most) return range.most;
  if (!range.only.empty()) {
    const auto not_below = std::ranges::lower_bound(range.only, wanted);
    return not_below == range.only.end() ? range.most : *not_below;
  }
  return std::clamp((wanted + range.step - 1) / range.step * range.step, range.least, range.most);
}

std::vector<int> clocks_of(setting_kind kind, std::span<const setting_range> ranges) {
  if (is_limit(kind) || ranges.empty()) return {};
  const auto& fastest = *std::ranges::max_element(ranges, {}, &setting_range::most);
  const uint64_t of_mhz = kind == setting_kind::cpufreq ? 1000 : 1;
  std::vector<int> out{static_cast<int>((fastest.most + of_mhz - 1) / of_mhz)};
  const auto add = [&](uint64_t value) {
    const auto mhz = static_cast<int>(value / of_mhz);
    if (mhz > 0 && value < fastest.most && mhz < out.back()) out.push_back(mhz);
  };
  for (auto at = fastest.only.rbegin(); at != fastest.only.rend(); ++at) add(*at);
  if (!fastest.only.empty()) return out;
  const auto span = fastest.most - std::min(fastest.least, fastest.most);
  for (uint64_t i = 1; i <= even_clocks; ++i) {
    const auto value = fastest.most - span * i / even_clocks;
    add(value - value % fastest.step);
  }
  return out;
}

bool is_in_force(const setting_range& range, uint64_t wanted, uint64_t read) {
  return read <= wanted || read - wanted <= range.rounded;
}

actuator_facts setting_facts(setting_kind kind, std::span<const setting_range> ranges) {
  actuator_facts out{to_string(kind), 0, 1, 0, true};
  for (const auto& r : ranges) {
    const auto most = static_cast<double>(r.most);
    const auto least = static_cast<double>(r.least);
    const auto step = static_cast<double>(r.step);
    if (!is_limit(kind) && most > 0) {
      out.least = std::max(out.least, least / most * (least / most));
      out.resolution = std::max(out.resolution, 2 * step / most);
    } else if (most > least) {
      out.resolution = std::max(out.resolution, step / (most - least));
    }
  }
  return out;
}

bool names_setting(setting_kind kind, std::string_view where) {
  if (is_of_gpu(kind)) return is_gpu(where);
  const std::filesystem::path file(where);
  if (!file.is_absolute() || file != file.lexically_normal()) return false;
  if (where.find('\0') != where.npos || where.find('\n') != where.npos) return false;
  const auto name = file.filename().string();
  const auto folder = file.parent_path().filename().string();
  if (kind == setting_kind::cpufreq)
    return name == "scaling_max_freq" && is_numbered(folder, "policy");
  return name == "constraint_0_power_limit_uw" && is_numbered(folder, "intel-rapl:");
}

std::optional<uint64_t> number_in(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  uint64_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace troupe::gpu::controls
