// JSON records in a stream of bytes: one a line (jsonl), one behind the other over several lines,
// or the elements of one array. Pure: bytes are handed in as they come, records come out whole.
//
//   stream := space* ( "[" [ record ( "," record )* ] "]" | ( record space* )* )
//   record := "{" ... "}", a JSON object
//
// Invariants
//   JRC-1  Records come in order, each once, whatever parts the stream is handed in by.
//   JRC-2  What is between them is space, or an array's brackets and commas; anything else is an
//     error with its line.
//   JRC-3  A record is at most max_bytes long: what is held is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// What stands where a record is expected.
inline constexpr error_kind<std::string_view, uint64_t, std::string_view> no_record{
    "no_record", errc::bad_data, "{}: line {}: {}, expected a JSON object",
    "records are objects, one a line or the elements of one array; to train on the JSON as it "
    "stands: data.format = \"text\""};
inline constexpr error_kind<std::string_view, uint64_t, uint64_t> json_record_too_long{
    "json_record_too_long", errc::bad_data, "{}: line {}: a record is longer than {} bytes",
    "a record is held whole: make several of it, a chapter or a page each"};
/// What is said of a record that is no JSON.
inline constexpr std::string_view broken_record_hint =
    "a record is one JSON object in UTF-8, with each name once and no half of a surrogate pair "
    "(\\ud800 to \\udfff alone); to train on the JSON as it stands: data.format = \"text\"";
inline constexpr std::string_view text_field_hint =
    "data.text_field (--text-field) names the field that holds a record's text; data.format = "
    "\"text\" (--any-text) takes the JSON as it stands";
/// A record without its text: the file, the line, the field, the fields that are there.
inline constexpr error_kind<std::string_view, uint64_t, std::string_view, std::string_view>
    no_text_field{"no_text_field", errc::bad_data, "{}: line {}: field \"{}\" not found, found {}",
                  text_field_hint};
/// The file, the line, the field, what is in it.
inline constexpr error_kind<std::string_view, uint64_t, std::string_view, std::string_view>
    text_is_no_string{"text_is_no_string", errc::bad_data,
                      "{}: line {}: field \"{}\" is {}, expected a string", text_field_hint};

class json_records {
 public:
  /// Takes a record's bytes and the line that it begins in, from 1.
  using take = std::function<status(std::string_view record, uint64_t line)>;

  /// `name` is what errors call the stream.
  json_records(std::string name, uint64_t max_bytes)
      : name_(std::move(name)), max_bytes_(max_bytes) {}

  /// More of the stream; a byte order mark comes whole. Errors: no_record, json_record_too_long,
  /// and those of `to`.
  status feed(std::string_view bytes, const take& to);
  /// The stream has ended. Errors: no_record in the midst of a record or an array.
  status finish() const;

 private:
  status between(char c);
  bool inside(char c);

  std::string name_;
  uint64_t max_bytes_;
  uint64_t line_ = 1, begun_line_ = 1;
  std::string record_;  ///< as far as it came by parts before
  int depth_ = 0;       ///< of brackets inside a record; 0: between records
  bool in_string_ = false, escaped_ = false;
  bool at_begin_ = true;  ///< a byte order mark may come
  bool begun_ = false;    ///< something but space has come
  bool in_array_ = false, array_over_ = false;
  bool wants_comma_ = false, wants_record_ = false;
};

/// The text of a record. Errors: not_json, no_text_field, text_is_no_string.
result<std::string> text_of_record(std::string_view record, const std::string& field,
                                   std::string_view name, uint64_t line);

}  // namespace troupe::io
