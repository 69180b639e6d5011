// Writing, reading and checking manifests.
#include "io/formats/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view title = "troupe manifest ";
constexpr std::string_view first_line = "troupe manifest 1\n";
constexpr size_t max_manifest_bytes = 16 << 20;
constexpr size_t max_name = 255;

/// MAN-2.
bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= max_name && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == '\x7f';
         });
}

error wrong(std::string_view what) {
  return {errc::bad_data, fmt::format("{}: {}", manifest_name, what)};
}

/// Takes a number and the space after it off the line.
template <class T>
std::optional<T> take_number(std::string_view& line, int base) {
  T value{};
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), value, base);
  if (code != std::errc{} || end == line.data() + line.size() || *end != ' ') return std::nullopt;
  line.remove_prefix(static_cast<size_t>(end - line.data()) + 1);
  return value;
}

/// What stands in a line between its checksum and its end; MAN-1 is checked over the whole.
std::optional<file_sum> parse_line(std::string_view line) {
  const auto crc = take_number<uint32_t>(line, 16);
  if (!crc) return std::nullopt;
  const auto bytes = take_number<uint64_t>(line, 10);
  if (!bytes || !is_file_name(line)) return std::nullopt;
  return file_sum{std::string(line), *bytes, *crc};
}

status check_file(const fs::path& folder, const file_sum& expected) {
  const auto path = folder / expected.name;
  std::error_code code;
  const auto bytes = fs::file_size(path, code);
  if (code == std::errc::no_such_file_or_directory)
    return error{errc::bad_data, fmt::format("{} is missing", path.string())};
  if (code) return error::system(fmt::format("size of {}", path.string()), code.value());
  if (bytes != expected.bytes)
    return error{errc::bad_data, fmt::format("{} has {} bytes instead of {}", path.string(), bytes,
                                             expected.bytes)};
  TROUPE_TRY(found, sum_file(folder, expected.name));
  if (found == expected) return {};
  return error{errc::bad_data, fmt::format("{} is damaged: its checksum is {:08x}, not {:08x}",
                                           path.string(), found.crc32c, expected.crc32c)};
}

}  // namespace

result<file_sum> sum_file(const fs::path& folder, const std::string& name) {
  TROUPE_TRY(file, mapped_file::open(folder / name));
  return file_sum{name, file->bytes().size(), crc32c(file->bytes())};
}

std::string format_manifest(std::vector<file_sum> files) {
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::string text(first_line);
  for (const auto& f : files) text += fmt::format("{:08x} {} {}\n", f.crc32c, f.bytes, f.name);
  return text + fmt::format("{:08x} manifest\n", crc32c(std::as_bytes(std::span(text))));
}

result<std::vector<file_sum>> parse_manifest(std::string_view text) {
  if (!text.starts_with(first_line)) {
    if (text.starts_with(title) && text.find('\n') < title.size() + 8)
      return error{errc::version_mismatch, fmt::format("{}: another format", manifest_name),
                   "it was written by another version of Troupe, or it is damaged"};
    return wrong("it does not begin as one");
  }
  std::vector<file_sum> files;
  auto rest = text.substr(first_line.size());
  for (size_t end = 0; (end = rest.find('\n')) != rest.npos && end + 1 < rest.size();) {
    auto file = parse_line(rest.substr(0, end));
    if (!file) return wrong("a line is not readable");
    files.push_back(std::move(*file));
    rest.remove_prefix(end + 1);
  }
  auto same_name = [](const auto& a, const auto& b) { return a.name == b.name; };
  if (format_manifest(files) != text ||  // MAN-1
      std::adjacent_find(files.begin(), files.end(), same_name) != files.end())
    return wrong("it is damaged");
  return files;
}

status write_manifest(const fs::path& folder, std::vector<file_sum> known) {
  auto files = std::move(known);
  for (const auto& f : files) {
    if (!is_file_name(f.name)) return error{errc::bad_data, "a file's name is none: " + f.name};
    std::error_code code;
    const auto bytes = fs::file_size(folder / f.name, code);
    if (code) return error::system(fmt::format("size of {}", f.name), code.value());
    if (bytes != f.bytes)
      return error{errc::bad_data,
                   fmt::format("{} has {} bytes, {} were written", f.name, bytes, f.bytes),
                   "do all hosts see the same folder?"};
  }
  const auto given = files.size();
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const auto name = at->path().filename().string();
    const auto known_end = files.begin() + static_cast<ptrdiff_t>(given);
    const bool summed =
        std::any_of(files.begin(), known_end, [&](const auto& f) { return f.name == name; });
    if (summed || name == manifest_name) continue;
    TROUPE_TRY(sum, sum_file(folder, name));
    files.push_back(std::move(sum));
  }
  if (code) return error::system(fmt::format("read the folder {}", folder.string()), code.value());
  return write_atomic(folder / manifest_name, format_manifest(std::move(files)));
}

status verify_manifest(const fs::path& folder,
                       const std::function<bool(std::string_view)>& wanted) {
  const auto path = folder / manifest_name;
  auto text = read_file(path, max_manifest_bytes);
  if (!text) return text.error();
  auto files = parse_manifest(*text);
  if (!files) return files.error().within(folder.string());
  for (const auto& f : *files)
    if (!wanted || wanted(f.name)) TROUPE_CHECK(check_file(folder, f));
  return {};
}

}  // namespace troupe::io
