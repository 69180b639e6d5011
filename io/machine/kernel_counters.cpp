// Lines, words and numbers of the kernel's files.
#include "io/machine/kernel_counters.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t most = std::numeric_limits<uint64_t>::max();

/// Takes the next line off the text.
std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const auto line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

/// Takes the next word off a line; empty: there is none.
std::string_view take_word(std::string_view& line) {
  const auto begin = line.find_first_not_of(" \t");
  if (begin == line.npos) return line = {};
  line.remove_prefix(begin);
  const auto end = line.find_first_of(" \t");
  const auto word = line.substr(0, end);
  line.remove_prefix(word.size());
  return word;
}

template <class T>
std::optional<T> number(std::string_view word) {
  T out{};
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (fault != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return out;
}

/// Hostile numbers do not wrap around.
uint64_t sum(uint64_t a, uint64_t b) {
  return a > most - b ? most : a + b;
}

/// The text behind "NAME " in the first line that begins so.
std::optional<std::string_view> line_behind(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto line = take_line(text);
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return std::nullopt;
}

/// The text behind "KEY=" in a line.
std::optional<std::string_view> word_behind(std::optional<std::string_view> line,
                                            std::string_view key) {
  while (line && !line->empty()) {
    const auto word = take_word(*line);
    if (word.starts_with(key)) return word.substr(key.size());
  }
  return std::nullopt;
}

std::optional<double> average_in(std::optional<std::string_view> line) {
  const auto word = word_behind(line, "avg10=");
  const auto share = word ? number<double>(*word) : std::nullopt;
  if (share && std::isfinite(*share) && *share >= 0 && *share <= 100) return share;
  return std::nullopt;
}

std::optional<uint64_t> total_in(std::optional<std::string_view> line) {
  const auto word = word_behind(line, "total=");
  return word ? number<uint64_t>(*word) : std::nullopt;
}

std::optional<uint64_t> kib_in(std::optional<std::string_view> line) {
  if (!line) return std::nullopt;
  const auto kib = number<uint64_t>(take_word(*line));
  if (!kib || *kib > most / 1024) return std::nullopt;
  return *kib * 1024;
}

/// Where a process is in version 1's hierarchy of the cpu controller.
struct cpu_controller {
  std::string controllers;  ///< all that this hierarchy has, "cpu,cpuacct"
  std::string path;
};

/// Of a line "4:cpu,cpuacct:/job" of /proc/PID/cgroup; nothing: version 1 has no such controller.
std::optional<cpu_controller> cpu_controller_in(std::string_view groups) {
  while (!groups.empty()) {
    auto line = take_line(groups);
    const auto number_end = line.find(':');
    if (number_end == line.npos) continue;
    line.remove_prefix(number_end + 1);
    const auto end = line.find(":/");
    if (end == line.npos) continue;
    const auto controllers = line.substr(0, end);
    for (auto rest = controllers; !rest.empty();) {
      const auto comma = rest.find(',');
      if (rest.substr(0, comma) == "cpu")
        return cpu_controller{std::string(controllers), std::string(line.substr(end + 1))};
      rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
    }
  }
  return std::nullopt;
}

/// By their paths below the hierarchy's root, which is the last of them, "".
template <class F>
void for_group_and_above(const std::string& path, F visit) {
  for (auto group = fs::path(path).relative_path();; group = group.parent_path()) {
    visit(group);
    if (group.empty()) return;
  }
}

/// No processor is slower, nor faster.
bool is_clock(double mhz) {
  return mhz >= 1 && mhz <= 100'000;
}

}  // namespace

pressure parse_pressure(std::string_view text) {
  const auto some = line_behind(text, "some ");
  return {average_in(some), average_in(line_behind(text, "full ")), total_in(some)};
}

std::optional<cpu_ticks> parse_cpu_ticks(std::string_view text) {
  auto line = line_behind(text, "cpu ");
  if (!line) return std::nullopt;
  constexpr int idle_at = 3, disk_at = 4;  // idle, and idle while a disk is waited for
  constexpr int stolen_at = 7, guest_at = 8;  // what guests take is in user's already
  cpu_ticks out;
  int at = 0;
  for (; at < guest_at; ++at) {
    const auto ticks = number<uint64_t>(take_word(*line));
    if (!ticks) break;
    out.all = sum(out.all, *ticks);
    if (at == stolen_at) out.stolen = *ticks;
    if (at == idle_at || at == disk_at) out.idle = sum(out.idle, *ticks);
  }
  if (at <= 3) return std::nullopt;  // not even user, nice, system, idle
  return out;
}

