// Seeded search: whatever texts are, however they are packed, cut and cut off, their tokens are
// those of whole documents, each within its frame.
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/data/corpus.hpp"
#include "io/data/shard_writer.hpp"
#include "io/file.hpp"
#include "tests/io/corpora.hpp"
#include "tests/io/packed.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

class random_corpus {
 public:
  explicit random_corpus(unsigned seed) : draw_(seed * 2654435761U + 1) {}

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(draw_); }

  std::string document() {
    static const std::vector<std::string> words = {
        "a",    "Bc",           "\n",           "\n",           " ",  "\r\n", "\r", "9", ".",
        "\n\n", "\xc3\xa9",     "\xe4\xb8\xad", "\xe3\x80\x80", "\"", "\\",   "}",  "]", "{",
        "\t",   "<|endoftext|>"};
    std::string out;
    for (size_t n = below(4) == 0 ? 0 : below(120); n > 0; --n) out += words[below(words.size())];
    return out;
  }

  /// Files of a folder, one document or several records in each; appends their clean texts.
  void write(const fs::path& folder, texts& documents) {
    fs::create_directories(folder);
    for (size_t file = 0, files = 1 + below(4); file < files; ++file) {
      const auto [bytes, name] = below(2) == 0 ? text(documents) : records(documents);
      const auto packed = below(3);
      REQUIRE(write_atomic(folder / fmt::format("{}{}", file, name), packed == 0 ? bytes
                                                                     : packed == 1
                                                                         ? packed_by_gzip(bytes)
                                                                         : packed_by_zstd(bytes)));
    }
  }

 private:
  std::pair<std::string, std::string> text(texts& documents) {
    const auto body = "x" + document();  // no JSON's begin
    documents.push_back(clean_text(body));
    return {(below(4) == 0 ? "\xef\xbb\xbf" : "") + body, ".txt"};
  }

  std::pair<std::string, std::string> records(texts& documents) {
    const bool array = below(2) == 0;
    std::string out = array ? "[" : "";
    for (size_t n = 1 + below(6), i = 0; i < n; ++i) {
      const auto body = document();
      documents.push_back(clean_text(body));
      nlohmann::json record{{"text", body}, {"n", {i, {{"text", "no"}}}}};
      out += (array && i > 0 ? "," : "") + record.dump(below(2) == 0 ? -1 : 1) + "\n";
    }
    return {out + (array ? "]" : ""), ".json"};
  }

  std::mt19937 draw_;
};

/// Another tokenizer's ids, with any frame around texts, and with an end of text or without.
class framing_tokenizer final : public tokenizer {
 public:
  framing_tokenizer(tokenizer_ptr by, random_corpus& any) : by_(std::move(by)) {
    const auto id = [&] {
      return static_cast<int32_t>(any.below(static_cast<size_t>(by_->vocab_size())));
    };
    for (size_t n = any.below(3); n > 0; --n) frame_.first.push_back(id());
    for (size_t n = any.below(3); n > 0; --n) frame_.last.push_back(id());
    if (any.below(3) > 0) end_ = id();
    // As where BOS, EOS and the end of text are one.
    if (end_ && any.below(2) == 0) frame_.last.push_back(*end_);
    if (end_ && any.below(3) == 0) frame_.first.push_back(*end_);
  }

  result<std::vector<int32_t>> encode(std::string_view text) const override {
    return by_->encode(text);
  }
  result<std::vector<int32_t>> encode_rest(std::string_view text) const override {
    return by_->encode_rest(text);
  }
  result<std::string> decode(std::span<const int32_t> ids) const override {
    return by_->decode(ids);
  }
  int32_t vocab_size() const noexcept override { return by_->vocab_size(); }
  std::optional<int32_t> end_of_text() const noexcept override { return end_; }
  const text_frame& frame() const noexcept override { return frame_; }
  std::string name() const override { return by_->name() + ", framed"; }
  uint64_t fingerprint() const noexcept override { return by_->fingerprint() + 1; }
  text_cuts cuts() const noexcept override { return by_->cuts(); }

