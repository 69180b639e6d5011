// Stages of a Hugging Face tokenizer: see hf_pipeline.hpp.
#include "io/tokenizer/hf_pipeline.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "io/tokenizer/utf8.hpp"

namespace troupe::io {

namespace {

/// The character before (or at) an offset of valid UTF-8.
UChar32 character_at(std::string_view text, size_t at) {
  UChar32 c = 0;
  int32_t i = 0;
  auto window = text.substr(at, 4);
  U8_NEXT(window.data(), i, static_cast<int32_t>(window.size()), c);
  return c;
}

size_t character_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

bool is_word(UChar32 c) {
  return c >= 0 && (u_isalnum(c) || c == '_' || u_getCombiningClass(c) != 0);
}

bool is_space(UChar32 c) {
  return c >= 0 && u_isUWhiteSpace(c);
}

}  // namespace

// -- added tokens

void added_token_finder::add(added_token token) {
  if (!token.content.empty()) tokens_.push_back(std::move(token));
}

void added_token_finder::settle() {
  auto lead = [](const added_token& t) { return static_cast<unsigned char>(t.content[0]); };
  std::stable_sort(tokens_.begin(), tokens_.end(), [&](const auto& a, const auto& b) {
    return lead(a) != lead(b) ? lead(a) < lead(b) : a.content.size() > b.content.size();
  });
  of_.fill({0, 0});
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    auto& range = of_[lead(tokens_[i])];
    if (range.second == 0) range.first = i;
    range.second = i + 1;
  }
}

std::optional<added_token_finder::hit> added_token_finder::next(std::string_view text,
                                                                size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    auto [first, last] = of_[static_cast<unsigned char>(text[at])];
    for (uint32_t i = first; i < last; ++i) {
      const auto& token = tokens_[i];
      if (text.compare(at, token.content.size(), token.content) != 0) continue;
      size_t begin = at;
      size_t end = at + token.content.size();
      if (token.single_word) {
        bool left = begin > 0 && is_word(character_at(text, character_before(text, begin)));
        bool right = end < text.size() && is_word(character_at(text, end));
        if (left || right) continue;
      }
      while (token.lstrip && begin > from) {
        size_t before = character_before(text, begin);
        if (before < from || !is_space(character_at(text, before))) break;
        begin = before;
      }
      while (token.rstrip && end < text.size() && is_space(character_at(text, end)))
        end += utf8_length(text[end]);
      return hit{begin, std::min(end, text.size()), token.id};
    }
  }
  return std::nullopt;
}

bool added_token_finder::touches_lines() const noexcept {
  return std::any_of(tokens_.begin(), tokens_.end(), [](const added_token& t) {
    return t.lstrip || t.rstrip || t.content.find('\n') != std::string::npos;
  });
}

// -- normalizers

namespace {

status to_form(unicode_form form, std::string& text) {
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* by = nullptr;
  switch (form) {
    case unicode_form::nfc:
      by = icu::Normalizer2::getNFCInstance(code);
      break;
    case unicode_form::nfd:
      by = icu::Normalizer2::getNFDInstance(code);
      break;
    case unicode_form::nfkc:
      by = icu::Normalizer2::getNFKCInstance(code);
      break;
    case unicode_form::nfkd:
      by = icu::Normalizer2::getNFKDInstance(code);
      break;
  }
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  if (U_SUCCESS(code))
    by->normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr, code);
  if (U_FAILURE(code))
    return error{errc::bad_data, fmt::format("Unicode normalization: {}", u_errorName(code))};
  text = std::move(out);
  return {};
}

}  // namespace

status normalize(const std::vector<normalizer_step>& steps, std::string& text, bool begins) {
  for (const auto& step : steps) {
    if (const auto* prepend = std::get_if<prepend_text>(&step)) {
      if (begins && !text.empty()) text.insert(0, prepend->text);
    } else if (const auto* replace = std::get_if<replace_text>(&step)) {
      TROUPE_TRY(out, replace->what.replace(text, replace->by));
      text = std::move(out);
    } else {
      TROUPE_CHECK(to_form(std::get<unicode_form>(step), text));
    }
  }
  return {};
}

// -- decoders

std::optional<unsigned char> fallback_byte(std::string_view token) noexcept {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (char c : token.substr(3, 2)) {
    bool digit = c >= '0' && c <= '9';
    bool letter = (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
    if (!digit && !letter) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return static_cast<unsigned char>(value);
}

namespace {

void strip(const strip_text& how, std::string& token) {
  if (how.content.empty()) return;
  for (size_t n = 0; n < how.start && token.starts_with(how.content); ++n)
    token.erase(0, how.content.size());
  for (size_t n = 0; n < how.stop && token.ends_with(how.content); ++n)
    token.erase(token.size() - how.content.size());
}

void unmetaspace(const metaspace_decode& how, std::string& token, bool first) {
  std::string out;
  for (size_t i = 0; i < token.size();) {
    if (token.compare(i, how.letter.size(), how.letter) != 0) {
      out += token[i++];
      continue;
    }
    if (!(first && how.strip_first && i == 0)) out += ' ';
    i += how.letter.size();
  }
  token = std::move(out);
}

status decode_step(const decoder_step& step, std::vector<std::string>& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (const auto* replace = std::get_if<replace_text>(&step)) {
      if (find_invalid_utf8(tokens[i]) != std::string_view::npos) continue;  // a lone byte
      TROUPE_TRY(out, replace->what.replace(tokens[i], replace->by));
      tokens[i] = std::move(out);
    } else if (const auto* how = std::get_if<strip_text>(&step)) {
      strip(*how, tokens[i]);
    } else if (std::holds_alternative<byte_fallback_decode>(step)) {
      if (auto byte = fallback_byte(tokens[i])) tokens[i].assign(1, static_cast<char>(*byte));
    } else if (const auto* meta = std::get_if<metaspace_decode>(&step)) {
      unmetaspace(*meta, tokens[i], i == 0);
    }
  }
  return {};
}

}  // namespace

result<std::string> decode_tokens(const std::vector<decoder_step>& steps,
                                  std::vector<std::string> tokens) {
  auto join = [&] {
    std::string all;
    for (const auto& token : tokens) all += token;
    return all;
  };
  for (const auto& step : steps) {
    if (std::holds_alternative<fuse_tokens>(step))
      tokens = {join()};
    else
      TROUPE_CHECK(decode_step(step, tokens));
  }
  return join();
}

}  // namespace troupe::io
