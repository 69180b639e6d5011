// Reading two small files of the kernel's.
#include "apps/up/oom_count.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

#include "actors/base/defaults.hpp"

namespace troupe::apps {

namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);  // their lengths are not known before they are read
  return {std::istreambuf_iterator<char>(in), {}};
}

/// "0::/user.slice/..." of /proc/self/cgroup.
std::vector<fs::path> own_files() {
  std::vector<fs::path> out;
  const auto own = text_in("/proc/self/cgroup");
  if (const auto at = own.find("0::/"); at != std::string::npos) {
    const auto path = own.substr(at + 4, own.find('\n', at) - at - 4);
    out.push_back(fs::path("/sys/fs/cgroup") / path / "memory.events");
  }
  out.push_back("/proc/vmstat");
  return out;
}

}  // namespace

std::optional<uint64_t> oom_kills_in(std::string_view text) {
  constexpr std::string_view word = "oom_kill ";
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(word)) continue;
    uint64_t n = 0;
    const auto number = line.substr(word.size());
    const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), n);
    if (failed == std::errc{}) return n;
  }
  return std::nullopt;
}

oom_count::oom_count() : oom_count(own_files()) {}

oom_count::oom_count(const std::vector<fs::path>& files) {
  for (const auto& file : files)
    if (const auto n = oom_kills_in(text_in(file))) {
      file_ = file;
      before_ = seen_ = *n;
      return;
    }
}

uint64_t oom_count::look(clock::time_point now) {
  if (file_.empty()) return 0;
  const auto count = oom_kills_in(text_in(file_)).value_or(seen_);
  if (now - changed_at_ > defaults::oom_memory) before_ = seen_;
  if (count != seen_) changed_at_ = now;
  seen_ = count;
  return seen_ > before_ ? seen_ - before_ : 0;
}

}  // namespace troupe::apps
