// Byte pair encoding of one word (Sennrich et al. 2016), as Hugging Face tokenizers' BPE does it:
// begin with characters (or bytes), merge the adjacent pair of lowest rank, leftmost first, until
// no pair is in the table.
//
// Invariants:
// BPE-1 Every id it gives is in the vocabulary.
// BPE-2 Short words (quadratic scan) and long ones (heap over a linked list, n log n) merge alike.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// A merge, or a character of a text, that the vocabulary lacks.
inline constexpr error_kind<size_t, std::string_view, std::string_view> merge_unknown{
    "merge_unknown", errc::bad_data, "merge {} (\"{}\" \"{}\") is not in the vocabulary"};
inline constexpr error_kind<std::string_view> character_unknown{
    "character_unknown", errc::bad_data, "the tokenizer has no token for the character \"{}\"",
    "choose a tokenizer with byte-level or byte-fallback vocabulary"};

/// Lets unordered_map look up string_views.
struct text_hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};

using vocabulary = std::unordered_map<std::string, int32_t, text_hash, std::equal_to<>>;
using merge_list = std::vector<std::pair<std::string, std::string>>;

struct bpe_options {
  bool byte_level = false;     ///< words are bytes; the vocabulary's letters stand for bytes
  bool byte_fallback = false;  ///< a character without an id becomes its bytes' "<0xXX>"
  bool ignore_merges = false;  ///< a word that is in the vocabulary is that id, whatever the merges
  bool fuse_unk = false;       ///< neighbouring unknown characters become one unk
  std::optional<std::string> unk_token;
};

/// Buffers reused from word to word; one per thread.
struct bpe_scratch {
  struct symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
    uint32_t alive;
  };
  std::vector<int32_t> ids;
  std::vector<uint32_t> ranks;
  std::vector<symbol> symbols;
  std::vector<std::array<uint32_t, 4>> heap;
};

/// See the head of the file.
class bpe_model {
 public:
  /// Error bad_data when a merge's parts or its product are not in the vocabulary.
  static result<bpe_model> make(vocabulary tokens, const merge_list& merges, bpe_options options);

  /// Appends the ids of a word (UTF-8, not empty, below 2^30 bytes). Error bad_data when the
  /// vocabulary cannot say it.
  status encode(std::string_view word, std::vector<int32_t>& out, bpe_scratch& scratch) const;

  /// Whether a merge makes a token that is so.
  bool makes(const std::function<bool(std::string_view)>& so) const;

  const vocabulary& tokens() const noexcept { return tokens_; }
  const bpe_options& options() const noexcept { return options_; }

 private:
  struct merge {
    uint64_t pair = ~uint64_t{0};
    uint32_t rank = ~uint32_t{0};
    int32_t product = -1;
  };

  const merge* find(int32_t left, int32_t right) const noexcept;
  void insert(const merge& m);
  status begin(std::string_view word, std::vector<int32_t>& ids) const;
  status begin_character(std::string_view character, std::vector<int32_t>& ids,
                         bool& unknown) const;
  void merge_short(bpe_scratch& scratch) const;
  void merge_long(bpe_scratch& scratch) const;

  vocabulary tokens_;
  bpe_options options_;
  vocabulary words_;                     ///< byte level with ignore_merges: raw bytes -> id
  std::array<int32_t, 256> of_byte_{};   ///< byte level: the byte's id; else the ASCII letter's
  std::array<int32_t, 256> fallback_{};  ///< "<0xXX>", -1 where there is none
  std::optional<int32_t> unk_;
  std::vector<merge> table_;  ///< open addressing, a power of two, at most half full
};

}  // namespace troupe::io