std::optional<process_ticks> parse_process_ticks(std::string_view text) {
  const auto name_end = text.rfind(')');  // a name may have any characters, parentheses as well
  if (name_end == text.npos) return std::nullopt;
  text.remove_prefix(name_end + 1);
  auto line = take_line(text);
  // Behind the name: state, parent ...; user and system time, and the same of children.
  constexpr int parent_at = 1, busy_at = 11, busy_end = 15;
  process_ticks out;
  for (int at = 0; at < busy_end; ++at) {
    const auto word = take_word(line);
    if (at != parent_at && at < busy_at) continue;
    const auto value = number<uint64_t>(word);
    if (!value) return std::nullopt;
    if (at == parent_at)
      out.parent = *value;
    else
      out.busy = sum(out.busy, *value);
  }
  return out;
}

memory_left parse_memory(std::string_view text) {
  return {kib_in(line_behind(text, "MemTotal:")), kib_in(line_behind(text, "MemAvailable:"))};
}

std::optional<uint64_t> parse_packet_errors(std::string_view text) {
  constexpr int received_at = 2, sent_at = 10;  // behind the name: bytes packets errs ...
  std::optional<uint64_t> out;
  while (!text.empty()) {
    auto line = take_line(text);
    const auto colon = line.find(':');
    if (colon == line.npos) continue;
    auto head = line.substr(0, colon);
    if (take_word(head) == "lo") continue;
    line.remove_prefix(colon + 1);
    for (int at = 0; at <= sent_at; ++at) {
      const auto word = take_word(line);
      if (at != received_at && at != sent_at) continue;
      if (const auto errors = number<uint64_t>(word)) out = sum(out.value_or(0), *errors);
    }
  }
  return out;
}

std::optional<uint64_t> parse_throttled_us(std::string_view text) {
  auto line = line_behind(text, "throttled_usec ");
  return line ? number<uint64_t>(take_word(*line)) : std::nullopt;
}

std::optional<std::string> parse_unified_cgroup(std::string_view text) {
  const auto path = line_behind(text, "0::");
  if (!path || !path->starts_with('/')) return std::nullopt;
  return std::string(*path);
}

std::optional<double> parse_cpu_quota(std::string_view quota_us, std::string_view period_us) {
  auto quota_line = take_line(quota_us), period_line = take_line(period_us);
  const auto most_us = number<uint64_t>(take_word(quota_line));
  const auto each_us = number<uint64_t>(take_word(period_line));
  if (!most_us || *most_us == 0 || !each_us || *each_us == 0) return std::nullopt;
  return static_cast<double>(*most_us) / static_cast<double>(*each_us);
}

std::optional<double> parse_cpu_quota(std::string_view text) {
  auto line = take_line(text);
  const auto most_us = take_word(line);  // "max" is none
  return parse_cpu_quota(most_us, line);
}

std::optional<double> least_cpu_quota(std::string_view groups,
                                      const std::function<std::string(const fs::path&)>& text_of) {
  std::optional<double> least;
  const auto take = [&](std::optional<double> quota) {
    if (quota) least = std::min(least.value_or(*quota), *quota);
  };
  if (const auto path = parse_unified_cgroup(groups))
    for_group_and_above(
        *path, [&](const fs::path& group) { take(parse_cpu_quota(text_of(group / "cpu.max"))); });
  if (const auto old = cpu_controller_in(groups))
    for_group_and_above(old->path, [&](const fs::path& group) {
      for (const auto& mounted : {fs::path("cpu"), fs::path(old->controllers)}) {
        const auto at = mounted / group;
        take(parse_cpu_quota(text_of(at / "cpu.cfs_quota_us"), text_of(at / "cpu.cfs_period_us")));
      }
    });
  return least;
}

std::optional<double> parse_cpu_mhz(std::string_view text) {
  std::vector<double> all;
  while (!text.empty()) {
    auto line = take_line(text);
    if (!line.starts_with("cpu MHz")) continue;
    const auto colon = line.find(':');
    if (colon == line.npos) continue;
    line.remove_prefix(colon + 1);
    const auto mhz = number<double>(take_word(line));
    if (mhz && is_clock(*mhz)) all.push_back(*mhz);
  }
  if (all.empty()) return std::nullopt;
  const auto middle = all.begin() + std::ssize(all) / 2;
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::optional<double> parse_scaling_mhz(std::string_view text) {
  auto line = take_line(text);
  const auto khz = number<uint64_t>(take_word(line));
  const double mhz = khz ? static_cast<double>(*khz) / 1e3 : 0;
  return is_clock(mhz) ? std::optional(mhz) : std::nullopt;
}

}  // namespace troupe::io
