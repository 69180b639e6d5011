// White space around line ends and before words: see text_cuts.hpp.
#include "io/tokenizer/text_cuts.hpp"

#include <algorithm>
#include <array>

#include "io/tokenizer/utf8.hpp"

namespace troupe::io {

namespace {

using namespace std::string_view_literals;

/// Unicode's White_Space beyond ASCII, in UTF-8; U+2000 to U+200A apart.
constexpr std::array wide_spaces{"\xc2\x85"sv,     "\xc2\xa0"sv,     "\xe1\x9a\x80"sv,
                                 "\xe2\x80\xa8"sv, "\xe2\x80\xa9"sv, "\xe2\x80\xaf"sv,
                                 "\xe2\x81\x9f"sv, "\xe3\x80\x80"sv};

bool is_white(std::string_view character) {
  const auto c = static_cast<unsigned char>(character[0]);
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  if (character.starts_with("\xe2\x80"sv) && character.size() == 3 &&
      static_cast<unsigned char>(character[2]) <= 0x8a)
    return true;
  return std::find(wide_spaces.begin(), wide_spaces.end(), character) != wide_spaces.end();
}

/// The character that begins there, or as much of it as there is.
std::string_view character_at(std::string_view text, size_t at) {
  return text.substr(at, utf8_length(text[at]));
}

/// The character that ends there; of what is no UTF-8 some bytes.
std::string_view character_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80)
    --begin;
  return text.substr(begin, end - begin);
}

/// No added token that tokenizers with text_cuts::last_lines have begins so, and none ends so that
/// those with text_cuts::before_words have.
bool is_no_mark(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u >= 0x80 || (u >= '0' && u <= '9') || (u >= 'A' && u <= 'Z') || (u >= 'a' && u <= 'z');
}

/// The cut at the line end `at`, which has something before it and behind it.
std::optional<size_t> cut_at_line(std::string_view text, size_t at, text_cuts how) {
  const auto next = character_at(text, at + 1);
  if (next.size() < utf8_length(next[0]) || is_white(next)) return std::nullopt;
  if (how == text_cuts::behind_lines || !is_white(character_before(text, at))) return at + 1;
  if (how == text_cuts::last_lines && is_no_mark(next[0])) return at;
  return std::nullopt;
}

/// Whether the space at `at` (at least 1) begins a word. U+2581 is what spaces become, so that one
/// behind it goes on with its token.
bool begins_word(std::string_view text, size_t at) {
  return is_no_mark(text[at - 1]) && character_before(text, at) != "\xe2\x96\x81"sv;
}

std::optional<size_t> next_word_cut(std::string_view text, size_t from, bool lines) {
  for (size_t at = from; at < text.size(); ++at) {
    if (text[at] == ' ' && begins_word(text, at)) return at;
    if (!lines || text[at] != '\n' || at + 1 >= text.size()) continue;
    if (const auto cut = cut_at_line(text, at, text_cuts::behind_lines)) return cut;
  }
  return std::nullopt;
}

}  // namespace

std::optional<size_t> next_cut(std::string_view text, size_t from, text_cuts how) noexcept {
  from = std::max<size_t>(from, 1);
  if (how == text_cuts::nowhere) return std::nullopt;
  if (how == text_cuts::anywhere) return from < text.size() ? std::optional(from) : std::nullopt;
  if (how == text_cuts::before_words || how == text_cuts::words_and_lines)
    return next_word_cut(text, from, how == text_cuts::words_and_lines);
  for (size_t at = from; at < text.size(); ++at) {
    at = text.find('\n', at);
    if (at == std::string_view::npos || at + 1 >= text.size()) break;
    if (const auto cut = cut_at_line(text, at, how)) return cut;
  }
  return std::nullopt;
}

}  // namespace troupe::io
