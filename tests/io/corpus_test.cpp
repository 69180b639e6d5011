// Text folders and their token files: which documents, cleaned how, cut where, cached when.
#include "io/data/corpus.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/data/token_file.hpp"
#include "io/file.hpp"
#include "io/tokenizer/splitter.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

result<text_source> open_source(std::vector<fs::path> paths) {
  return text_source::open(paths);
}

std::vector<int32_t> ids_of(const fs::path& path) {
  auto file = token_file::open(path, token_format::llmc);
  REQUIRE(file);
  std::vector<int32_t> ids(file->size());
  file->copy(0, ids.size(), ids.data());
  return ids;
}

tokenizer_ptr gpt2_tokenizer() {
  return *make_tokenizer(TROUPE_SOURCE_DIR "/tests/io/fixtures/gpt2.tokenizer.json");
}

constexpr std::string_view llama3_pattern =
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
  bool splits_at_lines() const noexcept override { return true; }

 private:
  splitter by_;
};

/// Lines with every kind of border.
std::string long_text() {
  auto file = nlohmann::json::parse(
      *read_file(TROUPE_SOURCE_DIR "/tests/io/fixtures/expected.json", 1 << 20));
  std::string text;
  for (const char* end : {"\n", ".\n", "x\n", " \n", "\n\n"})
    for (const auto& t : file["texts"])
      if (auto line = t.get<std::string>(); line.find('\0') == std::string::npos)
        text += line + end;
  return text;
}

}  // namespace

TEST_CASE("TXT-2 text loses byte order mark, carriage returns and Gutenberg's wrapping") {
  CHECK(clean_text("\xef\xbb\xbf"
                   "a\r\nb\rc\n\xef\xbb\xbf") == "a\nb\nc\n\xef\xbb\xbf");
  CHECK(clean_text("licence\r\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\r\nbook\r\n"
                   "End of the Project Gutenberg EBook of X\r\nmore") == "book\n");
  CHECK(clean_text("*** START OF THE PROJECT GUTENBERG EBOOK X ***\nbook\n*** END OF THE PROJECT "
                   "GUTENBERG EBOOK X ***\nEnd of Project Gutenberg\n") == "book\n");
  CHECK(clean_text("no mark\nEnd of the Project Gutenberg?\n") ==
        "no mark\nEnd of the Project Gutenberg?\n");
  CHECK(clean_text("") == "");
}

TEST_CASE("TXT-1 folders are walked by name, what is no text is passed over") {
  scratch dir;
  fs::create_directories(dir / "b/inner");
  fs::create_directories(dir / ".hidden");
  REQUIRE(write_atomic(dir / "c.txt", "c"));
  REQUIRE(write_atomic(dir / "b/inner/z.md", "z"));
  REQUIRE(write_atomic(dir / "b/a", "a"));
  REQUIRE(write_atomic(dir / ".hidden/h.txt", "h"));
  REQUIRE(write_atomic(dir / "binary", std::string("x\0y", 3)));
  fs::create_directory_symlink(dir.path, dir / "loop");
  auto source = open_source({dir.path});
  REQUIRE(source);
  std::string all;
  for (size_t i = 0; i < source->documents().size(); ++i) all += *source->read(i);
  CHECK(all == "azc");
  CHECK(source->total_bytes() == 3);
  auto twice = open_source({dir / "c.txt", dir / "b"});
  REQUIRE(twice);
  CHECK(*twice->read(0) == "c");
  CHECK(twice->documents().size() == 3);
  CHECK(open_source({dir / "binary"}).error().code == errc::bad_data);
  CHECK(open_source({dir / "none"}).error().code == errc::not_found);
  CHECK(open_source({dir / ".hidden/.."}).has_value());
  fs::create_directories(dir / "empty");
  CHECK(open_source({dir / "empty"}).error().code == errc::bad_data);
}

