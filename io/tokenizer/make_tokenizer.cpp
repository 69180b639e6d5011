// Chooses the tokenizer for a path: see the table in tokenizer.hpp.
#include <fmt/format.h>
#include <xxhash.h>

#include "io/file.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/other_tokenizers.hpp"
#include "io/tokenizer/text_frame.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_tokenizer_bytes = size_t{256} << 20;

result<tokenizer_ptr> from_json(const std::string& text) {
  TROUPE_TRY(parts, parse_tokenizer_json(text));
  parts.fingerprint = XXH3_64bits(text.data(), text.size());
  return hf_tokenizer::make(std::move(parts));
}

result<tokenizer_ptr> from_gpt2_files(const fs::path& folder) {
  TROUPE_TRY(vocab, read_file(folder / "vocab.json", max_tokenizer_bytes));
  TROUPE_TRY(merges, read_file(folder / "merges.txt", max_tokenizer_bytes));
  TROUPE_TRY(parts, parse_gpt2_files(vocab, merges));
  parts.fingerprint =
      XXH3_64bits_withSeed(merges.data(), merges.size(), XXH3_64bits(vocab.data(), vocab.size()));
  return hf_tokenizer::make(std::move(parts));
}

result<tokenizer_ptr> from_file(const fs::path& path) {
  auto name = path.filename().string();
  if (name.ends_with("vocab.json") || name.ends_with("merges.txt"))
    return from_gpt2_files(path.parent_path());
  TROUPE_TRY(bytes, read_file(path, max_tokenizer_bytes));
  if (is_llmc_tokenizer(bytes)) return make_llmc_tokenizer(bytes);
  if (path.extension() == ".json") return from_json(bytes);
  if (path.extension() == ".model") return make_sentencepiece_tokenizer(bytes);
  return unknown_tokenizer();
}

/// A small file of the folder; empty where there is none.
result<std::string> text_beside(const fs::path& file, const char* name) {
  const auto path = file.parent_path() / name;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::string();
  return read_file(path, max_tokenizer_bytes);
}

result<tokenizer_ptr> with_files_beside(tokenizer_ptr made, const fs::path& file) {
  TROUPE_TRY(config, text_beside(file, "tokenizer_config.json"));
  TROUPE_TRY(map, text_beside(file, "special_tokens_map.json"));
  if (config.empty() && map.empty()) return made;
  const auto name = file.filename().string();
  const bool pair = name.ends_with("vocab.json") || name.ends_with("merges.txt");
  const auto source = pair                          ? tokenizer_source::pair
                      : file.extension() == ".json" ? tokenizer_source::json
                                                    : tokenizer_source::other;
  return with_special_tokens(std::move(made), config, map, source);
}

}  // namespace

result<tokenizer_ptr> make_tokenizer(std::string_view source) {
  if (source == "bytes") return make_byte_tokenizer();
  fs::path path(source);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    auto folder = path;
    path.clear();
    for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
      if (path.empty() && fs::exists(folder / name, ignored)) path = folder / name;
    if (path.empty())
      return error{
          errc::not_found,
          fmt::format("{} holds no tokenizer.json, tokenizer.model or vocab.json", folder.string()),
          "name the tokenizer's file in data.tokenizer, or use \"bytes\""};
  }
  auto made = from_file(path);
  if (!made) return made.error().within(path.string());
  auto framed = with_files_beside(std::move(*made), path);
  if (!framed) return framed.error().within(path.parent_path().string());
  return framed;
}

}  // namespace troupe::io
