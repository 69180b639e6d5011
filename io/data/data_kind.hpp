// What a data file is: by what it holds, then by its name. Readers ask this before they read, so
// that no file is taken for another kind without a word.
//
// Invariants
// DKD-1 A file whose first bytes are a known format's is that format, whatever its name is.
// DKD-2 A name that promises a format Troupe does not read is believed, whatever the bytes are.
// DKD-3 Megatron's pair (.bin beside .idx) is never raw tokens: its .bin has no mark of its own.
// DKD-4 What is packed (gzip, Zstandard) is what its content is, by the name without .gz or .zst;
//       but packed tokens are unsupported.
// DKD-5 Columns and markup (.csv, .html) are no prose: they are read as text only where that is
//       said.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// Kinds of data files. `unsupported`: a known format that is not read. `binary`: zero bytes and no
/// format that we know. `marked_text`: text that holds columns or markup, by its name.
enum class data_kind : uint8_t {
  text,
  marked_text,
  json,
  llmc_tokens,
  raw_tokens,
  megatron,
  unsupported,
  binary
};

/// Plain text, with markup or without.
constexpr bool is_text(data_kind kind) {
  return kind == data_kind::text || kind == data_kind::marked_text;
}

/// A kind, and words for a person about it.
struct data_type {
  data_kind kind = data_kind::text;
  std::string_view what;  ///< "JSON", "Parquet": what the file is, or seems to be
  std::string_view hint;  ///< how it can be used all the same; may be empty
};

/// Bytes of a file's beginning that data_type_of looks at.
constexpr size_t data_probe_bytes = 8192;

/// By the first bytes of a file (up to data_probe_bytes) and its name.
data_type data_type_of(std::string_view head, const std::filesystem::path& name);

/// The first bytes of a file as it is, up to data_probe_bytes. Errors: not_found, io.
result<std::string> head_of(const std::filesystem::path& path);

/// The same of a file on disk, with what lies beside it (DKD-3) and in it (DKD-4). Errors:
/// not_found, io; bad_data where what is packed is damaged.
result<data_type> data_type_of(const std::filesystem::path& path);

/// A file that is what the data's type says, and something else was expected; with its hint.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view, std::string_view>
    unexpected_data{"unexpected_data", errc::bad_data, "{0} is {1}, expected {2}", "{3}"};

}  // namespace troupe::io
