// Tokenizers against what Hugging Face's tokenizers and Google's sentencepiece gave for the same
// files (fixtures/make_tokenizers.py), round trips of random Unicode, and files that lie.
#include "io/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/utf8.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
using json = nlohmann::json;

namespace {

const std::filesystem::path fixtures = TROUPE_SOURCE_DIR "/tests/io/fixtures";

json expected() {
  return json::parse(*read_file(fixtures / "expected.json", 1 << 20));
}

tokenizer_ptr open_fixture(const char* name) {
  auto made = make_tokenizer((fixtures / name).string());
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  return *made;
}

/// Appends a code point below U+0800.
void append_utf8(std::string& out, uint32_t code_point) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else {
    out += static_cast<char>(0xc0 | (code_point >> 6));
    out += static_cast<char>(0x80 | (code_point & 0x3f));
  }
}

/// A random valid UTF-8 text that likes borders: spaces, digits, quotes, several scripts.
std::string random_text(std::mt19937& rng, size_t characters) {
  constexpr std::pair<uint32_t, uint32_t> ranges[] = {
      {0x20, 0x7e},     {0x09, 0x0d},       {0x20, 0x20},   {0x27, 0x27},     {0x30, 0x39},
      {0xa0, 0xff},     {0x300, 0x36f},     {0x400, 0x4ff}, {0x2000, 0x206f}, {0x3040, 0x30ff},
      {0x4e00, 0x4eff}, {0x1f300, 0x1f5ff}, {0, 0x1f},      {0xe000, 0xe0ff}, {0x10fff0, 0x10ffff}};
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    auto [low, high] = ranges[rng() % std::size(ranges)];
    uint32_t c = low + rng() % (high - low + 1);
    if (c < 0x800)
      append_utf8(text, c);
    else if (c < 0x10000)
      text.append({static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)),
                   static_cast<char>(0x80 | (c & 63))});
    else
      text.append({static_cast<char>(0xf0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 63)),
                   static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))});
  }
  return text;
}

void check_fixture(const char* name, bool compare_decoded) {
  auto all = expected();
  auto tok = open_fixture(name);
  const auto& texts = all["texts"];
  const auto& ids = all["cases"][name]["ids"];
  const auto& decoded = all["cases"][name]["decoded"];
  REQUIRE(texts.size() > 80);
  for (size_t i = 0; i < texts.size(); ++i) {
    auto text = texts[i].get<std::string>();
    CAPTURE(text);
    auto got = tok->encode(text);
    REQUIRE(got);
    CHECK(json(*got) == ids[i]);
    auto back = tok->decode(*got);
    REQUIRE(back);
    if (compare_decoded) CHECK(*back == decoded[i].get<std::string>());
  }
}

}  // namespace

TEST_CASE("tokenizer.json of GPT-2's kind encodes as Hugging Face does") {
  check_fixture("gpt2.tokenizer.json", true);
}
TEST_CASE("tokenizer.json of Llama 3's kind encodes as Hugging Face does") {
  check_fixture("llama3.tokenizer.json", true);
}
TEST_CASE("tokenizer.json with NFC, prefix space and added tokens encodes as Hugging Face does") {
  check_fixture("neox.tokenizer.json", true);
}
TEST_CASE("tokenizer.json of Llama 2's kind encodes as Hugging Face does") {
  check_fixture("llama2.tokenizer.json", true);
  check_fixture("mistral.tokenizer.json", true);  // whose words are looked up
}
TEST_CASE("tokenizer.json of Qwen 2's kind encodes as Hugging Face does") {
  check_fixture("qwen2.tokenizer.json", true);
}
TEST_CASE("tokenizer.json with Metaspace and fused unknowns encodes as Hugging Face does") {
  // Decoding differs on purpose: Hugging Face drops every space of the first token, we drop one.
  check_fixture("metaspace.tokenizer.json", false);
  auto tok = open_fixture("metaspace.tokenizer.json");
  CHECK(*tok->decode(*tok->encode("The player forgets a line.")) == "The player forgets a line.");
}
TEST_CASE("a SentencePiece model encodes as sentencepiece does") {
  check_fixture("spm.model", true);
}

TEST_CASE("TKN-3 byte-level vocabularies give back every text") {
  std::mt19937 rng(7);
  for (const char* name : {"bytes", "gpt2.tokenizer.json", "llama3.tokenizer.json"}) {
    auto tok = std::string_view(name) == "bytes" ? *make_tokenizer("bytes") : open_fixture(name);
    for (int i = 0; i < 300; ++i) {
      auto text = random_text(rng, rng() % 200);
      auto ids = tok->encode(text);
      REQUIRE(ids);
      for (int32_t id : *ids) REQUIRE((id >= 0 && id < tok->vocab_size()));
      REQUIRE(*tok->decode(*ids) == text);
    }
  }
}

