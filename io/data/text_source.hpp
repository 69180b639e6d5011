// Text as documents: files as they are named, folders walked through, patterns matched; plain
// text, or records of JSON, packed by gzip or Zstandard or not. document_reader reads them.
//
// Invariants:
// TXT-1 The documents and their order depend on names and contents alone (DFL-1). A text file is
//       one document, a record of JSON is one (io/data/json_records): the string of its field
//       text_options::text_field. A file that is neither (io/data/data_kind) is an error when
//       named, and so is one inside a folder that seems meant to be read (Parquet, LZ4); others in
//       folders are skipped and counted. Of a folder with records plain text (README.md, CSV) is
//       skipped, too, and refused where it is more than they are.
// TXT-2 A document's text is without a byte order mark, has line ends as "\n", and where
//       text_options say so is without what Project Gutenberg wraps around its books
//       (io/data/gutenberg). Nothing else is changed, and text_rules_version grows when this does.
// TXT-3 What is left out of a document is said: left_out(), passed_over() and
//       beside_records() know all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// The version of TXT-1 and TXT-2, part of every cache key.
constexpr uint64_t text_rules_version = 3;

/// Bytes of what must be held at once, at most: a record, a file of Project Gutenberg's books, text
/// between two places where it can be cut.
constexpr uint64_t max_document_bytes = uint64_t{1} << 30;

/// More than that.
inline constexpr error_kind<std::string_view, uint64_t> text_too_long{
    "text_too_long", errc::bad_data, "{} has more than {} bytes that are held at once",
    "text is read in parts where its tokenizer allows a cut: GPT-2's, Llama 3's and Qwen 2's at "
    "line ends, bytes anywhere, those of words that begin with a space between words where no "
    "token goes on over two, SentencePiece's unigram models and those with rules or that leave "
    "spaces out nowhere; files of books (data.strip_gutenberg) and records are held whole. Write "
    "it as records of JSON, a chapter or a page each, or as smaller files: "
    "`split -C 1000M FILE part-`"};

/// A folder in which neither is what the other comes with.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> records_and_text{
    "records_and_text", errc::bad_data,
    "{0} has records ({1}) and more plain text ({2}), expected one kind",
    "name the files or a pattern: data.path = \"{0}/*.jsonl\", or both in [[data.source]]"};

/// How files of text are read.
enum class text_form : uint8_t {
  automatic,  ///< JSON as records, all else as text
  text,       ///< JSON, too, as text
  records,    ///< all of them as records of JSON
};

/// What is done to texts.
struct text_options {
  bool strip_gutenberg = false;  ///< keep the books of Project Gutenberg's files alone (TXT-2)
  text_form form = text_form::automatic;
  std::string text_field = "text";  ///< of a record
};

struct text_file {
  std::filesystem::path path;
  bool records = false;
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
  /// Errors: not_found; bad_data for a file that is no text (TXT-1), or when there is no file.
  static result<text_source> open(std::span<const std::filesystem::path> paths,
                                  const text_options& options = {});

  std::span<const text_file> files() const noexcept { return files_; }
  const text_options& options() const noexcept { return options_; }
  /// Sum of the files' sizes when opened, packed as they are, bytes.
  uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// Whether any file holds records.
  bool has_records() const noexcept;
  /// Files inside folders that are no text (TXT-3).
  std::span<const std::filesystem::path> passed_over() const noexcept { return passed_over_; }
  /// Plain text inside folders of records (TXT-1, TXT-3).
  std::span<const std::filesystem::path> beside_records() const noexcept { return beside_records_; }
  /// The documents of which something is left out (TXT-3).
  result<std::vector<shortened>> left_out() const;
  /// Hash of all files' bytes in order, and of the rules that made text of them. `goes_on` hears
  /// how many bytes of all files were read, after each MiB; false ends it (errc::cancelled).
  result<uint64_t> fingerprint(const std::function<bool(uint64_t)>& goes_on = {}) const;

 private:
  /// Of a folder's files those that are read: records alone where there are some.
  status keep_records(const std::filesystem::path& folder,
                      std::vector<std::filesystem::path>& files);
  status add_file(const std::filesystem::path& path, bool named, std::string_view tokens_hint);

  text_options options_;
  std::vector<text_file> files_;
  std::vector<std::filesystem::path> passed_over_;
  std::vector<std::filesystem::path> beside_records_;
  uint64_t total_bytes_ = 0;
};

/// TXT-2 for bytes already read.
std::string clean_text(std::string_view bytes, bool strip_gutenberg = false);

}  // namespace troupe::io
