// The documents of a text source, in order and in parts, so that a file of any length is read in
// bounded memory.
//
// Invariants
//   DRD-1  The parts of a document, put together, are its text (TXT-2), however they are cut.
//   DRD-2  What is held is bounded: by a part, and where something must be seen whole (a record, a
//     book of Project Gutenberg's) by max_document_bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "io/base/result.hpp"
#include "io/data/json_records.hpp"
#include "io/data/text_source.hpp"
#include "io/formats/byte_stream.hpp"

namespace troupe::io {

/// A document or a part of one.
struct document_part {
  std::string text;
  size_t file = 0;          ///< of the source
  uint64_t line = 0;        ///< that its record begins in, from 1; 0: it is no record
  bool last = false;        ///< of its document
  uint64_t file_bytes = 0;  ///< of all files, packed as they are, that were read up to its end
};

class document_reader {
 public:
  /// `part_bytes`: so much of a file is read at once.
  explicit document_reader(const text_source& source, size_t part_bytes = size_t{1} << 20)
      : source_(source), piece_(part_bytes, '\0') {}

  /// The next part; nothing: all were read. Errors: those of byte_stream and json_records;
  /// text_too_long.
  result<std::optional<document_part>> next();

 private:
  uint64_t file_bytes() const noexcept { return done_bytes_ + (file_ ? file_->file_bytes() : 0); }
  status begin_file();
  status end_file();
  status read_whole();
  status read_piece();
  void append_text(std::string_view bytes);

  const text_source& source_;
  std::string piece_;
  size_t next_file_ = 0;
  std::optional<byte_stream> file_;
  std::optional<json_records> records_;
  std::deque<document_part> ready_;
  std::string text_;  ///< of the file under way
  bool at_begin_ = true;
  bool return_held_ = false;  ///< a '\r' has come, and not yet what follows it
  uint64_t done_bytes_ = 0;
};

/// Reads the first record of each file of records, of the first so many, so that it is known before
/// a long reading begins whether they have the field that is asked for. Errors: those of next().
status check_first_records(const text_source& source, size_t files = 32);

/// "FILE", or "FILE: line N" of a record.
std::string name_of(const text_source& source, const document_part& part);

}  // namespace troupe::io
