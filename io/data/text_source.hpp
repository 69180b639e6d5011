// Plain text as a list of documents: files as they are named, folders walked through.
//
// Invariants:
// TXT-1 The documents and their order depend on names and contents alone: paths in the given order;
//       a folder recursively, by path, without hidden entries and links to folders. A file that
//       is no text (io/data/data_kind) is an error when named, and so is one inside a folder that
//       seems meant to be read (JSON, Parquet, compressed); others in folders are skipped and
//       counted.
// TXT-2 read() gives a document's text: without a byte order mark, line ends as "\n", and where
//       text_options say so without what Project Gutenberg wraps around its books
//       (io/data/gutenberg). Nothing else is changed, and text_rules_version grows when this does.
// TXT-3 What is left out of a document is said: left_out() and passed_over() know all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// The version of TXT-1 and TXT-2, part of every cache key.
constexpr uint64_t text_rules_version = 2;

/// Bytes of one text file, at most.
constexpr uint64_t max_document_bytes = uint64_t{1} << 30;

/// A text of more than that.
inline constexpr error_kind<std::string_view, uint64_t, uint64_t> text_too_long{
    "text_too_long", errc::bad_data, "{} has {} bytes, expected at most {} in one text file",
    "split it: `split -C 1000M FILE part-`"};

/// What is done to texts.
struct text_options {
  bool strip_gutenberg = false;  ///< keep the books of Project Gutenberg's files alone (TXT-2)
  bool any_text = false;         ///< JSON, too, is text
};

/// A document of which something is left out.
struct shortened {
  std::filesystem::path path;
  uint64_t left_out_bytes = 0;
  uint64_t bytes = 0;  ///< of the file
};

/// See the head of the file.
class text_source {
 public:
  /// Errors: not_found; bad_data for a file that is no text (TXT-1) or too large, or when there is
  /// no document.
  static result<text_source> open(std::span<const std::filesystem::path> paths,
                                  const text_options& options = {});

  /// One document a file.
  std::span<const std::filesystem::path> documents() const noexcept { return documents_; }
  /// Sum of the files' sizes when opened, bytes.
  uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// Files inside folders that are no text (TXT-3).
  std::span<const std::filesystem::path> passed_over() const noexcept { return passed_over_; }
  /// The text of document i (TXT-2); at most max_document_bytes.
  result<std::string> read(size_t i) const;
  /// The documents of which something is left out (TXT-3).
  result<std::vector<shortened>> left_out() const;
  /// Hash of all documents' bytes in order, and of the rules that made text of them.
  result<uint64_t> fingerprint() const;

 private:
  status add_file(const std::filesystem::path& path, bool named);
  status add_folder(const std::filesystem::path& folder);

  text_options options_;
  std::vector<std::filesystem::path> documents_;
  std::vector<std::filesystem::path> passed_over_;
  uint64_t total_bytes_ = 0;
};

/// TXT-2 for bytes already read.
std::string clean_text(std::string_view bytes, bool strip_gutenberg = false);

}  // namespace troupe::io
