// Text files as documents: see text_source.hpp.
#include "io/data/text_source.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <xxhash.h>

#include "io/data/data_files.hpp"
#include "io/data/data_kind.hpp"
#include "io/data/gutenberg.hpp"
#include "io/file.hpp"
#include "io/formats/byte_stream.hpp"

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

/// Of a file as it is packed, in parts: of a map all pages would count as this process' memory.
/// `goes_on` hears of each part.
template <class GoesOn>
result<uint64_t> hash_of_file(const fs::path& path, const GoesOn& goes_on) {
  TROUPE_TRY(fd, open_read(path));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  if (!state) return error{errc::no_memory, "no memory to read " + path.string()};
  XXH3_64bits_reset(state.get());
  std::string piece(size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t n = ::read(fd.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error::system("read " + path.string(), errno);
    if (n == 0) return uint64_t{XXH3_64bits_digest(state.get())};
    XXH3_64bits_update(state.get(), piece.data(), static_cast<size_t>(n));
    if (!goes_on(static_cast<uint64_t>(n)))
      return error{errc::cancelled, "reading " + path.string() + " was cancelled"};
  }
}

constexpr std::string_view tokens_alone_hint =
    "these are tokens already: name them in data.path, with data.format = \"auto\"";

constexpr std::string_view tokens_among_text_hint =
    "text and tokens are not mixed: make tokens of the text, too (`troupe data prepare TEXT "
    "--tokenizer NAME --out FOLDER`), and name both in data.path, or in [[data.source]] each with "
    "its weight";

std::string names_of(std::span<const fs::path> paths) {
  std::string out;
  for (const auto& path : paths) out += (out.empty() ? "" : ", ") + path.string();
  return out;
}

bool is_of_tokens(data_kind kind) {
  return kind == data_kind::llmc_tokens || kind == data_kind::raw_tokens ||
         kind == data_kind::megatron;
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

status text_source::add_file(const fs::path& path, bool named, std::string_view tokens_hint) {
  auto looked = data_type_of(path);
  if (!looked) return of_data_name(path, looked.error());
  const auto type = *looked;
  const bool as_text = options_.form == text_form::text && type.kind == data_kind::marked_text;
  const bool plain = type.kind == data_kind::text || type.kind == data_kind::json || as_text;
  const bool meant = type.kind == data_kind::marked_text || type.kind == data_kind::unsupported ||
                     type.kind == data_kind::llmc_tokens || type.kind == data_kind::megatron;
  if (!plain && (named || meant)) {
    auto hint = std::string(is_of_tokens(type.kind) ? tokens_hint : type.hint);
    if (!named && type.kind == data_kind::marked_text)  // one among many
      hint += fmt::format("; or name what is beside it: data.path = \"{}/*.txt\"",
                          path.parent_path().string());
    return unexpected_data(path.string(), type.what, "text or JSON", hint);
  }
  if (!plain) {
    passed_over_.push_back(path);
    return {};
  }
  std::error_code code;
  auto size = fs::file_size(path, code);
  if (code) return error::system("size of " + path.string(), code.value());
  const bool records = options_.form == text_form::records ||
                       (options_.form == text_form::automatic && type.kind == data_kind::json);
  if (options_.strip_gutenberg && !records && size > max_document_bytes)
    return text_too_long(path.string(), max_document_bytes);
  total_bytes_ += size;
  files_.push_back({path, records});
  return {};
}

status text_source::keep_records(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> records, others, text;
  uint64_t record_bytes = 0, text_bytes = 0;
  for (const auto& file : files) {
    const auto type = data_type_of(file);
    std::error_code ignored;
    const auto bytes = fs::file_size(file, ignored);
    const bool record = type && type->kind == data_kind::json;
    const bool plain = type && is_text(type->kind);
    (record ? records : plain ? text : others).push_back(file);
    if (!ignored) (record ? record_bytes : text_bytes) += record || plain ? bytes : 0;
  }
  TROUPE_CHECK(check_one_split(folder, records));
  if (records.empty() || text.empty()) return {};
  if (text_bytes > record_bytes)
    return records_and_text(folder.string(), records[0].lexically_relative(folder).string(),
                            text[0].lexically_relative(folder).string());
  beside_records_.insert(beside_records_.end(), text.begin(), text.end());
  std::erase_if(files,
                [&](const fs::path& f) { return std::binary_search(text.begin(), text.end(), f); });
  return {};
}

result<text_source> text_source::open(std::span<const fs::path> paths,
                                      const text_options& options) {
  text_source source;
  source.options_ = options;
  const auto tokens_hint = paths.size() > 1 ? tokens_among_text_hint : tokens_alone_hint;
  for (const auto& path : paths) {
    TROUPE_TRY(found, data_files_of(path));
    if (found.of_folder && options.form != text_form::text)
      TROUPE_CHECK(source.keep_records(path, found.files));
    const auto files_before = source.files_.size();
    for (const auto& file : found.files)
      TROUPE_CHECK(source.add_file(file, !found.of_folder, tokens_hint));
    if (source.files_.size() == files_before && names_tokens(path))
      return unexpected_data(path.string(), "a folder of tokens", "text or JSON", tokens_hint);
  }
  if (source.files_.empty()) return no_text_found(names_of(paths));
  return source;
}

bool text_source::has_records() const noexcept {
  return std::any_of(files_.begin(), files_.end(), [](const text_file& f) { return f.records; });
}

result<std::vector<shortened>> text_source::left_out() const {
  std::vector<shortened> out;
  if (!options_.strip_gutenberg) return out;
  for (const auto& file : files_) {
    if (file.records) continue;
    TROUPE_TRY(bytes, read_unpacked(file.path, max_document_bytes));
    const auto text = without_bom(bytes);
    uint64_t kept = 0;
    for (auto book : gutenberg_books(text)) kept += book.size();
    if (kept < text.size()) out.push_back({file.path, text.size() - kept, text.size()});
  }
  return out;
}

result<uint64_t> text_source::fingerprint(const std::function<bool(uint64_t)>& goes_on) const {
  uint64_t bytes_read = 0;
  const auto heard = [&](uint64_t bytes) {
    bytes_read += bytes;
    return !goes_on || goes_on(bytes_read);
  };
  uint64_t hash = text_rules_version * 2 + (options_.strip_gutenberg ? 1 : 0);
  if (has_records())
    hash = XXH3_64bits_withSeed(options_.text_field.data(), options_.text_field.size(), hash);
  for (const auto& file : files_) {
    hash = hash * 2 + (file.records ? 1 : 0);
    TROUPE_TRY(of_file, hash_of_file(file.path, heard));
    hash = XXH3_64bits_withSeed(&of_file, sizeof of_file, hash);
  }
  return hash;
}

}  // namespace troupe::io
