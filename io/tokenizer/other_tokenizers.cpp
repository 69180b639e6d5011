// Bytes, SentencePiece and llm.c's table: see other_tokenizers.hpp.
#include "io/tokenizer/other_tokenizers.hpp"

#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "io/tokenizer/piece_cuts.hpp"
#include "io/tokenizer/utf8.hpp"

namespace troupe::io {

namespace {

error outside(int32_t id, size_t vocab) {
  return {errc::bad_data, fmt::format("token {} is outside the vocabulary of {}", id, vocab)};
}

// -- bytes

class byte_tokenizer final : public tokenizer {
 public:
  result<std::vector<int32_t>> encode(std::string_view text) const override {
    std::vector<int32_t> ids(text.size());
    for (size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
    return ids;
  }

  result<std::string> decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (int32_t id : ids) {
      if (id < 0 || id > 255) return outside(id, 256);
      text += static_cast<char>(id);
    }
    return text;
  }

  int32_t vocab_size() const noexcept override { return 256; }
  std::optional<int32_t> end_of_text() const noexcept override { return std::nullopt; }
  std::string name() const override { return "bytes"; }
  uint64_t fingerprint() const noexcept override { return 256; }
  text_cuts cuts() const noexcept override { return text_cuts::anywhere; }
};

// -- SentencePiece

class sentencepiece_tokenizer final : public tokenizer {
 public:
  static result<tokenizer_ptr> make(std::string_view model) {
    auto made = std::make_shared<sentencepiece_tokenizer>();
    TROUPE_CHECK(load(model, made->processor_));
    made->vocab_ = made->processor_.GetPieceSize();
    made->fingerprint_ = XXH3_64bits(model.data(), model.size());
    if (made->vocab_ <= 0) return error{errc::bad_data, "a SentencePiece model without pieces"};
    if (const int bos = made->processor_.bos_id(); bos >= 0) made->frame_.bos = bos;
    made->cuts_ = piece_cuts(model);
    if (made->cuts_ != text_cuts::nowhere && !load(without_prefix(model), made->rest_))
      made->cuts_ = text_cuts::nowhere;
    return tokenizer_ptr(std::move(made));
  }

  result<std::vector<int32_t>> encode(std::string_view text) const override {
    return ids_of(text, true);
  }
  result<std::vector<int32_t>> encode_rest(std::string_view text) const override {
    return ids_of(text, false);
  }

  result<std::string> decode(std::span<const int32_t> ids) const override {
    for (int32_t id : ids)
      if (id < 0 || id >= vocab_) return outside(id, static_cast<size_t>(vocab_));
    std::string text;
    auto done = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!done.ok()) return error{errc::bad_data, fmt::format("SentencePiece: {}", done.message())};
    return text;
  }

  int32_t vocab_size() const noexcept override { return vocab_; }
  std::optional<int32_t> end_of_text() const noexcept override {
    int id = processor_.eos_id();
    return id >= 0 ? std::optional<int32_t>(id) : std::nullopt;
  }
  const text_frame& frame() const noexcept override { return frame_; }
  std::optional<int32_t> id_of(std::string_view token) const override {
    const int id = processor_.PieceToId({token.data(), token.size()});
    if (id < 0 || processor_.IdToPiece(id) != token)
      return std::nullopt;  // unknown ones have <unk>'s
    return id;
  }
  std::string name() const override { return fmt::format("SentencePiece ({} ids)", vocab_); }
  uint64_t fingerprint() const noexcept override { return fingerprint_; }
  text_cuts cuts() const noexcept override { return cuts_; }

 private:
  static status load(std::string_view model, sentencepiece::SentencePieceProcessor& into) {
    try {
      auto loaded = into.LoadFromSerializedProto({model.data(), model.size()});
      if (loaded.ok()) return {};
      return error{errc::bad_data, fmt::format("not a SentencePiece model: {}", loaded.message())};
    } catch (const std::exception& e) {
      return error{errc::bad_data, fmt::format("not a SentencePiece model: {}", e.what())};
    }
  }

  /// In parts that caches hold, where it may be cut: the library weighs all neighbours of a text
  /// against each other at once. TXC-2
  result<std::vector<int32_t>> ids_of(std::string_view text, bool first) const {
    constexpr size_t part_bytes = size_t{1} << 14;
    std::vector<int32_t> out;
    std::vector<int> ids;
    const auto* by = first || cuts_ == text_cuts::nowhere ? &processor_ : &rest_;
    for (std::optional<size_t> cut = 0; cut;) {
      if (*cut > 0) by = &rest_;
      text.remove_prefix(*cut);
      cut = next_cut(text, part_bytes, cuts_);
      const auto part = text.substr(0, cut.value_or(text.size()));
      auto done = by->Encode({part.data(), part.size()}, &ids);
      if (!done.ok())
        return error{errc::bad_data, fmt::format("SentencePiece: {}", done.message())};
      out.insert(out.end(), ids.begin(), ids.end());
    }
    return out;
  }