 private:
  tokenizer_ptr by_;
  text_frame frame_;
  std::optional<int32_t> end_;
};

/// Each document whole: its frame around it, and its end behind that, unless the frame has it.
std::vector<int32_t> ids_of_whole(const texts& documents, const tokenizer& by) {
  std::vector<int32_t> out;
  const auto put = [&](const std::vector<int32_t>& ids) {
    out.insert(out.end(), ids.begin(), ids.end());
  };
  const auto& frame = by.frame();
  const auto end = by.end_of_text();
  for (size_t i = 0; i < documents.size(); ++i) {
    const bool parted = !end && i + 1 < documents.size();
    const auto ids = by.encode(documents[i] + (parted ? "\n\n" : ""));
    REQUIRE(ids);
    put(frame.first);
    put(*ids);
    put(frame.last);
    if (end && (frame.last.empty() || frame.last.back() != *end)) out.push_back(*end);
  }
  return out;
}

/// Shards of a source, cut off after so many pieces again and again.
std::vector<int32_t> ids_by_shards(random_corpus& any, const text_source& source,
                                   const tokenizer& by, const fs::path& folder) {
  corpus_options options{.threads = 1 + static_cast<unsigned>(any.below(3)),
                         .piece_bytes = 1 + any.below(60),
                         .shard_tokens = 1 + any.below(80),
                         .progress = {}};
  for (int start = 0; start < 5; ++start) {
    int left = start == 4 ? -1 : static_cast<int>(any.below(40));
    options.progress = [&](const auto&) { return left < 0 || left-- > 0; };
    auto made = prepare_shards(source, by, folder, "t", options);
    if (!made) {
      REQUIRE(made.error().code == errc::cancelled);
      continue;
    }
    std::vector<int32_t> out;
    for (const auto& file : made->files) {
      const auto ids = ids_of(file);
      out.insert(out.end(), ids.begin(), ids.end());
    }
    CHECK(made->done.tokens == out.size());
    return out;
  }
  FAIL("the last start is not cut off");
  return {};
}

/// One seed's documents by one tokenizer, framed by chance or not.
void search_corpus(unsigned seed, const tokenizer_ptr& by, bool framed) {
  CAPTURE(seed);
  random_corpus any(seed);
  scratch dir;
  texts documents;
  any.write(dir / "data", documents);
  auto source = open_source({dir / "data/*"});  // named, as records and text are not mixed unsaid
  REQUIRE(source);
  REQUIRE(*documents_of(*source, 3 + any.below(100)) == documents);
  const auto words = framed ? std::make_shared<framing_tokenizer>(by, any) : by;
  const auto wanted = ids_of_whole(documents, *words);
  REQUIRE(ids_by_shards(any, *source, *words, dir / "shards") == wanted);
  CHECK(*count_tokens(*source, *words) == wanted.size());
}

std::vector<tokenizer_ptr> all_kinds() {
  return {*make_tokenizer("bytes"), gpt2_tokenizer(), std::make_shared<split_hasher>(gpt2_pattern),
          std::make_shared<split_hasher>(llama3_pattern), mistral_tokenizer()};
}

}  // namespace

TEST_CASE("CRP-1 any documents, forms, parts, pieces, shards and cuts give the same tokens") {
  const auto tokenizers = all_kinds();
  for (unsigned seed = 0; seed < 400; ++seed)
    search_corpus(seed, tokenizers[seed % tokenizers.size()], false);
}

TEST_CASE("CRP-1 any frame is around each document once, wherever it was cut") {
  const auto tokenizers = all_kinds();
  for (unsigned seed = 0; seed < 400; ++seed)
    search_corpus(seed, tokenizers[seed % tokenizers.size()], true);
}
