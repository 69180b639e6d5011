// Text as it streams by, records as they are whole.
#include "io/data/document_reader.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace troupe::io {

status document_reader::begin_file() {
  const auto& file = source_.files()[next_file_];
  TROUPE_TRY(stream, byte_stream::open(file.path));
  file_.emplace(std::move(stream));
  records_.reset();
  if (file.records) records_.emplace(file.path.string(), max_document_bytes);
  text_.clear();
  at_begin_ = true;
  return_held_ = false;
  ++next_file_;
  return {};
}

/// Text that has come, with line ends as "\n" (TXT-2): a '\r' waits for what follows it.
void document_reader::append_text(std::string_view bytes) {
  if (std::exchange(at_begin_, false) && bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  for (const char c : bytes) {
    if (std::exchange(return_held_, c == '\r') && c != '\n') text_ += '\n';
    if (c != '\r') text_ += c;
  }
}

status document_reader::end_file() {
  const size_t file = next_file_ - 1;
  done_bytes_ += file_->file_bytes();
  file_.reset();
  if (records_) return records_->finish();
  if (return_held_) text_ += '\n';
  ready_.push_back({std::exchange(text_, {}), file, 0, true, file_bytes()});
  return {};
}

/// A file in one part: of books, what is around them is known once all was seen.
status document_reader::read_whole() {
  const size_t file = next_file_++;
  const auto& path = source_.files()[file].path;
  TROUPE_TRY(bytes, read_unpacked(path, max_document_bytes));
  std::error_code ignored;
  done_bytes_ += std::filesystem::file_size(path, ignored);
  ready_.push_back({clean_text(bytes, true), file, 0, true, file_bytes()});
  return {};
}

status document_reader::read_piece() {
  const size_t file = next_file_ - 1;
  // At a file's first bytes a mark of three may stand: they are seen together.
  size_t n = 0;
  while (n < piece_.size()) {
    TROUPE_TRY(some, file_->read(std::span(piece_).subspan(n)));
    if (some == 0) break;
    n += some;
  }
  if (n == 0) return end_file();
  const std::string_view bytes(piece_.data(), n);
  if (!records_) {
    append_text(bytes);
    if (!text_.empty()) ready_.push_back({std::exchange(text_, {}), file, 0, false, file_bytes()});
    return {};
  }
  const auto& name = source_.files()[file].path.string();
  return records_->feed(bytes, [&](std::string_view record, uint64_t line) -> status {
    TROUPE_TRY(text, text_of_record(record, source_.options().text_field, name, line));
    ready_.push_back({clean_text(text), file, line, true, file_bytes()});
    return {};
  });
}

result<std::optional<document_part>> document_reader::next() {
  while (ready_.empty()) {
    if (!file_ && next_file_ == source_.files().size()) return std::optional<document_part>();
    const bool whole =
        !file_ && source_.options().strip_gutenberg && !source_.files()[next_file_].records;
    if (!file_ && !whole) TROUPE_CHECK(begin_file());
    TROUPE_CHECK(whole ? read_whole() : read_piece());
  }
  auto part = std::move(ready_.front());
  ready_.pop_front();
  return std::optional(std::move(part));
}

status check_first_records(const text_source& source, size_t files) {
  for (const auto& file : source.files()) {
    if (!file.records) continue;
    if (files-- == 0) break;
    const std::array paths{file.path};
    TROUPE_TRY(alone, text_source::open(paths, source.options()));
    TROUPE_TRY(first, document_reader(alone, size_t{1} << 14).next());
    static_cast<void>(first);
  }
  return {};
}

std::string name_of(const text_source& source, const document_part& part) {
  const auto path = source.files()[part.file].path.string();
  return part.line == 0 ? path : fmt::format("{}: line {}", path, part.line);
}

}  // namespace troupe::io
