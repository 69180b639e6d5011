// Text files as documents: see text_source.hpp.
#include "io/data/text_source.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <unistd.h>

#include <fmt/format.h>
#include <xxhash.h>

#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_document_bytes = size_t{1} << 30;
constexpr size_t probe_bytes = 8192;

/// Whether the file begins like text (TXT-1).
result<bool> is_text(const fs::path& path) {
  TROUPE_TRY(fd, open_read(path));
  std::array<char, probe_bytes> head;
  ssize_t n = 0;
  do n = ::read(fd.get(), head.data(), head.size());
  while (n < 0 && errno == EINTR);
  if (n < 0) return error::system("read " + path.string(), errno);
  return std::find(head.begin(), head.begin() + n, '\0') == head.begin() + n;
}

/// The text between Project Gutenberg's marks, if they are there.
std::string_view without_gutenberg(std::string_view text) {
  auto line_that_begins = [&](std::string_view mark) {
    if (text.starts_with(mark)) return size_t{0};
    auto at = text.find(fmt::format("\n{}", mark));
    return at == std::string_view::npos ? at : at + 1;
  };
  if (auto start = line_that_begins("*** START OF TH"); start != std::string_view::npos) {
    auto line_end = text.find('\n', start);
    text.remove_prefix(line_end == std::string_view::npos ? text.size() : line_end + 1);
  } else {
    return text;
  }
  size_t end = text.size();
  for (auto mark : {"*** END OF TH", "End of the Project Gutenberg", "End of Project Gutenberg"})
    end = std::min(end, line_that_begins(mark));
  return text.substr(0, end);
}

}  // namespace

std::string clean_text(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\r')
      text += bytes[i];
    else if (i + 1 >= bytes.size() || bytes[i + 1] != '\n')
      text += '\n';
  }
  auto inner = without_gutenberg(text);
  return inner.size() == text.size() ? text : std::string(inner);
}

status text_source::add_file(const fs::path& path, bool named) {
  TROUPE_TRY(text, is_text(path));
  if (!text && named)
    return error{errc::bad_data, fmt::format("{} is no text: it holds zero bytes", path.string()),
                 "text files are read as they are: unpack or convert it first"};
  if (!text) return {};
  std::error_code code;
  auto size = fs::file_size(path, code);
  if (code) return error::system("size of " + path.string(), code.value());
  total_bytes_ += size;
  documents_.push_back(path);
  return {};
}

status text_source::add_folder(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> found;
  fs::recursive_directory_iterator at(folder, code);
  if (code) return error::system("open folder " + folder.string(), code.value());
  while (at != fs::recursive_directory_iterator()) {
    std::error_code ignored;
    if (at->path().filename().native().starts_with('.'))
      at.disable_recursion_pending();
    else if (at->is_regular_file(ignored))
      found.push_back(at->path());
    at.increment(code);
    if (code) return error::system("read folder " + folder.string(), code.value());
  }
  std::sort(found.begin(), found.end());
  for (const auto& path : found) TROUPE_CHECK(add_file(path, false));
  return {};
}

result<text_source> text_source::open(std::span<const fs::path> paths) {
  text_source source;
  for (const auto& path : paths) {
    std::error_code ignored;
    auto added =
        fs::is_directory(path, ignored) ? source.add_folder(path) : source.add_file(path, true);
    TROUPE_CHECK(added);
  }
  if (source.documents_.empty())
    return error{errc::bad_data, "no text file was found",
                 "name text files, or folders that hold some, in data.path"};
  return source;
}

result<std::string> text_source::read(size_t i) const {
  TROUPE_TRY(bytes, read_file(documents_[i], max_document_bytes));
  return clean_text(bytes);
}

result<uint64_t> text_source::fingerprint() const {
  uint64_t hash = text_rules_version;
  for (const auto& path : documents_) {
    TROUPE_TRY(map, mapped_file::open(path));
    auto bytes = map->bytes();
    uint64_t of_file = XXH3_64bits_withSeed(bytes.data(), bytes.size(), bytes.size());
    hash = XXH3_64bits_withSeed(&of_file, sizeof of_file, hash);
  }
  return hash;
}

}  // namespace troupe::io
