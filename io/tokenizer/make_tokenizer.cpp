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
  return error{errc::bad_config, "unsupported kind of tokenizer",
               "\"bytes\", tokenizer.json, vocab.json with merges.txt, a SentencePiece .model, or "
               "llm.c's gpt2_tokenizer.bin"};
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
  const auto beside = path.parent_path() / "tokenizer_config.json";
  if (!fs::is_regular_file(beside, ignored)) return made;
  TROUPE_TRY(config, read_file(beside, max_tokenizer_bytes));
  const bool pair = path.filename().string().ends_with("vocab.json");
  auto framed = with_special_tokens(std::move(*made), config, path.extension() == ".json" && !pair);
  if (!framed) return framed.error().within(beside.string());
  return framed;
}

}  // namespace troupe::io
