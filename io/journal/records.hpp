// The bytes of a journal: decisions, one behind the other, each found whole or not at all.
//
//   journal := header record*
//   header  := "TRJRNL\n\0" | u32 version | u32 crc32c(the 12 bytes before)
//   record  := u32 length | u32 sum | u8 kind | payload (length bytes)
//   sum     := crc32c(u32 length, u8 kind, payload), going on from the sum of the record before it,
//              or from the header's
//
// Little-endian. A kind is 1 to 255 and whoever appends it says what it means: payloads are opaque
// here, and verified by who understands them.
//
// Invariants
// JRN-1 What is read is the first of the records that were appended, in order: up to the first that
//       is torn or does not check. All from there on is dropped, though whole records may lie
//       behind it (damage in the middle): with its length in doubt nobody knows where they begin,
//       and a decision whose predecessor is lost means nothing.
// JRN-2 A record counts only behind the one that it was appended to: its sum goes on from that
//       one's. What a power cut brings back behind a cut file is no record.
// JRN-3 Foreign bytes give an error or fewer records, never undefined behaviour; no length is
//       believed before its bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

inline constexpr uint32_t journal_version = 1;
inline constexpr size_t journal_header_bytes = 16;
/// What a record has before its payload.
inline constexpr size_t record_head_bytes = 9;
/// A payload at most.
inline constexpr size_t max_record_bytes = size_t{256} << 10;
/// A journal at most, written or read.
inline constexpr uint64_t max_journal_bytes = uint64_t{64} << 20;

/// One decision.
struct journal_record {
  uint8_t kind = 0;  ///< 1 to 255
  std::string payload;
  bool operator==(const journal_record&) const = default;
};

/// Why reading ended before the last byte.
enum class journal_tear : uint8_t {
  none,
  cut_short,  ///< the bytes end within a record
  damaged,    ///< its sum, its length or its kind is wrong
};

/// "none", "cut_short", "damaged".
std::string_view to_string(journal_tear tear) noexcept;

/// What a journal says.
struct journal_contents {
  std::vector<journal_record> records;
  uint64_t whole_bytes = 0;    ///< header and records; here the next one goes
  uint64_t dropped_bytes = 0;  ///< behind them (JRN-1)
  journal_tear tear = journal_tear::none;
  uint32_t sum = 0;  ///< of the last record, or the header
};

/// A file that begins otherwise than a journal, or whose header is damaged: which, and what.
inline constexpr error_kind<std::string_view, std::string_view> not_a_journal{
    "not_a_journal", errc::bad_data, "{} is no journal: {}",
    "it stays as it is; if nothing of it is needed, move it away"};
/// A journal of a newer version: its own, and ours.
inline constexpr error_kind<std::string_view, uint32_t, uint32_t> newer_journal{
    "newer_journal", errc::version_mismatch, "{} is a journal of version {}, this program reads {}",
    "go on with the version of troupe that wrote it, or a later one"};
/// Bytes it has, and may have.
inline constexpr error_kind<std::string_view, uint64_t, uint64_t> journal_too_long{
    "journal_too_long", errc::bad_data, "{} has {} bytes, a journal has at most {}",
    "it is none of ours, or damaged; if nothing of it is needed, move it away"};
/// Bytes its payload has, and may have.
inline constexpr error_kind<uint64_t, uint64_t> record_too_long{
    "record_too_long", errc::bad_data, "a record of {} bytes is longer than the {} of a journal's",
    "it is not written; what is that large belongs into a file of its own"};

/// The header's bytes; its sum is `sum`.
std::string encode_journal_header(uint32_t& sum);

/// Appends a record to `to`, behind one of the given sum, which becomes its own. Error
/// record_too_long; bug for kind 0.
status encode_record(std::string& to, uint8_t kind, std::span<const std::byte> payload,
                     uint32_t& sum);

/// Foreign bytes; `name` is for errors: not_a_journal, newer_journal, journal_too_long.
result<journal_contents> parse_journal(std::span<const std::byte> bytes, std::string_view name);

/// Whether `bytes` may be what is left of a journal that was being made: a beginning of a header,
/// or zeros.
bool begins_as_journal(std::span<const std::byte> bytes);

}  // namespace troupe::io
