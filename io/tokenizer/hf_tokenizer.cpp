// A Hugging Face BPE tokenizer: see hf_tokenizer.hpp. The order of things is that of tokenizers'
// AddedVocabulary::extract_and_normalize, then the pre-tokenizer, then BPE.
#include "io/tokenizer/hf_tokenizer.hpp"

#include <algorithm>
#include <cctype>
#include <deque>
#include <memory>

#include <fmt/format.h>
#include <xxhash.h>

#include "io/tokenizer/utf8.hpp"
#include "io/tokenizer/word_cuts.hpp"

namespace troupe::io {

namespace {

constexpr size_t max_text_bytes = size_t{1} << 30;
constexpr size_t longest_cached_word = 64;

/// Llama 3's and Qwen 2's patterns, of which it is known where texts may be cut (text_cuts.hpp).
constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Ids of words seen in one call of encode. Keys point into the text of that call.
class word_cache {
 public:
  struct entry {
    std::string_view word;
    uint32_t first = 0;
    uint32_t count = 0;
  };

  word_cache() : entries_(1024) {}

  /// The entry of the word, or the free one where it belongs.
  entry& find(std::string_view word) {
    size_t mask = entries_.size() - 1;
    size_t at = XXH3_64bits(word.data(), word.size()) & mask;
    while (!entries_[at].word.empty() && entries_[at].word != word) at = (at + 1) & mask;
    return entries_[at];
  }

  /// Fills a free entry; entries move.
  void fill(entry& free, std::string_view word, std::span<const int32_t> word_ids) {
    free = {word, static_cast<uint32_t>(ids.size()), static_cast<uint32_t>(word_ids.size())};
    ids.insert(ids.end(), word_ids.begin(), word_ids.end());
    if (++used_ * 2 > entries_.size()) grow();
  }

  bool full() const noexcept { return used_ >= most; }

  std::vector<int32_t> ids;

 private:
  static constexpr size_t most = 1 << 18;

  void grow() {
    std::vector<entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const auto& e : old)
      if (!e.word.empty()) find(e.word) = e;
  }

  std::vector<entry> entries_;
  size_t used_ = 0;
};

}  // namespace

struct hf_tokenizer::encoding {
  std::vector<int32_t> ids;
  bpe_scratch scratch;
  word_cache cache;
  std::deque<std::string> storage;  ///< texts that steps made; cache and pieces point into them
  bool at_start = true;             ///< no piece of the text has been seen yet
  bool behind_cut = false;          ///< nor of the rest of one, before which nothing is put
};

// -- making

result<tokenizer_ptr> hf_tokenizer::make(hf_parts parts) {
  TROUPE_TRY(model, bpe_model::make(std::move(parts.tokens), parts.merges, parts.options));
  parts.merges.clear();
  parts.merges.shrink_to_fit();
  std::shared_ptr<hf_tokenizer> made(new hf_tokenizer(std::move(parts), std::move(model)));
  TROUPE_CHECK(made->settle());
  return tokenizer_ptr(std::move(made));
}

