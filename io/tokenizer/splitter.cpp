// Splitting by PCRE2: see splitter.hpp.
#include "io/tokenizer/splitter.hpp"

#include <array>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>

#include "io/formats/json_text.hpp"
#include "io/tokenizer/utf8.hpp"

namespace troupe::io {

const std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr size_t max_pattern_bytes = 64 << 10;
constexpr uint32_t match_limit = 10'000'000;
constexpr uint32_t heap_limit_kib = 64 << 10;

/// Unicode's White_Space: what \s is to Oniguruma. PCRE2's own adds U+180E.
constexpr std::string_view white_space =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029})"
    R"(\x{202f}\x{205f}\x{3000})";

/// Oniguruma's syntax to PCRE2's, or an error where the same text means something else.
result<std::string> translate(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char next = pattern[++i];
      if (next == 'h' || next == 'H' || next == 'K' || next == 'G' || next == 'C')
        return unsupported_pattern(fmt::format("\\{}", next));
      if (next == 'S' && in_class) return unsupported_pattern("\\S in a class");
      if (next == 's')
        out += in_class ? std::string(white_space) : fmt::format("[{}]", white_space);
      else if (next == 'S')
        out += fmt::format("[^{}]", white_space);
      else
        out.append({c, next});
      continue;
    }
    if (in_class && c == '[' && i + 1 < pattern.size() && pattern[i + 1] != ':')
      return unsupported_pattern("a class in a class");
    if (in_class && pattern.substr(i, 2) == "&&") return unsupported_pattern("&& in a class");
    if (!in_class && pattern.substr(i, 2) == "(*") return unsupported_pattern("a (*VERB)");
    if (!in_class && c == '[') {
      in_class = true;
      out += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']')
        return unsupported_pattern("a class with ] first");
      continue;
    }
    if (in_class && pattern.substr(i, 2) == "[:") {
      size_t end = pattern.find(":]", i);
      if (end == std::string_view::npos) return unsupported_pattern("an open [: in a class");
      out.append(pattern.substr(i, end + 2 - i));
      i = end + 1;
      continue;
    }
    if (in_class && c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct release {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

/// One thread's buffers for matching.
struct match_buffers {
  std::unique_ptr<pcre2_match_data, release> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, release> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, release> stack{
      pcre2_jit_stack_create(32 << 10, 4 << 20, nullptr)};

  match_buffers() {
    if (!usable()) return;
    pcre2_set_match_limit(context.get(), match_limit);
    pcre2_set_heap_limit(context.get(), heap_limit_kib);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
  bool usable() const { return data && context && stack; }
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

result<std::shared_ptr<const void>> compile(std::string_view pattern, uint32_t flags) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 flags, &code, &offset, nullptr);
  if (compiled == nullptr) return pattern_failed(shown(pattern), message_of(code));
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without a JIT, the interpreter does it
  return std::shared_ptr<const void>(compiled, [](const void* p) {
    pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p)));
  });
}

}  // namespace

result<splitter> splitter::make(std::string_view pattern, split_behavior behavior, bool invert) {
  if (pattern.size() > max_pattern_bytes)
    return error{errc::bad_data, fmt::format("a tokenizer pattern of {} bytes", pattern.size())};
  TROUPE_TRY(translated, translate(pattern));
  splitter made;
  TROUPE_TRY(
      code, compile(translated, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C));
  made.code_ = std::move(code);
  made.pattern_ = pattern;
  made.behavior_ = behavior;
  made.invert_ = invert;
  return made;
}

result<splitter> splitter::literal(std::string_view text, split_behavior behavior, bool invert) {
  if (text.empty()) return error{errc::bad_data, "an empty split pattern"};
  splitter made;
  TROUPE_TRY(code, compile(text, PCRE2_UTF | PCRE2_LITERAL));
  made.code_ = std::move(code);
  made.pattern_ = text;
  made.behavior_ = behavior;
  made.invert_ = invert;
  return made;
}

status splitter::each_match(std::string_view text, const match_sink& sink) const {
  static thread_local match_buffers buffers;
  if (!buffers.usable()) return error{errc::no_memory, "no memory to match a tokenizer's pattern"};
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t at = 0;
  while (at < text.size()) {
    int found = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, buffers.data.get(),
                            buffers.context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          buffers.data.get(), buffers.context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return pattern_failed(shown(pattern_), message_of(found));
    const auto* range = pcre2_get_ovector_pointer(buffers.data.get());
    size_t begin = range[0];
    size_t end = range[1];
    if (begin >= text.size()) break;
    if (end > begin) TROUPE_CHECK(sink(begin, end));
    at = end > at ? end : at + utf8_length(text[at]);  // past an empty match by one character
  }
  return {};
}

status splitter::matched_pieces(std::string_view text,
                                const std::function<status(size_t, size_t, bool)>& sink) const {
  size_t done = 0;
  auto matched = each_match(text, [&](size_t begin, size_t end) -> status {
    if (begin > done) TROUPE_CHECK(sink(done, begin, invert_));
    done = end;
    return sink(begin, end, !invert_);
  });
  TROUPE_CHECK(matched);
  if (done < text.size()) return sink(done, text.size(), invert_);
  return {};
}

status splitter::split(std::string_view text, const piece_sink& sink) const {
  // [open, until): a piece that may still grow by what follows.
  size_t open = 0;
  size_t until = 0;
  bool last_matched = false;
  auto flush = [&]() -> status {
    if (until == open) return {};
    auto piece = text.substr(open, until - open);
    open = until;
    return sink(piece);
  };
  auto walked = matched_pieces(text, [&](size_t begin, size_t end, bool matched) -> status {
    bool joins = false;
    if (behavior_ == split_behavior::merged_with_previous) joins = matched && !last_matched;
    if (behavior_ == split_behavior::merged_with_next) joins = !matched && last_matched;
    if (behavior_ == split_behavior::contiguous) joins = matched == last_matched;
    if (!joins || until != begin) TROUPE_CHECK(flush());
    if (until == open) open = begin;
    until = end;
    if (behavior_ == split_behavior::removed && matched) open = until;
    last_matched = matched;
    return {};
  });
  TROUPE_CHECK(walked);
  return flush();
}

result<std::string> splitter::replace(std::string_view text, std::string_view by) const {
  const size_t most = 8 * text.size() + (size_t{64} << 20);  // SPL-2, for memory
  std::string out;
  size_t done = 0;
  TROUPE_CHECK(each_match(text, [&](size_t begin, size_t end) -> status {
    if (out.size() + by.size() > most)
      return error{errc::bad_data, "the tokenizer's replacement makes the text too long"};
    out.append(text.substr(done, begin - done)).append(by);
    done = end;
    return {};
  }));
  out.append(text.substr(done));
  return out;
}

}  // namespace troupe::io
