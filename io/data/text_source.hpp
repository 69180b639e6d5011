// Plain text as a list of documents: files as they are named, folders walked through.
//
// Invariants:
// TXT-1 The documents and their order depend on names and contents alone: paths in the given order;
//       a folder recursively, by path; hidden entries, links to folders, and files that are no text
//       (a zero byte in the first 8 KiB) are passed over inside folders, and are errors when named.
// TXT-2 read() gives a document's text: without a byte order mark, line ends as "\n", and without
//       what Project Gutenberg wraps around its books: all up to the line that begins
//       "*** START OF TH", and all from a line that begins "*** END OF TH", "End of the Project
//       Gutenberg" or "End of Project Gutenberg" on. Nothing else is changed, and
//       text_rules_version grows when this does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::io {

/// The version of TXT-1 and TXT-2, part of every cache key.
constexpr uint64_t text_rules_version = 1;

/// See the head of the file.
class text_source {
 public:
  /// Errors: not_found; bad_data for a named file that is no text, or when there is no document.
  static result<text_source> open(std::span<const std::filesystem::path> paths);

  /// One document a file.
  std::span<const std::filesystem::path> documents() const noexcept { return documents_; }
  /// Sum of the files' sizes when opened, bytes.
  uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// The text of document i (TXT-2); at most 1 GiB.
  result<std::string> read(size_t i) const;
  /// Hash of all documents' bytes in order, and of the rules that made text of them.
  result<uint64_t> fingerprint() const;

 private:
  status add_file(const std::filesystem::path& path, bool named);
  status add_folder(const std::filesystem::path& folder);

  std::vector<std::filesystem::path> documents_;
  uint64_t total_bytes_ = 0;
};

/// TXT-2 for bytes already read.
std::string clean_text(std::string_view bytes);

}  // namespace troupe::io