status hf_tokenizer::settle() {
  // A few gaps between ids are normal; a huge id in a small file would only waste memory.
  auto most = static_cast<int64_t>(4 * (model_.tokens().size() + parts_.added.size()) + 1024);
  auto place = [&](int32_t id, std::string text) -> status {
    if (id < 0 || id >= most) return token_id_impossible(id);
    if (static_cast<size_t>(id) >= texts_.size()) texts_.resize(static_cast<size_t>(id) + 1);
    texts_[static_cast<size_t>(id)] = std::move(text);
    return {};
  };
  for (const auto& [token, id] : model_.tokens()) {
    auto bytes = parts_.byte_level_decoder ? from_byte_level(token) : std::nullopt;
    TROUPE_CHECK(place(id, bytes ? std::move(*bytes) : token));
  }
  for (const auto& token : parts_.added) {
    TROUPE_CHECK(place(token.id, token.content));
    auto sought = token;
    if (token.normalized) TROUPE_CHECK(normalize(parts_.normalizers, sought.content));
    (token.normalized ? normalized_added_ : raw_added_).add(std::move(sought));
  }
  for (const auto* ids : {&parts_.frame.first, &parts_.frame.last}) {
    for (const int32_t id : *ids)
      if (static_cast<size_t>(id) >= texts_.size()) return token_id_impossible(id);
    if (!ids->empty())  // what is made of texts depends on it
      parts_.fingerprint = XXH3_64bits_withSeed(ids->data(), ids->size() * sizeof(int32_t),
                                                parts_.fingerprint + (ids == &parts_.frame.last));
  }
  raw_added_.settle();
  normalized_added_.settle();
  for (std::string_view name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]"}) {
    auto found = std::find_if(parts_.added.begin(), parts_.added.end(),
                              [&](const added_token& t) { return t.content == name; });
    if (found == parts_.added.end()) continue;
    end_of_text_ = found->id;
    break;
  }
  if (spaces_are_letters(parts_)) words_ = word_cuts(model_, raw_added_, normalized_added_);
  cuts_ = words_ == text_cuts::nowhere ? find_cuts() : words_;
  return {};
}

text_cuts hf_tokenizer::find_cuts() const {
  const auto inert = [](const normalizer_step& step) {
    const auto* form = std::get_if<unicode_form>(&step);
    return form != nullptr && (*form == unicode_form::nfc || *form == unicode_form::nfd);
  };
  const auto& steps = parts_.normalizers;
  if (!std::all_of(steps.begin(), steps.end(), inert) || parts_.pre_tokenizers.size() != 1 ||
      raw_added_.touches_lines() || normalized_added_.touches_lines())
    return text_cuts::nowhere;
  const auto* by = std::get_if<splitter>(&parts_.pre_tokenizers[0]);
  if (by == nullptr || !by->keeps_all()) return text_cuts::nowhere;
  if (by->pattern() == llama3_pattern || by->pattern() == qwen2_pattern)
    return text_cuts::behind_lines;
  if (by->pattern() != gpt2_pattern) return text_cuts::nowhere;
  const bool marked =
      std::all_of(parts_.added.begin(), parts_.added.end(), [](const added_token& token) {
        return !token.content.empty() && std::ispunct(static_cast<unsigned char>(token.content[0]));
      });
  return steps.empty() && marked ? text_cuts::last_lines : text_cuts::lone_lines;
}

std::optional<int32_t> hf_tokenizer::id_of(std::string_view token) const {
  for (const auto& added : parts_.added)
    if (added.content == token) return added.id;
  const auto found = model_.tokens().find(std::string(token));
  return found == model_.tokens().end() ? std::nullopt : std::optional(found->second);
}

std::string hf_tokenizer::name() const {
  return fmt::format("{} (BPE, {} ids)", parts_.name, vocab_size());
}

// -- encoding

status hf_tokenizer::encode_word(std::string_view word, encoding& state) const {
  if (word.empty()) return {};
  if (word.size() >= max_text_bytes)
    return error{errc::bad_data, "a word of more than 1 GiB is too long to tokenise"};
  if (word.size() > longest_cached_word) return model_.encode(word, state.ids, state.scratch);
  auto& known = state.cache.find(word);
  if (!known.word.empty()) {
    auto first = state.cache.ids.begin() + known.first;
    state.ids.insert(state.ids.end(), first, first + known.count);
    return {};
  }
  size_t before = state.ids.size();
  TROUPE_CHECK(model_.encode(word, state.ids, state.scratch));
  if (!state.cache.full()) state.cache.fill(known, word, std::span(state.ids).subspan(before));
  return {};
}

/// What a pre-tokenizer leaves whole has its words all the same where no token goes on from one to
/// the next: they are looked up then, and short.
status hf_tokenizer::encode_words(std::string_view text, encoding& state) const {
  while (!text.empty()) {
    const auto word = first_word(text, words_);
    TROUPE_CHECK(encode_word(word, state));
    text.remove_prefix(word.size());
  }
  return {};
}

