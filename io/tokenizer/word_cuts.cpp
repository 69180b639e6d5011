// Tokens that would go over a cut: see word_cuts.hpp.
#include "io/tokenizer/word_cuts.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <variant>

namespace troupe::io {

namespace {

constexpr std::string_view space_letter = "\xe2\x96\x81";
constexpr std::string_view line_byte = "<0x0A>";

/// Whether each id is one token's: else merges join what bears other names (a hostile file).
bool ids_are_names(const bpe_model& model) {
  std::set<int32_t> ids;
  for (const auto& [token, id] : model.tokens())
    if (!ids.insert(id).second) return false;
  return true;
}

bool is_graph(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isgraph(static_cast<unsigned char>(c)) != 0;
  });
}

/// WDC-2. What text_cuts::before_words is behind is no mark, as those are which end added tokens.
bool keeps_to_words(const added_token& token) {
  return !token.single_word && !token.lstrip && !token.rstrip && !token.content.empty() &&
         std::ispunct(static_cast<unsigned char>(token.content.back())) != 0 &&
         token.content.find(' ', 1) == std::string::npos &&
         token.content.find(space_letter, 1) == std::string::npos;
}

}  // namespace

bool goes_on_over_words(std::string_view token) {
  for (size_t at = token.find(space_letter, 1); at != token.npos;
       at = token.find(space_letter, at + 1))
    if (!token.substr(0, at).ends_with(space_letter)) return true;
  return false;
}

bool goes_on_over_lines(std::string_view token) {
  for (size_t i = 0; i < token.size(); ++i) {
    const auto rest = token.substr(i);
    const size_t length = rest[0] == '\n' ? 1 : rest.starts_with(line_byte) ? line_byte.size() : 0;
    if (length == 0 || length == rest.size()) continue;
    if (rest[length] != '\n' && !rest.substr(length).starts_with(line_byte)) return true;
  }
  return false;
}

bool spaces_are_letters(const hf_parts& parts) {
  if (parts.options.byte_level || parts.options.ignore_merges) return false;
  bool replaced = false;
  for (const auto& step : parts.normalizers) {
    if (const auto* replace = std::get_if<replace_text>(&step)) {
      if (replace->what.pattern() != " " || replace->by != space_letter) return false;
      replaced = true;
    } else if (const auto* form = std::get_if<unicode_form>(&step)) {
      if (*form != unicode_form::nfc && *form != unicode_form::nfd) return false;
    }
  }
  if (parts.pre_tokenizers.empty()) return replaced;
  const auto* meta = std::get_if<metaspace>(parts.pre_tokenizers.data());
  return parts.pre_tokenizers.size() == 1 && meta != nullptr && meta->letter == space_letter;
}

text_cuts word_cuts(const bpe_model& model, const added_token_finder& raw,
                    const added_token_finder& normalized) {
  const auto& unknown = model.options().unk_token;
  if (!ids_are_names(model) || (unknown && !is_graph(*unknown))) return text_cuts::nowhere;
  const auto& tokens = model.tokens();
  const auto all_keep = [](const added_token_finder& of) {
    return std::all_of(of.tokens().begin(), of.tokens().end(), keeps_to_words);
  };
  const bool words = tokens.contains(space_letter) && all_keep(raw) && all_keep(normalized) &&
                     !model.makes(goes_on_over_words);
  const bool known_line = tokens.contains(std::string_view("\n")) ||
                          (model.options().byte_fallback && tokens.contains(line_byte));
  const bool lines = known_line && !raw.touches_lines() && !normalized.touches_lines() &&
                     !model.makes(goes_on_over_lines);
  if (words) return lines ? text_cuts::words_and_lines : text_cuts::before_words;
  return lines ? text_cuts::behind_lines : text_cuts::nowhere;
}

std::string_view first_word(std::string_view text, text_cuts how) noexcept {
  const bool words = how == text_cuts::before_words || how == text_cuts::words_and_lines;
  const bool lines = how == text_cuts::behind_lines || how == text_cuts::words_and_lines;
  if (!words && !lines) return text;
  for (size_t at = 1; at < text.size(); ++at) {
    if (lines && text[at - 1] == '\n' && text[at] != '\n') return text.substr(0, at);
    if (words && text[at] == space_letter[0] && text.substr(at).starts_with(space_letter) &&
        !text.substr(0, at).ends_with(space_letter))
      return text.substr(0, at);
  }
  return text;
}

}  // namespace troupe::io
