// What stands around documents in prepared tokens, wherever they are cut.
#include <doctest/doctest.h>

#include "io/data/corpus.hpp"
#include "io/file.hpp"
#include "io/tokenizer/text_frame.hpp"
#include "tests/io/corpora.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

/// GPT-2's kind, whose texts begin with "er" and end with the end of text, as documents do.
tokenizer_ptr framed_words() {
  const std::string config = R"({"add_bos_token": true, "add_eos_token": true,
      "bos_token": "er", "eos_token": "<|endoftext|>"})";
  auto framed = with_special_tokens(gpt2_tokenizer(), config, "", tokenizer_source::other);
  REQUIRE(framed);
  REQUIRE((*framed)->frame().first.size() == 1);
  return *framed;
}

}  // namespace

TEST_CASE("CRP-1 each document has its frame once, however many pieces it is cut into") {
  scratch dir;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "The player forgets a line.\n";
  REQUIRE(write_atomic(dir / "a.txt", text));
  REQUIRE(write_atomic(dir / "b.txt", "Short."));
  const auto words = framed_words();
  std::vector<int32_t> wanted;
  for (const auto& document : {text, std::string("Short.")}) {
    wanted.push_back(words->frame().first[0]);
    const auto ids = *words->encode(document);
    wanted.insert(wanted.end(), ids.begin(), ids.end());
    wanted.push_back(0);  // the frame's end is the document's
  }
  const std::vector<std::filesystem::path> paths{dir / "a.txt", dir / "b.txt"};
  const auto source = text_source::open(paths, {});
  REQUIRE(source);
  for (const size_t piece : {size_t{16}, size_t{200}, size_t{1} << 18}) {
    CAPTURE(piece);
    corpus_options options;
    options.threads = 2;
    options.piece_bytes = piece;
    const auto done = prepare_corpus(*source, *words, dir / "out.bin", options);
    REQUIRE(done);
    CHECK(ids_of(dir / "out.bin") == wanted);
    CHECK(done->tokens == wanted.size());
  }
  CHECK(*count_tokens(*source, *words) == wanted.size());
}