status hf_tokenizer::pre_tokenize(size_t step, std::string_view piece, encoding& state) const {
  if (step == parts_.pre_tokenizers.size()) return encode_words(piece, state);
  const auto& how = parts_.pre_tokenizers[step];
  auto onward = [&](std::string_view part) { return pre_tokenize(step + 1, part, state); };
  if (const auto* by = std::get_if<splitter>(&how)) return by->split(piece, onward);
  if (std::holds_alternative<prefix_space>(how)) {
    if (!piece.empty() && piece[0] != ' ')
      piece = state.storage.emplace_back(" " + std::string(piece));
    return onward(piece);
  }
  const auto& meta = std::get<metaspace>(how);
  std::string spaced;
  for (char c : piece) {
    if (c == ' ')
      spaced += meta.letter;
    else
      spaced += c;
  }
  bool prepend = (meta.scheme == metaspace::prepend::always && !state.behind_cut) ||
                 (meta.scheme == metaspace::prepend::first && state.at_start);
  if (prepend && !spaced.starts_with(meta.letter)) spaced.insert(0, meta.letter);
  piece = state.storage.emplace_back(std::move(spaced));
  return meta.words ? meta.words->split(piece, onward) : onward(piece);
}

/// A piece without raw added tokens: normalized, then split at the added tokens of normalized text.
status hf_tokenizer::encode_piece(std::string_view piece, encoding& state) const {
  if (piece.empty()) return {};
  if (!parts_.normalizers.empty()) {
    std::string text(piece);
    TROUPE_CHECK(normalize(parts_.normalizers, text, !state.behind_cut));
    if (text.size() >= max_text_bytes)
      return error{errc::bad_data, "the normalized text is too long to tokenise in one piece"};
    piece = state.storage.emplace_back(std::move(text));
  }
  size_t at = 0;
  while (at < piece.size()) {
    auto hit = normalized_added_.empty() ? std::nullopt : normalized_added_.next(piece, at);
    size_t end = hit ? hit->begin : piece.size();
    if (end > at) TROUPE_CHECK(pre_tokenize(0, piece.substr(at, end - at), state));
    state.at_start = state.behind_cut = false;
    if (!hit) break;
    state.ids.push_back(hit->id);
    at = hit->end;
  }
  return {};
}

result<std::vector<int32_t>> hf_tokenizer::ids_of(std::string_view text, bool begins) const {
  if (text.size() >= max_text_bytes)
    return error{errc::bad_data, "a text of more than 1 GiB is too long to tokenise in one piece"};
  if (auto at = find_invalid_utf8(text); at != std::string_view::npos) return text_not_utf8(at);
  encoding state;
  state.at_start = begins;
  state.behind_cut = !begins;
  state.ids.reserve(text.size() / 3 + 8);
  size_t at = 0;
  while (at < text.size()) {
    auto hit = raw_added_.empty() ? std::nullopt : raw_added_.next(text, at);
    size_t end = hit ? hit->begin : text.size();
    TROUPE_CHECK(encode_piece(text.substr(at, end - at), state));
    state.at_start = state.behind_cut = false;
    if (!hit) break;
    state.ids.push_back(hit->id);
    at = hit->end;
  }
  return std::move(state.ids);
}

// -- decoding

result<std::string> hf_tokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  std::string joined;
  for (int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= texts_.size())
      return error{errc::bad_data,
                   fmt::format("token {} is outside the vocabulary of {}", id, texts_.size())};
    const auto& text = texts_[static_cast<size_t>(id)];
    if (parts_.byte_level_decoder)
      joined += text;
    else
      tokens.push_back(text);
  }
  if (parts_.byte_level_decoder) return joined;
  return decode_tokens(parts_.decoders, std::move(tokens));
}

}  // namespace troupe::io