namespace {

/// A fixture with an NFC before it, and Qwen 2's pattern where that is asked for.
tokenizer_ptr normalizing_fixture(const char* name, bool qwen) {
  auto file = json::parse(*read_file(fixtures / name, 1 << 20));
  file["normalizer"] = {{"type", "NFC"}};
  if (qwen) {
    auto text = file["pre_tokenizer"].dump();
    const std::string from = R"(\\p{N}{1,3})";
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    file["pre_tokenizer"] = json::parse(text.replace(at, from.size(), R"(\\p{N})"));
  }
  auto parts = parse_tokenizer_json(file.dump());
  REQUIRE_MESSAGE(parts, (parts ? "" : render(parts.error())));
  return *hf_tokenizer::make(std::move(*parts));
}

/// Text of what stands around cuts: line ends and white space of all kinds, letters of several
/// scripts, marks that join what is before them, added tokens.
std::string lines_text(std::mt19937& rng) {
  constexpr const char* bits[] = {"\n",
                                  "\n",
                                  "\n\n",
                                  " ",
                                  "\t",
                                  "\xc2\xa0",
                                  "\xe3\x80\x80",
                                  "\xe2\x80\x83",
                                  "a",
                                  "it's",
                                  "7",
                                  ".",
                                  "\"",
                                  "\xd0\xaf",
                                  "\xe4\xb8\xad",
                                  "\xd8\xb9",
                                  "e\xcc\x81",
                                  "\xcc\x81",
                                  "\xcd\xbe",
                                  "<|endoftext|>",
                                  "<|begin_of_text|>",
                                  "<",
                                  "\xf0\x9f\x8c\x8d",
                                  "\r"};
  std::string text;
  for (size_t n = 1 + rng() % 12; n > 0; --n) text += bits[rng() % std::size(bits)];
  return text;
}

}  // namespace

TEST_CASE("TXC-2 the ids of a text that is cut are those of the text, for each way of cutting") {
  std::mt19937 rng(11);
  const std::pair<tokenizer_ptr, text_cuts> rows[] = {
      {*make_tokenizer("bytes"), text_cuts::anywhere},
      {open_fixture("gpt2.tokenizer.json"), text_cuts::last_lines},
      {normalizing_fixture("gpt2.tokenizer.json", false), text_cuts::lone_lines},
      {open_fixture("llama3.tokenizer.json"), text_cuts::behind_lines},
      {normalizing_fixture("llama3.tokenizer.json", false), text_cuts::behind_lines},
      {normalizing_fixture("llama3.tokenizer.json", true), text_cuts::behind_lines},
      {open_fixture("qwen2.tokenizer.json"), text_cuts::behind_lines},
      {open_fixture("llama2.tokenizer.json"), text_cuts::behind_lines},
      {open_fixture("mistral.tokenizer.json"), text_cuts::words_and_lines},
      {open_fixture("spm.model"), text_cuts::words_and_lines}};
  for (const auto& [tok, how] : rows) {
    CAPTURE(tok->name());
    CHECK(tok->cuts() == how);
    size_t cuts = 0;
    for (int i = 0; i < 6000; ++i) {
      const auto text = lines_text(rng);
      CAPTURE(text);
      const auto at = next_cut(text, rng() % 8, how);
      if (!at) continue;
      ++cuts;
      REQUIRE((*at > 0 && *at < text.size()));
      auto first = *tok->encode(text.substr(0, *at));
      const auto second = *tok->encode_rest(text.substr(*at));
      first.insert(first.end(), second.begin(), second.end());
      REQUIRE(first == *tok->encode(text));
    }
    CHECK(cuts > 400);
  }
  CHECK(open_fixture("neox.tokenizer.json")->cuts() == text_cuts::nowhere);
}

