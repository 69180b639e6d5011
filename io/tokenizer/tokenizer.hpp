// Text to token ids and back. One interface; who makes the ids is chosen by file.
//
//   "bytes"                       256 ids, one a byte; no end-of-text id
//   tokenizer.json                Hugging Face BPE: GPT-2 (byte level), Llama 3 (split + byte
//                                 level), Llama 2 (spaces as "▁", byte fallback)
//   vocab.json / merges.txt       GPT-2's pair (either file, or the folder of both)
//   *.model                       SentencePiece
//   gpt2_tokenizer.bin            llm.c's table of token bytes: decoding only
//   a folder                      the first of tokenizer.json, tokenizer.model, vocab.json with
//                                 merges.txt
// A tokenizer_config.json beside the file says which tokens begin and end texts (text_frame.cpp).
//
// Invariants:
// TKN-1 encode and decode are const and safe to call from several threads at once.
// TKN-2 encode gives the same ids for the same bytes, always; no BOS or EOS is added: what
//       transformers puts around a text by itself is the frame (text_frame.hpp).
// TKN-3 For byte-level vocabularies decode(encode(x)) == x for every valid UTF-8 x.
// TKN-4 A hostile file gives an error, never a crash.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/tokenizer/text_cuts.hpp"

namespace troupe::io {

/// A text that the vocabulary cannot represent.
inline constexpr error_kind<size_t> text_not_utf8{
    "text_not_utf8", errc::bad_data, "the text is not valid UTF-8 at byte {}",
    "convert it with iconv, or use the tokenizer \"bytes\""};

/// A file that is none of those above, by its name.
inline constexpr error_kind<> unknown_tokenizer{
    "unknown_tokenizer", errc::bad_config, "unsupported kind of tokenizer",
    "\"bytes\", tokenizer.json, vocab.json with merges.txt, a SentencePiece .model, or llm.c's "
    "gpt2_tokenizer.bin"};

/// What goes around a text by itself, without standing in it.
struct text_frame {
  std::vector<int32_t> first;       ///< before it: BOS, of most Llamas
  std::vector<int32_t> last;        ///< after it: EOS, of few
  std::optional<int32_t> bos = {};  ///< the id that begins texts, whether it is put there or not
};

/// See the head of the file.
class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Ids of a text. Special tokens written out in the text are recognised, as HF tokenizers does.
  virtual result<std::vector<int32_t>> encode(std::string_view text) const = 0;

  /// Ids of what stands behind a cut (TXC-2): without what is put before a text's first word.
  virtual result<std::vector<int32_t>> encode_rest(std::string_view text) const {
    return encode(text);
  }

  /// Text of ids, special tokens written out; ids that cut a character give its lone bytes. Error
  /// bad_data for an id outside the vocabulary.
  virtual result<std::string> decode(std::span<const int32_t> ids) const = 0;

  /// One more than the largest id.
  virtual int32_t vocab_size() const noexcept = 0;

  /// The id that ends a document, if the vocabulary has one.
  virtual std::optional<int32_t> end_of_text() const noexcept = 0;

  virtual const text_frame& frame() const noexcept;

  /// The id of a whole token by its text, of special ones too, if there is one.
  virtual std::optional<int32_t> id_of(std::string_view) const { return std::nullopt; }

  /// For people: "bytes", "tokenizer.json (BPE, 50257)".
  virtual std::string name() const = 0;

  /// Equal for tokenizers that encode alike: a hash of the files it was made from.
  virtual uint64_t fingerprint() const noexcept = 0;

  /// Where long texts are cut (TXC-2).
  virtual text_cuts cuts() const noexcept { return text_cuts::nowhere; }
};

using tokenizer_ptr = std::shared_ptr<const tokenizer>;

/// Makes the tokenizer that `source` names (see the table above). Errors: not_found, bad_data, and
/// bad_config for a kind of tokenizer.json Troupe does not do, saying which part.
result<tokenizer_ptr> make_tokenizer(std::string_view source);

/// What stands before and behind a document of training: its frame, and behind that, unless it ends
/// so already, the end-of-text id.
std::vector<int32_t> ids_before_document(const tokenizer& by);
std::vector<int32_t> ids_after_document(const tokenizer& by);

/// A vocabulary without a first id.
inline constexpr error_kind<std::string_view> no_bos{"no_bos", errc::bad_config,
                                                     "{} names no first token (BOS)",
                                                     "set data.add_bos = \"auto\" or \"no\""};

/// The same tokenizer, whose frame begins with BOS, or does not.
result<tokenizer_ptr> with_bos(tokenizer_ptr by, bool begins);

}  // namespace troupe::io
