// UTF-8: is it valid, where does a character end; and GPT-2's reversible letters for bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::io {

/// Offset of the first byte that is not valid UTF-8 (RFC 3629: no surrogates, no overlong forms, at
/// most U+10FFFF), or npos.
size_t find_invalid_utf8(std::string_view text) noexcept;

/// Bytes of the character that begins with `lead` in valid UTF-8: 1 to 4.
constexpr size_t utf8_length(char lead) noexcept {
  auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/// The bytes whose byte-level form is `token` (GPT-2 encoder.py, bytes_to_unicode: printable
/// Latin-1 stands for itself, the other 68 bytes for U+0100 on), or nothing when a letter stands
/// for no byte.
std::optional<std::string> from_byte_level(std::string_view token);

/// The letter that stands for a byte, in UTF-8.
std::string to_byte_level(unsigned char byte);

}  // namespace troupe::io
