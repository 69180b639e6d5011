// A file read from its first byte to its last, unpacked on the way where it is gzip's or
// Zstandard's: what is held is bounded, however long the file or its content is.
//
// Why: corpora come as .jsonl.gz and .jsonl.zst of many gigabytes, which nobody wants to unpack
// first, and which no memory holds.
//
// Invariants
//   BYS-1  What read() gives, put together, is the content whole: an end that comes too early, a
//     checksum that is wrong and bytes behind the end are errors, never an end.
//   BYS-2  Memory is bounded: a Zstandard frame that wants a window beyond max_zstd_window_log is
//     refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// How a file's content is packed.
enum class packing : uint8_t { none, gzip, zstd };

/// Of Zstandard: 2^27 bytes, what `zstd -d` takes without being asked for more.
constexpr int max_zstd_window_log = 27;

/// A content beyond what is taken whole.
inline constexpr error_kind<std::string_view, std::string_view> content_too_long{
    "content_too_long", errc::bad_data, "{}: its content is longer than {}"};

/// By the first bytes of a file.
packing packing_of(std::string_view head) noexcept;

class byte_stream {
 public:
  /// Errors: not_found, permission, io.
  static result<byte_stream> open(const std::filesystem::path& path);

  /// The next bytes of the content, as many as fit; 0: its end (of an empty `into`, too).
  /// Errors: bad_data where what is packed is damaged or cut; io.
  result<size_t> read(std::span<char> into);

  /// Bytes of the file, packed as they are, that were read so far.
  uint64_t file_bytes() const noexcept;

  byte_stream(byte_stream&&) noexcept;
  byte_stream& operator=(byte_stream&&) noexcept;
  ~byte_stream();

 private:
  class state;
  explicit byte_stream(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

/// A file's content whole. Errors: content_too_long beyond `max_bytes`; those of byte_stream.
result<std::string> read_unpacked(const std::filesystem::path& path, size_t max_bytes);

}  // namespace troupe::io