TEST_CASE(
    "TXC-1 texts of any script, and of paragraphs, are cut; a place is told by what is near") {
  const auto cut = [](std::string_view text, text_cuts how) { return next_cut(text, 1, how); };
  const std::string russian = "\xd0\xaf\n\xd1\x82", parted = "a.\n\nb", wiki = "a \n b \nc";
  CHECK(cut(russian, text_cuts::lone_lines) == 3);
  CHECK(cut(russian, text_cuts::behind_lines) == 3);
  CHECK(cut(parted, text_cuts::lone_lines) == std::nullopt);
  CHECK(cut(parted, text_cuts::last_lines) == 3);
  CHECK(cut(parted, text_cuts::behind_lines) == 4);
  CHECK(cut(wiki, text_cuts::last_lines) == 6);
  CHECK(cut(wiki, text_cuts::behind_lines) == 7);
  CHECK(cut("ab", text_cuts::anywhere) == 1);
  CHECK(cut("ab\nc", text_cuts::nowhere) == std::nullopt);
  CHECK(cut("a\n\n<", text_cuts::last_lines) == std::nullopt);
  CHECK(cut(russian, text_cuts::before_words) == std::nullopt);
  CHECK(cut(russian, text_cuts::words_and_lines) == 3);
  CHECK(cut(wiki, text_cuts::before_words) == 1);
  CHECK(cut("a\n b  c", text_cuts::words_and_lines) == 4);
  CHECK(cut("</s> b", text_cuts::words_and_lines) == std::nullopt);
  CHECK(cut("a\xe2\x96\x81 b", text_cuts::words_and_lines) == std::nullopt);
  std::mt19937 rng(5);
  for (const auto how : {text_cuts::lone_lines, text_cuts::last_lines, text_cuts::behind_lines,
                         text_cuts::before_words, text_cuts::words_and_lines}) {
    for (int i = 0; i < 2000; ++i) {
      const auto text = lines_text(rng) + lines_text(rng);
      const auto whole = next_cut(text, 1, how);
      for (size_t n = 1; n < text.size(); ++n)  // what has been read so far tells the same or waits
        if (const auto part = next_cut(std::string_view(text).substr(0, n), 1, how))
          REQUIRE(part == whole);
      if (whole && *whole + cut_context_bytes < text.size())
        REQUIRE(next_cut(text.substr(0, *whole + cut_context_bytes), 1, how) == whole);
    }
  }
}

TEST_CASE("TKN-1 threads may share a tokenizer") {
  auto tok = open_fixture("gpt2.tokenizer.json");
  std::mt19937 rng(3);
  auto text = random_text(rng, 2000);
  auto alone = *tok->encode(text);
  std::vector<int> same(4, 0);
  std::vector<std::thread> threads;
  for (int& flag : same)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) flag += *tok->encode(text) == alone;
    });
  for (auto& t : threads) t.join();
  CHECK(same == std::vector<int>(4, 20));
}

namespace {

/// A random table over four letters whose merges need not be in an order that training would give.
struct random_table {
  vocabulary tokens;
  merge_list merges;

  explicit random_table(std::mt19937& rng) {
    std::vector<std::string> names = {"a", "b", "c", "d"};
    for (const auto& name : names) tokens.emplace(name, tokens.size());
    while (merges.size() < 60) {
      auto left = names[rng() % names.size()], right = names[rng() % names.size()];
      if ((left + right).size() > 12 || tokens.contains(left + right)) continue;
      merges.emplace_back(left, right);
      names.push_back(left + right);
      tokens.emplace(left + right, tokens.size());
    }
    std::shuffle(merges.begin(), merges.end(), rng);
  }

