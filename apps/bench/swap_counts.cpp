// Lines of /proc/self/io.
#include "apps/bench/swap_counts.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "io/machine/available_memory.hpp"

namespace troupe::apps::swap_bench {

namespace {

result<uint64_t> count_of(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || line.substr(name.size(), 2) != ": ") continue;
    const auto value = line.substr(name.size() + 2);
    uint64_t out = 0;
    const auto [rest, wrong] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (wrong == std::errc() && rest == value.data() + value.size()) return out;
    return error{errc::bad_data, fmt::format("invalid {} of /proc/self/io: {}", name, value)};
  }
  return error{errc::bad_data, fmt::format("/proc/self/io has no {}", name)};
}

bool agree(uint64_t a, uint64_t b) {
  const auto [less, more] = std::minmax(a, b);
  return static_cast<double>(more - less) <=
         counted_share * static_cast<double>(more) + static_cast<double>(counted_slack_bytes);
}

}  // namespace

result<kernel_counts> parse_kernel_counts(std::string_view text) {
  TROUPE_TRY(read, count_of(text, "read_bytes"));
  TROUPE_TRY(written, count_of(text, "write_bytes"));
  return kernel_counts{read, written};
}

result<kernel_counts> kernel_counts_now() {
  return parse_kernel_counts(io::kernel_text("/proc/self/io"));
}

status compare_counts(std::string_view way, const moved_counts& c) {
  if (!agree(c.engine_read_bytes, c.kernel_read_bytes))
    return counts_differ(way, "read", c.engine_read_bytes, c.kernel_read_bytes);
  if (!agree(c.engine_written_bytes, c.kernel_written_bytes))
    return counts_differ(way, "written", c.engine_written_bytes, c.kernel_written_bytes);
  return {};
}

}  // namespace troupe::apps::swap_bench
