// The kernel's files of memory.
#include "io/machine/available_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "io/machine/kernel_counters.hpp"

namespace troupe::io {

namespace {

namespace fs = std::filesystem;

constexpr size_t file_bytes = 64 << 10;  // read of a file of the kernel

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc()) return std::nullopt;  // "max" among them
  return value;
}

/// The number behind "NAME " at a line's begin.
std::optional<uint64_t> value_of(std::string_view text, const std::string& name) {
  const auto key = name + " ";
  for (auto at = text.find(key); at != text.npos; at = text.find(key, at + 1))
    if (at == 0 || text[at - 1] == '\n') return number(text.substr(at + key.size()));
  return std::nullopt;
}

/// The groups of a path, from the innermost to the root of what is mounted.
void add_groups(std::vector<group_memory>& into, const fs::path& mounted, std::string_view path) {
  for (auto group = fs::path(path).relative_path();; group = group.parent_path()) {
    if (const auto known = memory_of_group(mounted / group)) into.push_back(*known);
    if (group.empty()) return;
  }
}

/// The path in "N:memory:PATH", of version 1.
std::string_view memory_path(std::string_view groups) {
  constexpr std::string_view key = ":memory:";
  const auto at = groups.find(key);
  if (at == groups.npos) return {};
  const auto path = groups.substr(at + key.size());
  return path.substr(0, path.find('\n'));
}

}  // namespace

std::optional<group_memory> memory_of_group(const fs::path& folder) {
  const auto text = [&](const char* name) { return kernel_text((folder / name).string()); };
  const auto known = [](std::optional<uint64_t> most, std::optional<uint64_t> used,
                        std::optional<uint64_t> given_up) -> std::optional<group_memory> {
    if (!most || !used) return std::nullopt;
    return group_memory{*most, *used, given_up.value_or(0)};
  };
  if (auto two = known(number(text("memory.max")), number(text("memory.current")),
                       value_of(text("memory.stat"), "inactive_file")))
    return two;
  return known(number(text("memory.limit_in_bytes")), number(text("memory.usage_in_bytes")),
               value_of(text("memory.stat"), "total_inactive_file"));
}

std::optional<uint64_t> available_memory(std::optional<uint64_t> machine,
                                    std::span<const group_memory> groups) {
  auto left = machine;
  for (const auto& g : groups) {
    const auto held = g.used - std::min(g.used, g.given_up);
    const auto of_group = g.most - std::min(g.most, held);
    left = std::min(left.value_or(of_group), of_group);
  }
  return left;
}

std::optional<uint64_t> available_memory() {
  std::vector<group_memory> groups;
  const auto told = kernel_text("/proc/self/cgroup");
  if (const auto path = parse_unified_cgroup(told)) add_groups(groups, "/sys/fs/cgroup", *path);
  if (const auto path = memory_path(told); !path.empty())
    add_groups(groups, "/sys/fs/cgroup/memory", path);
  return available_memory(parse_memory(kernel_text("/proc/meminfo")).available, groups);
}

std::string kernel_text(const std::string& path) {
  std::string out;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return out;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; out.size() < file_bytes && (n = read(file, part.data(), part.size())) > 0;)
    out.append(part.data(), static_cast<size_t>(n));
  close(file);
  return out;
}

}  // namespace troupe::io
