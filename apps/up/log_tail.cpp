// The end of a file, line by line.
#include "apps/up/log_tail.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "io/base/printable.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

constexpr uint64_t looked_at_bytes = 16 << 10;
constexpr size_t line_characters = 240;

/// Its bytes from there on, the last `most` of them.
std::string end_of(const std::string& file, uint64_t from, uint64_t most) {
  const auto fd = io::open_read(file);
  struct stat facts {};
  if (!fd || ::fstat(fd->get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (from > size) from = 0;  // somebody has truncated it
  const auto begin = std::max(from, size - std::min(size, most));
  std::string text(size - begin, '\0');
  const auto n = ::pread(fd->get(), text.data(), text.size(), static_cast<off_t>(begin));
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

}  // namespace

uint64_t bytes_of_log(const std::string& file) {
  struct stat facts {};
  return ::stat(file.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
}

std::string tail_of(const std::string& file, uint64_t most) {
  return end_of(file, 0, most);
}

std::string last_words(const std::string& file, uint64_t from) {
  const auto text = end_of(file, from, looked_at_bytes);
  std::string_view last, error;
  for (std::string_view rest = text; !rest.empty();) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    last = line;
    if (line.starts_with("error: ")) error = line.substr(std::string_view("error: ").size());
  }
  return printable(error.empty() ? last : error, line_characters);
}

}  // namespace troupe::apps
