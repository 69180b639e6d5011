// The stages around the model in a Hugging Face tokenizer: added tokens, normalizers,
// pre-tokenizers and decoders, of the kinds that GPT-2, Llama 2 and Llama 3 use.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/base/result.hpp"
#include "io/tokenizer/splitter.hpp"

namespace troupe::io {

/// A token recognised in the text before the model sees it.
struct added_token {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   ///< looked for in the normalized text, not in the raw one
  bool single_word = false;  ///< only between non-word characters
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
};

/// Finds added tokens: leftmost, then longest.
class added_token_finder {
 public:
  struct hit {
    size_t begin = 0;  ///< with the white space that lstrip takes
    size_t end = 0;
    int32_t id = 0;
  };

  void add(added_token token);
  /// Sorts the tokens; call once after the last add.
  void settle();
  /// The first hit at or after `from` in valid UTF-8, if any.
  std::optional<hit> next(std::string_view text, size_t from) const;
  bool empty() const noexcept { return tokens_.empty(); }
  /// Whether any token holds a line end or strips white space.
  bool touches_lines() const noexcept;
  const std::vector<added_token>& tokens() const noexcept { return tokens_; }

 private:
  std::vector<added_token> tokens_;                      ///< by first byte, longest first
  std::array<std::pair<uint32_t, uint32_t>, 256> of_{};  ///< first byte -> range in tokens_
};

// -- normalizers

struct prepend_text {
  std::string text;
};
struct replace_text {
  splitter what;
  std::string by;
};
enum class unicode_form : uint8_t { nfc, nfd, nfkc, nfkd };
using normalizer_step = std::variant<prepend_text, replace_text, unicode_form>;

/// Applies the steps to a valid UTF-8 text in turn; nothing is prepended unless it `begins`.
status normalize(const std::vector<normalizer_step>& steps, std::string& text, bool begins = true);

// -- pre-tokenizers

struct prefix_space {};  ///< a space before a piece that does not begin with one
/// SentencePiece's way: spaces become `letter`, one is put first, words begin with it.
struct metaspace {
  enum class prepend : uint8_t { always, first, never };
  std::string letter;
  prepend scheme = prepend::always;
  std::optional<splitter> words;  ///< empty: the piece stays whole
};
using pre_tokenizer_step = std::variant<splitter, prefix_space, metaspace>;

// -- decoders

struct strip_text {
  std::string content;
  size_t start = 0;
  size_t stop = 0;
};
struct byte_fallback_decode {};  ///< "<0xXX>" tokens become bytes
struct fuse_tokens {};           ///< the tokens become one text
struct metaspace_decode {
  std::string letter;
  bool strip_first = true;
};
using decoder_step =
    std::variant<replace_text, strip_text, byte_fallback_decode, fuse_tokens, metaspace_decode>;

/// Applies the steps to token texts in turn and joins what is left.
result<std::string> decode_tokens(const std::vector<decoder_step>& steps,
                                  std::vector<std::string> tokens);

/// The byte of "<0xXX>", if the token is of that form.
std::optional<unsigned char> fallback_byte(std::string_view token) noexcept;

}  // namespace troupe::io
