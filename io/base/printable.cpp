// A small UTF-8 decoder and what may pass it.
#include "io/base/printable.hpp"

#include <algorithm>
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
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0xfeff || point == 0x061c ||
         (point >= 0x200b && point < 0x2010) || (point >= 0x2028 && point < 0x202f) ||
         (point >= 0x2060 && point < 0x2070);
}

/// Takes the first character off a text that is not empty: itself, or what stands for it (PRT-1).
std::string take(std::string_view& text) {
  uint32_t point = 0;
  const size_t length = character(text, point);
  const auto whole = text.substr(0, length == 0 ? 1 : length);
  text.remove_prefix(whole.size());
  if (length == 0) return fmt::format("\\x{:02x}", static_cast<unsigned char>(whole[0]));
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  return hidden(point) ? fmt::format("\\u{:04x}", point) : std::string(whole);
}

/// Columns of what take() gave: one for a character that stands for itself.
size_t width_of(const std::string& shown) {
  return shown.size() > 1 && shown[0] == '\\' ? shown.size() : 1;
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  constexpr std::string_view more = "...";
  std::string out;
  size_t columns = 0, kept = 0;  // kept: bytes of `out` that leave room for `more`
  while (!text.empty()) {
    const auto shown = take(text);
    columns += width_of(shown);
    if (columns > most) return out.substr(0, kept).append(more);
    out += shown;
    if (columns + more.size() <= most) kept = out.size();
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto stays = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; };
  while (!text.empty()) {
    const auto plain =
        static_cast<size_t>(std::find_if_not(text.begin(), text.end(), stays) - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) out += take(text);
  }
  return out;
}

}  // namespace troupe
