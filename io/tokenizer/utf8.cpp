// UTF-8 helpers: see utf8.hpp.
#include "io/tokenizer/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace troupe::io {

size_t find_invalid_utf8(std::string_view text) noexcept {
  const auto* s = reinterpret_cast<const unsigned char*>(text.data());
  size_t n = text.size();
  size_t i = 0;
  while (i < n) {
    if (n - i >= 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, s + i, sizeof eight);
      if ((eight & 0x8080808080808080ULL) == 0) {
        i += 8;
        continue;
      }
    }
    unsigned char lead = s[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                    : lead >= 0xe0 && lead < 0xf0 ? 3
                    : lead >= 0xf0 && lead < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || length > n - i) return i;
    for (size_t k = 1; k < length; ++k)
      if ((s[i + k] & 0xc0) != 0x80) return i;
    bool overlong = (lead == 0xe0 && s[i + 1] < 0xa0) || (lead == 0xf0 && s[i + 1] < 0x90);
    bool beyond = (lead == 0xed && s[i + 1] >= 0xa0) || (lead == 0xf4 && s[i + 1] >= 0x90);
    if (overlong || beyond) return i;
    i += length;
  }
  return std::string_view::npos;
}

namespace {

constexpr size_t letters = 0x144;  // the last stand-in is U+0143

/// letter -> byte, -1 where a letter stands for none.
constexpr std::array<int16_t, letters> make_bytes() {
  std::array<int16_t, letters> table{};
  for (auto& entry : table) entry = -1;
  size_t next = 256;
  for (size_t b = 0; b < 256; ++b) {
    bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    table[itself ? b : next++] = static_cast<int16_t>(b);
  }
  return table;
}

constexpr auto byte_of_letter = make_bytes();

}  // namespace

std::optional<std::string> from_byte_level(std::string_view token) {
  std::string out;
  out.reserve(token.size());
  for (size_t i = 0; i < token.size();) {
    size_t length = utf8_length(token[i]);
    if (length > 2 || length > token.size() - i) return std::nullopt;
    auto lead = static_cast<unsigned char>(token[i]);
    size_t letter = length == 1 ? lead
                                : static_cast<size_t>((lead & 0x1f) << 6) |
                                      (static_cast<unsigned char>(token[i + 1]) & 0x3f);
    if (letter >= letters || byte_of_letter[letter] < 0) return std::nullopt;
    out += static_cast<char>(byte_of_letter[letter]);
    i += length;
  }
  return out;
}

std::string to_byte_level(unsigned char byte) {
  const auto letter = static_cast<size_t>(
      std::find(byte_of_letter.begin(), byte_of_letter.end(), byte) - byte_of_letter.begin());
  if (letter < 0x80) return std::string(1, static_cast<char>(letter));
  return {static_cast<char>(0xc0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3f))};
}

}  // namespace troupe::io
