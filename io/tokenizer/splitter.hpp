// Cuts text by a regular expression, as Hugging Face's Split and ByteLevel pre-tokenizers do with
// Oniguruma; here by PCRE2 with its JIT.
//
// Invariants:
// SPL-1 The pieces, in order, are the text (all behaviours but removed keep every byte).
// SPL-2 A pattern from a hostile file can waste bounded time only: matching has limits, and
//       reaching one is an error.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// What becomes of a match (tokenizers' SplitDelimiterBehavior).
enum class split_behavior : uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous
};

/// A pattern that means something else to PCRE2, or that does not match in bounds (SPL-2).
inline constexpr error_kind<std::string_view> unsupported_pattern{
    "unsupported_pattern", errc::bad_config,
    "the tokenizer's pattern uses {}, which is not supported"};
inline constexpr error_kind<std::string_view, std::string_view> pattern_failed{
    "pattern_failed", errc::bad_data, "the tokenizer's pattern \"{}\": {}"};

/// GPT-2's pattern, which ByteLevel uses.
extern const std::string_view gpt2_pattern;

/// See the head of the file. Copies share the compiled pattern; const use is thread-safe.
class splitter {
 public:
  /// Compiles a pattern in Oniguruma's syntax. Error bad_config for syntax PCRE2 reads otherwise.
  static result<splitter> make(std::string_view pattern, split_behavior behavior, bool invert);
  /// Matches the text itself.
  static result<splitter> literal(std::string_view text, split_behavior behavior, bool invert);

  using piece_sink = std::function<status(std::string_view)>;

  /// Gives each non-empty piece of a valid UTF-8 text to `sink`.
  status split(std::string_view text, const piece_sink& sink) const;

  /// The text with every match replaced.
  result<std::string> replace(std::string_view text, std::string_view by) const;

  /// Whether the pieces are the matches and what lies between them, nothing removed or joined.
  bool keeps_all() const noexcept { return behavior_ == split_behavior::isolated; }

  /// The pattern as it was given.
  const std::string& pattern() const noexcept { return pattern_; }

 private:
  using match_sink = std::function<status(size_t begin, size_t end)>;
  status each_match(std::string_view text, const match_sink& sink) const;
  status matched_pieces(std::string_view text,
                        const std::function<status(size_t, size_t, bool)>& sink) const;

  std::string pattern_;
  std::shared_ptr<const void> code_;  ///< a pcre2_code
  split_behavior behavior_ = split_behavior::isolated;
  bool invert_ = false;
};

}  // namespace troupe::io
