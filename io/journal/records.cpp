// Encoding and parsing: see records.hpp.
#include "io/journal/records.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::io {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

namespace {

constexpr std::string_view magic{"TRJRNL\n\0", 8};
constexpr size_t sum_at = 4;   ///< in a record
constexpr size_t kind_at = 8;  ///< in a record

void put(std::string& to, uint32_t value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  to.append(raw, sizeof value);
}

uint32_t get(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Of a record whose head and payload are there, behind one of sum `before`.
uint32_t sum_of(std::span<const std::byte> record, uint32_t before) {
  return crc32c(record.subspan(kind_at), crc32c(record.first(sum_at), before));  // JRN-2
}

status check_header(std::span<const std::byte> bytes, std::string_view name) {
  const auto given = as_bytes(magic);
  const auto begins = bytes.first(std::min(bytes.size(), given.size()));
  if (!std::equal(begins.begin(), begins.end(), given.begin()))
    return not_a_journal(name, "it begins otherwise");
  if (bytes.size() < journal_header_bytes) return not_a_journal(name, "it ends within its header");
  if (get(bytes, 12) != crc32c(bytes.first(12)))
    return not_a_journal(name, "its header is damaged");
  const auto version = get(bytes, 8);
  if (version > journal_version) return newer_journal(name, version, journal_version);
  if (version < journal_version)
    return not_a_journal(name, fmt::format("there is no version {}", version));
  return {};
}

/// Reads the record that `rest` begins with; how many bytes it has, or nothing where it tears.
std::optional<size_t> read_record(std::span<const std::byte> rest, journal_contents& into) {
  into.tear = journal_tear::cut_short;
  if (rest.size() < record_head_bytes) return std::nullopt;
  const size_t length = get(rest, 0);
  const auto kind = static_cast<uint8_t>(rest[kind_at]);
  if (length > max_record_bytes || kind == 0) {  // zeros, too, which a power cut may leave
    into.tear = journal_tear::damaged;
    return std::nullopt;
  }
  if (rest.size() < record_head_bytes + length) return std::nullopt;  // JRN-3
  const auto record = rest.first(record_head_bytes + length);
  const auto sum = sum_of(record, into.sum);
  if (sum != get(record, sum_at)) {
    into.tear = journal_tear::damaged;
    return std::nullopt;
  }
  const auto payload = record.subspan(record_head_bytes);
  into.records.push_back(
      {kind, std::string(reinterpret_cast<const char*>(payload.data()), payload.size())});
  into.sum = sum;
  into.tear = journal_tear::none;
  return record.size();
}

}  // namespace

std::string_view to_string(journal_tear tear) noexcept {
  switch (tear) {
    case journal_tear::none:
      return "none";
    case journal_tear::cut_short:
      return "cut_short";
    case journal_tear::damaged:
      return "damaged";
  }
  return "?";
}

std::string encode_journal_header(uint32_t& sum) {
  std::string out(magic);
  put(out, journal_version);
  sum = crc32c(as_bytes(out));
  put(out, sum);
  return out;
}

status encode_record(std::string& to, uint8_t kind, std::span<const std::byte> payload,
                     uint32_t& sum) {
  if (kind == 0) return error{errc::bug, "a journal has no records of kind 0"};
  if (payload.size() > max_record_bytes) return record_too_long(payload.size(), max_record_bytes);
  const size_t begin = to.size();
  put(to, static_cast<uint32_t>(payload.size()));
  put(to, 0);
  to += static_cast<char>(kind);
  to.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  sum = sum_of(as_bytes(to).subspan(begin), sum);
  std::memcpy(to.data() + begin + sum_at, &sum, sizeof sum);
  return {};
}

result<journal_contents> parse_journal(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.size() > max_journal_bytes)
    return journal_too_long(name, bytes.size(), max_journal_bytes);
  TROUPE_CHECK(check_header(bytes, name));
  journal_contents out;
  out.whole_bytes = journal_header_bytes;
  out.sum = get(bytes, 12);
  while (out.whole_bytes < bytes.size()) {
    const auto read = read_record(bytes.subspan(out.whole_bytes), out);
    if (!read) break;  // JRN-1
    out.whole_bytes += *read;
  }
  out.dropped_bytes = bytes.size() - out.whole_bytes;
  return out;
}

bool begins_as_journal(std::span<const std::byte> bytes) {
  const auto head = bytes.first(std::min(bytes.size(), magic.size()));
  const auto given = as_bytes(magic);
  return std::equal(head.begin(), head.end(), given.begin()) ||
         std::all_of(head.begin(), head.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace troupe::io
