// Sums, a lock, and an end for torn lines: see summed_lines.hpp.
#include "io/perf/summed_lines.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/locked_file.hpp"

namespace troupe::io::perf {

namespace fs = std::filesystem;

namespace {

constexpr size_t sum_digits = 8;
/// Who holds it adds a line, or has been stopped.
constexpr std::chrono::seconds patience{1};

uint32_t line_sum(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

/// What one reads: half more lines than are kept (SML-2), each as long as may be.
size_t longest_file(const summed_file& of) {
  return of.kept * 3 / 2 * of.line_bytes;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size(); at += out.back().size() + 1)
    out.push_back(text.substr(at, std::min(text.find('\n', at), text.size()) - at));
  return out;
}

/// Its last line was torn.
bool ends_torn(std::string_view text) {
  return !text.empty() && text.back() != '\n';
}

/// What begins as each of these lines does, an object, and does not end as one: a person's own
/// text does neither, a person's own object ends.
bool is_torn_object(std::string_view line) {
  constexpr std::string_view begin = "{\"";
  return line.starts_with(begin.substr(0, line.size())) && !nlohmann::json::accept(line);
}

/// By its first line that is whole, of whatever version. All that there is may be a torn one.
bool is_ours(std::string_view text, const std::vector<std::string_view>& lines, size_t line_bytes) {
  if (lines.empty() || (lines.size() == 1 && ends_torn(text) && is_torn_object(text))) return true;
  return std::any_of(lines.begin(), lines.end(),
                     [&](std::string_view line) { return !summed_text(line, line_bytes).empty(); });
}

}  // namespace

std::string summed_line(std::string_view text) {
  return fmt::format("{} {:08x}", text, line_sum(text));
}

std::string_view summed_text(std::string_view line, size_t line_bytes) {
  if (line.size() > line_bytes || line.size() < sum_digits + 2) return {};
  const auto text = line.substr(0, line.size() - sum_digits - 1);
  if (line[text.size()] != ' ') return {};
  const auto digits = line.substr(text.size() + 1);
  uint32_t sum = 0;
  const auto [end, failed] = std::from_chars(digits.begin(), digits.end(), sum, 16);
  return failed == std::errc{} && end == digits.end() && sum == line_sum(text) ? text
                                                                               : std::string_view();
}

result<std::vector<std::string>> read_summed_lines(const fs::path& file, const summed_file& of) {
  const auto text = read_file(file, longest_file(of));
  if (!text && text.error().code == errc::not_found) return std::vector<std::string>{};
  if (!text) return text.error();
  const auto lines = lines_of(*text);
  if (!is_ours(*text, lines, of.line_bytes)) return no_summed_lines(file.string());
  return std::vector<std::string>(lines.begin(), lines.end());
}

result<size_t> drop_summed_lines(const fs::path& file, const summed_file& of,
                                 const std::function<bool(std::string_view)>& is_dropped) {
  std::error_code untold;  // clear where it is known that the file is not there
  const bool there = fs::exists(file, untold);
  if (untold) return error::system(fmt::format("look for {}", file.string()), untold.value());
  if (!there) return size_t{0};
  TROUPE_TRY(fd, open_locked(file, patience));
  if (!fd) return summed_lines_busy(file.string());
  TROUPE_TRY(text, read_file(file, longest_file(of)));
  const auto lines = lines_of(text);
  if (!is_ours(text, lines, of.line_bytes)) return no_summed_lines(file.string());  // SML-3
  std::string kept;
  size_t dropped = 0;
  for (const auto& line : lines)
    if (is_dropped(line))
      ++dropped;
    else
      kept += fmt::format("{}\n", line);
  // Damaged lines alone would be nobody's.
  if (!is_ours(kept, lines_of(kept), of.line_bytes)) kept.clear();
  if (dropped > 0) TROUPE_CHECK(write_atomic(behind_links(file), kept));
  return dropped;
}

/// SML-1.
status add_summed_lines(const fs::path& file, const summed_file& of,
                        std::span<const std::string> lines) {
  std::string added;
  for (const auto& line : lines) added += line + '\n';
  std::error_code made;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), made);
  if (made) return error::system(fmt::format("make {}", file.parent_path().string()), made.value());
  TROUPE_TRY(fd, open_locked(file, patience));
  if (!fd) return summed_lines_busy(file.string());
  TROUPE_TRY(text, read_file(file, longest_file(of)));
  const auto old = lines_of(text);
  if (!is_ours(text, old, of.line_bytes)) return no_summed_lines(file.string());  // SML-3
  if (old.size() + lines.size() <= of.kept * 3 / 2) {
    if (ends_torn(text)) added.insert(0, "\n");  // at once: a torn line alone has no end
    const auto bytes = std::as_bytes(std::span(added.data(), added.size()));
    const auto written = write_all(fd.get(), bytes, file.string());
    if (!written && ::ftruncate(fd.get(), static_cast<off_t>(text.size())) != 0)
      return error::system(fmt::format("cut what was half added to {}", file.string()), errno);
    return written;
  }
  std::string kept;  // SML-2
  const auto room = of.kept - std::min(of.kept, lines.size());
  for (const auto& line : std::span(old).last(std::min(room, old.size())))
    kept += fmt::format("{}\n", line);
  return write_atomic(behind_links(file), kept + added);
}

}  // namespace troupe::io::perf