  sentencepiece::SentencePieceProcessor processor_;
  sentencepiece::SentencePieceProcessor rest_;  ///< of what stands behind a cut, where there is one
  text_cuts cuts_ = text_cuts::nowhere;
  int32_t vocab_ = 0;
  uint64_t fingerprint_ = 0;
  text_frame frame_;
};

// -- llm.c

constexpr size_t llmc_header_bytes = 1024;
constexpr uint32_t llmc_magic = 20240328;
constexpr uint32_t max_llmc_vocab = 1 << 22;

class llmc_tokenizer final : public tokenizer {
 public:
  llmc_tokenizer(std::vector<std::string> texts, int32_t end, uint64_t fingerprint)
      : texts_(std::move(texts)), end_(end), fingerprint_(fingerprint) {}

  result<std::vector<int32_t>> encode(std::string_view) const override {
    return error{errc::bad_config, "llm.c's gpt2_tokenizer.bin can only decode",
                 "use GPT-2's tokenizer.json, or vocab.json with merges.txt, to encode"};
  }

  result<std::string> decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (int32_t id : ids) {
      if (id < 0 || static_cast<size_t>(id) >= texts_.size()) return outside(id, texts_.size());
      text += texts_[static_cast<size_t>(id)];
    }
    return text;
  }

  int32_t vocab_size() const noexcept override { return static_cast<int32_t>(texts_.size()); }
  std::optional<int32_t> end_of_text() const noexcept override { return end_; }
  std::string name() const override { return "gpt2_tokenizer.bin (decoding only)"; }
  uint64_t fingerprint() const noexcept override { return fingerprint_; }

 private:
  std::vector<std::string> texts_;
  int32_t end_;
  uint64_t fingerprint_;
};

}  // namespace

tokenizer_ptr make_byte_tokenizer() {
  return std::make_shared<byte_tokenizer>();
}

std::string byte_tokenizer_json() {
  using json = nlohmann::ordered_json;
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[to_byte_level(static_cast<unsigned char>(byte))] = byte;
  const json stage = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  const json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", stage},
                     {"post_processor", nullptr},
                     {"decoder", stage},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", std::move(vocabulary)},
                       {"merges", json::array()}}}};
  return root.dump(2) + "\n";
}

result<tokenizer_ptr> make_sentencepiece_tokenizer(std::string_view model) {
  return sentencepiece_tokenizer::make(model);
}

bool is_llmc_tokenizer(std::string_view file) noexcept {
  uint32_t magic = 0;
  if (file.size() < llmc_header_bytes) return false;
  std::memcpy(&magic, file.data(), sizeof magic);
  return magic == llmc_magic;
}

result<tokenizer_ptr> make_llmc_tokenizer(std::string_view file) {
  if (!is_llmc_tokenizer(file)) return error{errc::bad_data, "not an llm.c tokenizer file"};
  std::array<uint32_t, 4> header{};
  std::memcpy(header.data(), file.data(), sizeof header);
  auto [magic, version, vocab, end] = header;
  if (version != 1 && version != 2)
    return error{errc::bad_data, fmt::format("llm.c tokenizer file of version {}", version)};
  if (version == 1) end = 50256;
  if (vocab == 0 || vocab > max_llmc_vocab || end >= vocab)
    return error{errc::bad_data, fmt::format("llm.c tokenizer file with a vocabulary of {} and an "
                                             "end of text of {}",
                                             vocab, end)};
  std::vector<std::string> texts;
  auto rest = file.substr(llmc_header_bytes);
  while (texts.size() < vocab) {
    size_t length = rest.empty() ? 0 : static_cast<unsigned char>(rest[0]);
    if (rest.size() < 1 + length || length == 0)
      return error{errc::bad_data,
                   fmt::format("llm.c tokenizer file ends or is empty at token {}", texts.size())};
    texts.emplace_back(rest.substr(1, length));
    rest.remove_prefix(1 + length);
  }
  return tokenizer_ptr(std::make_shared<llmc_tokenizer>(std::move(texts), static_cast<int32_t>(end),
                                                        XXH3_64bits(file.data(), file.size())));
}

}  // namespace troupe::io
