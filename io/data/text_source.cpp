// Text files as documents: see text_source.hpp.
#include "io/data/text_source.hpp"

#include <algorithm>

#include <xxhash.h>

#include "io/data/data_kind.hpp"
#include "io/data/gutenberg.hpp"
#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

/// Appends text with line ends as "\n".
void append_lines(std::string_view bytes, std::string& text) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\r')
      text += bytes[i];
    else if (i + 1 >= bytes.size() || bytes[i + 1] != '\n')
      text += '\n';
  }
}

std::string_view without_bom(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  return bytes;
}

}  // namespace

std::string clean_text(std::string_view bytes, bool strip_gutenberg) {
  bytes = without_bom(bytes);
  std::string text;
  text.reserve(bytes.size());
  if (!strip_gutenberg)
    append_lines(bytes, text);
  else
    for (auto book : gutenberg_books(bytes)) append_lines(book, text);
  return text;
}

status text_source::add_file(const fs::path& path, bool named) {
  TROUPE_TRY(type, data_type_of(path));
  const bool text =
      type.kind == data_kind::text || (type.kind == data_kind::json && options_.any_text);
  const bool meant = type.kind == data_kind::json || type.kind == data_kind::unsupported;
  if (!text && (named || meant))
    return unexpected_data(path.string(), type.what, "text", type.hint);
  if (!text) {
    passed_over_.push_back(path);
    return {};
  }
  std::error_code code;
  auto size = fs::file_size(path, code);
  if (code) return error::system("size of " + path.string(), code.value());
  if (size > max_document_bytes) return text_too_long(path.string(), size, max_document_bytes);
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

result<text_source> text_source::open(std::span<const fs::path> paths,
                                      const text_options& options) {
  text_source source;
  source.options_ = options;
  for (const auto& path : paths) {
    std::error_code ignored;
    auto added =
        fs::is_directory(path, ignored) ? source.add_folder(path) : source.add_file(path, true);
    TROUPE_CHECK(added);
  }
  if (source.documents_.empty())
    return error{errc::bad_data, "no text file was found",
                 "name text files, or folders that hold some, in data.path; token files are named "
                 "one by one"};
  return source;
}

result<std::string> text_source::read(size_t i) const {
  TROUPE_TRY(bytes, read_file(documents_[i], max_document_bytes));
  return clean_text(bytes, options_.strip_gutenberg);
}

result<std::vector<shortened>> text_source::left_out() const {
  std::vector<shortened> out;
  if (!options_.strip_gutenberg) return out;
  for (const auto& path : documents_) {
    TROUPE_TRY(map, mapped_file::open(path));
    const auto bytes = map->bytes();
    const auto text = without_bom({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    uint64_t kept = 0;
    for (auto book : gutenberg_books(text)) kept += book.size();
    if (kept < text.size()) out.push_back({path, text.size() - kept, text.size()});
  }
  return out;
}

result<uint64_t> text_source::fingerprint() const {
  uint64_t hash = text_rules_version * 2 + (options_.strip_gutenberg ? 1 : 0);
  for (const auto& path : documents_) {
    TROUPE_TRY(map, mapped_file::open(path));
    auto bytes = map->bytes();
    uint64_t of_file = XXH3_64bits_withSeed(bytes.data(), bytes.size(), bytes.size());
    hash = XXH3_64bits_withSeed(&of_file, sizeof of_file, hash);
  }
  return hash;
}

}  // namespace troupe::io
