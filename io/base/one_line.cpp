// A small UTF-8 decoder and what may pass it.
#include "io/base/one_line.hpp"

#include <cstdint>

#include <fmt/format.h>

namespace troupe {

namespace {

/// Bytes of the valid UTF-8 character at the beginning of `text`, and its code point; 0: none is.
size_t character(std::string_view text, uint32_t& point) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || lead > 0xf4 || text.size() < length) return 0;
  point = length == 1 ? lead : lead & (0xffU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return 0;
    point = point << 6 | (next & 0x3f);
  }
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  return overlong || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? 0 : length;
}

/// Controls, marks that turn the direction of writing, and line separators.
bool hidden(uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0xfeff ||
         (point >= 0x200b && point < 0x2010) || (point >= 0x2028 && point < 0x202f) ||
         (point >= 0x2060 && point < 0x2070);
}

}  // namespace

std::string one_line(std::string_view text, size_t most) {
  std::string out;
  for (size_t shown = 0; !text.empty(); ++shown) {
    if (shown == most) return out + "...";
    uint32_t point = 0;
    const size_t length = character(text, point);
    const char c = text[0];
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (length == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else if (hidden(point))
      out += point < 0x80 ? fmt::format("\\x{:02x}", point) : fmt::format("\\u{:04x}", point);
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace troupe
