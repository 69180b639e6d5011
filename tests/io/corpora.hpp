// What tests of corpora share: sources, the ids of files, and tokenizers that show where text was
// cut.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "io/data/document_reader.hpp"
#include "io/data/text_source.hpp"
#include "io/data/token_file.hpp"
#include "io/tokenizer/splitter.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

inline result<text_source> open_source(std::vector<std::filesystem::path> paths) {
  return text_source::open(paths);
}

inline std::vector<int32_t> ids_of(const std::filesystem::path& path) {
  auto file = token_file::open(path, token_format::llmc);
  REQUIRE(file);
  std::vector<int32_t> ids(file->size());
  file->copy(0, ids.size(), ids.data());
  return ids;
}

/// The documents of a source, read by parts of so many bytes.
inline result<std::vector<std::string>> documents_of(const text_source& source,
                                                     size_t part_bytes = size_t{1} << 20) {
  document_reader reader(source, part_bytes);
  std::vector<std::string> out(1);
  for (;;) {
    TROUPE_TRY(part, reader.next());
    if (!part) break;
    out.back() += part->text;
    if (part->last) out.emplace_back();
  }
  CHECK(out.back().empty());
  out.pop_back();
  return out;
}

using texts = std::vector<std::string>;

inline tokenizer_ptr gpt2_tokenizer() {
  return *make_tokenizer(TROUPE_SOURCE_DIR "/tests/io/fixtures/gpt2.tokenizer.json");
}

/// Of words that begin with their space; what stands behind a cut has no prefix.
inline tokenizer_ptr mistral_tokenizer() {
  return *make_tokenizer(TROUPE_SOURCE_DIR "/tests/io/fixtures/mistral.tokenizer.json");
}

inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Gives each piece of a split an id of its own (a hash), so that a cut in a wrong place shows.
class split_hasher final : public tokenizer {
 public:
  explicit split_hasher(std::string_view pattern)
      : by_(*splitter::make(pattern, split_behavior::isolated, false)) {}

  result<std::vector<int32_t>> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    auto done = by_.split(text, [&](std::string_view piece) -> status {
      ids.push_back(static_cast<int32_t>(std::hash<std::string_view>{}(piece) % 65535));
      return {};
    });
    if (!done) return done.error();
    return ids;
  }
  result<std::string> decode(std::span<const int32_t>) const override { return std::string(); }
  int32_t vocab_size() const noexcept override { return 65536; }
  std::optional<int32_t> end_of_text() const noexcept override { return 65535; }
  std::string name() const override { return "pieces"; }
  uint64_t fingerprint() const noexcept override { return 0; }
  text_cuts cuts() const noexcept override {
    return by_.pattern() == gpt2_pattern ? text_cuts::last_lines : text_cuts::behind_lines;
  }

 private:
  splitter by_;
};

}  // namespace troupe::io