  /// The definition, word for word: the lowest rank, leftmost, until there is none.
  std::vector<int32_t> encode(std::string_view word) const {
    std::vector<std::string> parts;
    for (char c : word) parts.emplace_back(1, c);
    for (;;) {
      size_t best = merges.size(), at = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        for (size_t r = 0; r < best; ++r)
          if (merges[r].first == parts[i] && merges[r].second == parts[i + 1]) best = r, at = i;
      if (best == merges.size()) break;
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
    std::vector<int32_t> ids;
    for (const auto& p : parts) ids.push_back(tokens.at(p));
    return ids;
  }
};

}  // namespace

TEST_CASE("BPE-2 short and long words merge as the definition says") {
  std::mt19937 rng(5);
  for (int table = 0; table < 40; ++table) {
    random_table reference(rng);
    auto model = bpe_model::make(reference.tokens, reference.merges, {});
    REQUIRE(model);
    bpe_scratch scratch;
    for (int round = 0; round < 20; ++round) {
      std::string word;
      for (size_t n = 1 + rng() % 150; n > 0; --n) word += "abcd"[rng() % 4];
      std::vector<int32_t> got;
      REQUIRE(model->encode(word, got, scratch));
      CAPTURE(word);
      REQUIRE(got == reference.encode(word));
    }
  }
}

TEST_CASE("vocab.json with merges.txt is the same tokenizer as their tokenizer.json") {
  scratch dir;
  auto data = json::parse(*read_file(fixtures / "gpt2.tokenizer.json", 1 << 20));
  std::string merges = "#version: 0.2\n";
  for (const auto& m : data["model"]["merges"]) merges += m.get<std::string>() + "\n";
  REQUIRE(write_atomic(dir / "vocab.json", data["model"]["vocab"].dump()));
  REQUIRE(write_atomic(dir / "merges.txt", merges));
  auto whole = open_fixture("gpt2.tokenizer.json");
  const auto all = expected();
  for (const auto& source : {dir.path, dir / "vocab.json", dir / "merges.txt"}) {
    auto pair = make_tokenizer(source.string());
    REQUIRE(pair);
    CHECK((*pair)->end_of_text() == whole->end_of_text());
    for (const auto& text : all["texts"])
      CHECK(*(*pair)->encode(text.get<std::string>()) == *whole->encode(text.get<std::string>()));
  }
  REQUIRE(write_atomic(dir / "merges.txt", "#version: 0.2\na b c\n"));
  auto broken = make_tokenizer(dir.path.string());
  REQUIRE_FALSE(broken);
  CHECK(is_error(broken, merge_malformed, "merges.txt:2"));
}

TEST_CASE("bytes: 256 ids, any bytes, no end of text") {
  auto tok = *make_tokenizer("bytes");
  CHECK(tok->vocab_size() == 256);
  CHECK_FALSE(tok->end_of_text());
  std::string any("\xff\x00 a", 4);
  CHECK(*tok->encode(any) == std::vector<int32_t>{255, 0, 32, 97});
  CHECK(*tok->decode(*tok->encode(any)) == any);
  int32_t outside = 256;
  CHECK_FALSE(tok->decode(std::span(&outside, 1)));
}

TEST_CASE("the end of text is found by its name") {
  auto gpt2 = open_fixture("gpt2.tokenizer.json");
  REQUIRE(gpt2->end_of_text());
  CHECK(*gpt2->encode("<|endoftext|>") == std::vector<int32_t>{*gpt2->end_of_text()});
  CHECK(open_fixture("llama2.tokenizer.json")->end_of_text() == 2);
  CHECK(open_fixture("spm.model")->end_of_text() == 2);
}

TEST_CASE("invalid UTF-8 is an error with its place") {
  auto tok = open_fixture("gpt2.tokenizer.json");
  for (const char* bad :
       {"ab\xff", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xe2\x82"}) {
    auto got = tok->encode(bad);
    REQUIRE_FALSE(got);
    CHECK(got.error() == text_not_utf8(2));
  }
}

TEST_CASE("llm.c's tokenizer file decodes only, and its lies are refused") {
  auto file = [](uint32_t version, uint32_t vocab, uint32_t end, std::string tokens) {
    uint32_t header[256] = {20240328, version, vocab, end};
    return std::string(reinterpret_cast<const char*>(header), sizeof header) + tokens;
  };
  scratch dir;
  auto open = [&](const std::string& bytes) {
    REQUIRE(write_atomic(dir / "t.bin", bytes));
    return make_tokenizer((dir / "t.bin").string());
  };
  auto tok = open(file(2, 3, 2, "\1a\2bc\1\n"));
  REQUIRE(tok);
  CHECK(*(*tok)->decode(std::vector<int32_t>{1, 0, 2}) == "bca\n");
  CHECK((*tok)->end_of_text() == 2);
  CHECK((*tok)->encode("a").error().code == errc::bad_config);
  CHECK_FALSE(open(file(2, 3, 3, "\1a\2bc\1\n")));
  CHECK_FALSE(open(file(2, 4, 2, "\1a\2bc\1\n")));
  CHECK_FALSE(open(file(2, 3, 2, std::string("\1a\2bc\0\n", 7))));
  CHECK_FALSE(open(file(3, 3, 2, "\1a\2bc\1\n")));
  CHECK_FALSE(open(file(2, 0xffffffff, 2, "\1a")));
}

TEST_CASE("a path that is no tokenizer says what would be one") {
  scratch dir;
  CHECK(make_tokenizer(dir.path.string()).error().code == errc::not_found);
  CHECK(make_tokenizer("no/such/file.json").error().code == errc::not_found);
  REQUIRE(write_atomic(dir / "x.txt", "x"));
  CHECK(make_tokenizer((dir / "x.txt").string()).error().code == errc::bad_config);
}

TEST_CASE("utf8: every boundary of RFC 3629") {
  CHECK(find_invalid_utf8("") == std::string_view::npos);
  for (const char* good : {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    CHECK(find_invalid_utf8(good) == std::string_view::npos);
  for (const char* bad :
       {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xc2", "\xe1\x80", "\xf1\x80\x80"}) {
    CHECK(find_invalid_utf8(bad) == 0);
    CHECK(find_invalid_utf8("12345678" + std::string(bad) + "12345678") == 8);
  }
}