TEST_CASE(
    "CRP-1 the file is the same for any threads and pieces, and equals the whole text's ids") {
  scratch dir;
  auto text = long_text();
  REQUIRE(write_atomic(dir / "long.txt", text));
  REQUIRE(write_atomic(dir / "short.txt", "short"));
  REQUIRE(write_atomic(dir / "empty.txt", ""));
  auto source = open_source({dir / "long.txt", dir / "empty.txt", dir / "short.txt"});
  REQUIRE(source);
  std::vector<tokenizer_ptr> tokenizers = {gpt2_tokenizer(),
                                           std::make_shared<split_hasher>(gpt2_pattern),
                                           std::make_shared<split_hasher>(llama3_pattern)};
  for (const auto& tok : tokenizers) {
    std::vector<int32_t> wanted;
    for (const auto& t : {clean_text(text), std::string(), std::string("short")}) {
      auto ids = *tok->encode(t);
      wanted.insert(wanted.end(), ids.begin(), ids.end());
      wanted.push_back(*tok->end_of_text());
    }
    for (auto [threads, piece_bytes] :
         {std::pair<unsigned, size_t>{1, 1}, {3, 1}, {2, 100}, {3, 1 << 20}}) {
      int calls = 0;
      auto count = [&](const auto&) { return ++calls > 0; };
      auto done = prepare_corpus(*source, *tok, dir / "t.bin", {threads, piece_bytes, count});
      REQUIRE(done);
      CHECK(done->tokens == wanted.size());
      CHECK(done->documents_done == 3);
      CHECK(calls >= 1);
      CHECK(ids_of(dir / "t.bin") == wanted);
    }
  }
}

TEST_CASE("without an end-of-text id, an empty line parts documents") {
  scratch dir;
  REQUIRE(write_atomic(dir / "1", "ab"));
  REQUIRE(write_atomic(dir / "2", "c"));
  auto source = open_source({dir / "1", dir / "2"});
  auto tok = *make_tokenizer("bytes");
  REQUIRE(prepare_corpus(*source, *tok, dir / "t.bin"));
  CHECK(ids_of(dir / "t.bin") == std::vector<int32_t>{'a', 'b', '\n', '\n', 'c'});
}

TEST_CASE("CRP-2 cancelled or failed preparing leaves no file and names the document") {
  scratch dir;
  REQUIRE(write_atomic(dir / "good.txt", "good"));
  REQUIRE(write_atomic(dir / "latin1.txt", "caf\xe9"));
  auto tok = gpt2_tokenizer();
  auto source = open_source({dir / "good.txt"});
  auto cancelled =
      prepare_corpus(*source, *tok, dir / "t.bin", {1, 1 << 20, [](const auto&) { return false; }});
  REQUIRE_FALSE(cancelled);
  CHECK(cancelled.error().code == errc::cancelled);
  auto failed = prepare_corpus(*open_source({dir.path}), *tok, dir / "t.bin");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message.find("latin1.txt") != std::string::npos);
  size_t files = 0;
  for ([[maybe_unused]] const auto& e : fs::directory_iterator(dir.path)) ++files;
  CHECK(files == 2);
}

TEST_CASE("CRP-3 the cache is used again, until text or tokenizer change") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a.txt", "some text"));
  int made = 0;
  corpus_options counting{1, 1 << 20, [&](const auto&) { return ++made > 0; }};
  auto open_cached = [&](const tokenizer& by) {
    auto path = cached_corpus(*open_source({dir / "a.txt"}), by, dir / "cache", counting);
    REQUIRE(path);
    return *path;
  };
  auto bytes = *make_tokenizer("bytes");
  auto first = open_cached(*bytes);
  CHECK(made == 1);
  CHECK(open_cached(*bytes) == first);
  CHECK(made == 1);
  CHECK(open_cached(*gpt2_tokenizer()) != first);
  CHECK(made == 2);
  REQUIRE(write_atomic(dir / "a.txt", "Some text"));
  CHECK(open_cached(*bytes) != first);
  CHECK(made == 3);
  fs::resize_file(first, 1026);  // a damaged file is made anew
  REQUIRE(write_atomic(dir / "a.txt", "some text"));
  CHECK(open_cached(*bytes) == first);
  CHECK(made == 4);
  CHECK(ids_of(first).size() == 9);
}
