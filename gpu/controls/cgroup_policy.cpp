// Paths, numbers and texts; see cgroup_policy.hpp.
#include "gpu/controls/cgroup_policy.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include <fmt/format.h>

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

/// CGP-2. A path with ".." is of a group outside this namespace.
fs::path group_below(const fs::path& root, std::string_view path) {
  const auto below = fs::path(path).relative_path();
  for (const auto& part : below)
    if (part == "..") return root;
  return below.empty() ? root : root / below;
}

/// What is before `end`, which is taken off `text` with it.
std::string_view take_to(std::string_view& text, char end) {
  const auto at = text.find(end);
  const auto out = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return out;
}

bool has_part(std::string_view list, char between, std::string_view name) {
  while (!list.empty())
    if (take_to(list, between) == name) return true;
  return false;
}

std::optional<int64_t> above_zero(std::string_view text) {
  int64_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  return read.ec == std::errc{} && out > 0 ? std::optional(out) : std::nullopt;
}

}  // namespace

std::optional<cgroup_place> cpu_place(std::string_view groups, const fs::path& mount) {
  std::optional<cgroup_place> unified;
  while (!groups.empty()) {  // "0::/user.slice" or "4:cpu,cpuacct:/user.slice"
    auto path = take_to(groups, '\n');
    const auto number = take_to(path, ':');
    const auto controllers = take_to(path, ':');
    if (!path.starts_with('/')) continue;
    if (number == "0" && controllers.empty())
      unified = cgroup_place{cgroup_version::two, mount, group_below(mount, path)};
    if (!has_part(controllers, ',', "cpu") || controllers.find('/') != controllers.npos) continue;
    const auto root = mount / controllers;
    return cgroup_place{cgroup_version::one, root, group_below(root, path)};
  }
  return unified;
}

bool lists(std::string_view text, std::string_view name) {
  return has_part(text.substr(0, text.find('\n')), ' ', name);
}

std::optional<int64_t> quota_us(int pace_of_1024, int threads) {
  if (pace_of_1024 >= whole_pace) return std::nullopt;
  const int64_t all_us = quota_period_us * std::max(1, threads);
  return std::max(least_quota_us, all_us * std::max(0, pace_of_1024) / whole_pace);
}

std::optional<int64_t> allowed_us(std::string_view quota, std::string_view period) {
  const auto quota_each = above_zero(quota);
  const auto each = above_zero(period);
  if (!quota_each || !each || *quota_each > std::numeric_limits<int64_t>::max() / quota_period_us)
    return std::nullopt;
  return *quota_each * quota_period_us / *each;
}

std::optional<int64_t> quota_within(std::optional<int64_t> quota, std::optional<int64_t> allowed) {
  if (!quota || !allowed || *quota <= *allowed) return quota;
  return *allowed < least_quota_us ? std::nullopt : allowed;
}

std::string_view quota_file(cgroup_version version) {
  return version == cgroup_version::two ? "cpu.max" : "cpu.cfs_quota_us";
}

std::string quota_text(cgroup_version version, std::optional<int64_t> quota) {
  if (version == cgroup_version::one) return fmt::format("{}", quota.value_or(-1));
  return quota ? fmt::format("{} {}", *quota, quota_period_us)
               : fmt::format("max {}", quota_period_us);
}

std::string_view threads_file(cgroup_version version) {
  return version == cgroup_version::two ? "cgroup.threads" : "tasks";
}

std::string group_name(int64_t pid, uint64_t number) {
  return fmt::format("{}{}-{}", group_prefix, pid, number);
}

actuator_facts quota_facts(int threads) {
  const double all_us = static_cast<double>(quota_period_us) * std::max(1, threads);
  return {"cgroup", static_cast<double>(least_quota_us) / all_us, 1, 1.0 / whole_pace, false};
}

}  // namespace troupe::gpu::controls
