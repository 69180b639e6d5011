// The pipeline of a Hugging Face BPE tokenizer: added tokens, normalizer, pre-tokenizer, BPE,
// decoder.
#pragma once

#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/tokenizer/bpe_model.hpp"
#include "io/tokenizer/hf_pipeline.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

/// A tokenizer of a kind that is not read: its part, and what that is.
inline constexpr error_kind<std::string_view, std::string_view> unsupported_tokenizer{
    "unsupported_tokenizer", errc::bad_config, "tokenizer.json: the {} \"{}\" is not supported",
    "BPE tokenizers of the GPT-2, Llama 2 and Llama 3 kinds are; so is SentencePiece's .model"};
/// A tokenizer whose parts do not make one.
inline constexpr error_kind<> tokenizer_no_object{"tokenizer_no_object", errc::bad_data,
                                                  "tokenizer.json: not an object"};
inline constexpr error_kind<std::string_view> tokenizer_no_text{
    "tokenizer_no_text", errc::bad_data, "tokenizer.json: \"{}\" should be a text"};
inline constexpr error_kind<std::string_view> tokenizer_no_list{
    "tokenizer_no_list", errc::bad_data, "tokenizer.json: \"{}\" should be a short list"};
inline constexpr error_kind<> tokenizer_no_vocabulary{
    "tokenizer_no_vocabulary", errc::bad_data, "tokenizer.json: the model has no vocabulary"};
inline constexpr error_kind<> tokenizer_no_id{
    "tokenizer_no_id", errc::bad_data, "tokenizer.json: a token id is not a number below 2^31"};
inline constexpr error_kind<int32_t> token_id_impossible{"token_id_impossible", errc::bad_data,
                                                         "the tokenizer has an impossible id, {}"};
inline constexpr error_kind<std::string_view, size_t> merge_malformed{
    "merge_malformed", errc::bad_data, "{}:{}: a merge is not two tokens and a space"};

/// Most ids before a text, and behind it.
inline constexpr size_t most_frame_ids = 64;
inline constexpr error_kind<size_t> frame_too_long{
    "frame_too_long", errc::bad_data,
    "tokenizer.json: the post-processor puts more than {} tokens around a text"};

/// Everything a tokenizer.json says that Troupe uses.
struct hf_parts {
  vocabulary tokens;
  merge_list merges;
  bpe_options options;
  std::vector<added_token> added;
  std::vector<normalizer_step> normalizers;
  std::vector<pre_tokenizer_step> pre_tokenizers;
  std::vector<decoder_step> decoders;
  bool byte_level_decoder = false;
  text_frame frame;  ///< of the post-processor
  std::string name;  ///< "tokenizer.json"
  uint64_t fingerprint = 0;
};

/// Parses a tokenizer.json. Errors: bad_data; bad_config for a kind that is not supported.
result<hf_parts> parse_tokenizer_json(std::string_view text);

/// Parts of GPT-2's vocab.json and merges.txt.
result<hf_parts> parse_gpt2_files(std::string_view vocab, std::string_view merges);

/// See the head of the file.
class hf_tokenizer final : public tokenizer {
 public:
  /// Checks the parts against each other and builds the tables.
  static result<tokenizer_ptr> make(hf_parts parts);

  result<std::vector<int32_t>> encode(std::string_view text) const override {
    return ids_of(text, true);
  }
  result<std::vector<int32_t>> encode_rest(std::string_view text) const override {
    return ids_of(text, false);
  }
  result<std::string> decode(std::span<const int32_t> ids) const override;
  int32_t vocab_size() const noexcept override { return static_cast<int32_t>(texts_.size()); }
  std::optional<int32_t> end_of_text() const noexcept override { return end_of_text_; }
  const text_frame& frame() const noexcept override { return parts_.frame; }
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string name() const override;
  uint64_t fingerprint() const noexcept override { return parts_.fingerprint; }
  text_cuts cuts() const noexcept override { return cuts_; }

 private:
  struct encoding;  ///< what one call of encode carries along

  explicit hf_tokenizer(hf_parts parts, bpe_model model)
      : parts_(std::move(parts)), model_(std::move(model)) {}
  status settle();
  text_cuts find_cuts() const;
  result<std::vector<int32_t>> ids_of(std::string_view text, bool begins) const;
  status encode_piece(std::string_view piece, encoding& state) const;
  status pre_tokenize(size_t step, std::string_view piece, encoding& state) const;
  status encode_words(std::string_view text, encoding& state) const;
  status encode_word(std::string_view word, encoding& state) const;

  hf_parts parts_;
  bpe_model model_;
  added_token_finder raw_added_;         ///< looked for before the normalizer
  added_token_finder normalized_added_;  ///< looked for after it
  std::vector<std::string> texts_;       ///< id -> what it decodes to (byte level: raw bytes)
  std::optional<int32_t> end_of_text_;
  text_cuts cuts_ = text_cuts::nowhere;
  text_cuts words_ = text_cuts::nowhere;  ///< where BPE's own words end (WDC-1)
};

}  // namespace troupe::io
