// Cuts by SentencePiece models: random texts, cut wherever it is offered, have the ids that the
// library gives of the whole.
#include "io/tokenizer/piece_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/file.hpp"
#include "io/tokenizer/other_tokenizers.hpp"
#include "tests/io/cut_texts.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

constexpr const char* letter = "\xe2\x96\x81";  // what a space becomes

enum piece_type { piece_normal = 1, piece_unknown, piece_control, piece_user, piece_unused };
constexpr int piece_byte = 6;

struct piece_row {
  std::string text;
  float score = 0;
  int type = piece_normal;
};

/// What a model file is made of (sentencepiece_model.proto).
struct model_file {
  std::vector<piece_row> pieces;
  int type = 2;  ///< BPE
  bool bytes = true;
  bool suffix = false;
  bool prefix = true;
  bool trims = false;
  bool escapes = true;
  std::string rules;
  std::string behind;  ///< other fields
};

std::string wire_bytes(int number, std::string_view value) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t n = value.size();
  for (; n >= 0x80; n >>= 7) out += static_cast<char>(0x80 | (n & 0x7f));
  out += static_cast<char>(n);
  return out.append(value);
}

std::string wire_number(int number, int value) {
  std::string out;
  const int tag = number << 3;
  if (tag >= 0x80) out += static_cast<char>(0x80 | (tag & 0x7f));
  out += static_cast<char>(tag >= 0x80 ? tag >> 7 : tag);
  out += static_cast<char>(value);
  return out;
}

std::string wire_of(const model_file& m) {
  std::string out;
  for (const auto& piece : m.pieces) {
    std::string score(4, '\0');
    std::memcpy(score.data(), &piece.score, 4);
    out += wire_bytes(1, wire_bytes(1, piece.text) + '\x15' + score + wire_number(3, piece.type));
  }
  out +=
      wire_bytes(2, wire_number(3, m.type) + wire_number(24, m.suffix) + wire_number(35, m.bytes));
  out += wire_bytes(3, wire_bytes(2, m.rules) + wire_number(3, m.prefix) + wire_number(4, m.trims) +
                           wire_number(5, m.escapes));
  return out + m.behind;
}

/// Llama 2's kind: bytes for what is unknown, words that begin with "▁", runs of it, and of the
/// rest no piece over two words. Its merges have the scores of their order.
model_file words_model() {
  model_file m;
  m.pieces = {{"<unk>", 0, piece_unknown}, {"<s>", 0, piece_control}, {"</s>", 0, piece_control}};
  for (int i = 0; i < 256; ++i) m.pieces.push_back({fmt::format("<0x{:02X}>", i), 0, piece_byte});
  const std::string space = letter;
  const std::string merged[] = {
      "er",   "th", space + "a",           "the",          space + space, space + "the",
      "pl",   "ay", space + "pl",          space + "play", "ayer",        space + "player",
      "play", "s.", space + space + space, "77",           "e\xcc\x81",   space + "th",
      "he"};
  float score = 0;
  for (const auto& text : merged) m.pieces.push_back({text, score -= 1});
  for (const char* text : {"a", "e", "h", "l", "p", "r", "s", "t", "y", ".", "7", "<", ">", "/",
                           letter, "\xd0\xaf", "\xcc\x81"})
    m.pieces.push_back({text, score -= 1});
  return m;
}

using model_edit = std::function<void(model_file&)>;

tokenizer_ptr made_of_model(const std::string& model) {
  auto made = make_sentencepiece_tokenizer(model);
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  return *made;
}

struct cuts_row {
  std::string what;
  text_cuts cuts;
  model_edit edit = [](model_file&) {};
};

/// Of each cut that is offered the whole is the parts, and of the rest of a text, too.
void check_model(const std::string& model, text_cuts cuts) {
  const auto by = made_of_model(model);
  CHECK(by->cuts() == cuts);
  std::mt19937 rng(29);
  size_t seen = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto text = words_text(rng);
    CAPTURE(text);
    const auto wanted = by->encode(text);
    REQUIRE(wanted);
    REQUIRE(ids_of_parts(*by, text, cuts, seen) == *wanted);
    const auto rest = by->encode_rest(text);
    REQUIRE(rest);
    const auto cut = next_cut(text, 1, cuts);
    if (!cut) continue;
    auto parts = *by->encode_rest(std::string_view(text).substr(0, *cut));
    const auto last = *by->encode_rest(std::string_view(text).substr(*cut));
    parts.insert(parts.end(), last.begin(), last.end());
    REQUIRE(parts == *rest);
  }
  CHECK((seen > 400) == (cuts != text_cuts::nowhere));
}

void check_rows(const std::vector<cuts_row>& rows) {
  for (const auto& row : rows) {
    CAPTURE(row.what);
    auto m = words_model();
    row.edit(m);
    check_model(wire_of(m), row.cuts);
  }
}

void add_piece(model_file& m, std::string text, int type = piece_normal, float score = -0.5f) {
  m.pieces.push_back({std::move(text), score, type});
}

void without_bytes(model_file& m) {
  m.bytes = false;
  std::erase_if(m.pieces, [](const piece_row& p) { return p.type == piece_byte; });
}

const std::string over_words = std::string("e") + letter;

/// A model by chance: pieces made of two others, few scores, so that many are the same, letters
/// that are no pieces, a user's pieces; of some models pieces go on over words, of some over lines.
model_file chance_model(std::mt19937& rng) {
  const auto one_in = [&](uint32_t n) { return rng() % n == 0; };
  model_file m;
  m.pieces = {{"<unk>", 0, piece_unknown}};
  m.bytes = one_in(2);
  m.prefix = one_in(2);
  for (int i = 0; m.bytes && i < 256; ++i)
    m.pieces.push_back({fmt::format("<0x{:02X}>", i), 0, piece_byte});
  const auto scores = 1 + rng() % 6;
  std::vector<std::string> made;
  const auto add = [&](const std::string& text, bool is_joined) {
    if (std::find(made.begin(), made.end(), text) != made.end()) return;
    made.push_back(text);
    const auto score = -static_cast<float>(1 + rng() % scores);
    // The library takes no text with a letter that is a control piece.
    const int rare = is_joined && one_in(4) ? piece_control : piece_user;
    const int type = one_in(8) ? rare : piece_normal;
    m.pieces.push_back({text, score, one_in(80) ? piece_unused : type});
  };
  add("a", false);
  for (const char* text : {letter, letter, "\n", "b", "\xd0\xaf"})
    if (!one_in(8)) add(text, false);
  const bool over_words_too = one_in(3), over_lines_too = one_in(3);
  for (size_t n = 2 + rng() % 14; n > 0; --n) {
    const auto left = made[rng() % made.size()], right = made[rng() % made.size()];
    const bool over_word = right.starts_with(letter) && !left.ends_with(letter);
    const bool over_line = left.ends_with('\n') && !right.starts_with('\n');
    if ((!over_word || over_words_too) && (!over_line || over_lines_too)) add(left + right, true);
  }
  return m;
}

std::string chance_text(std::mt19937& rng) {
  const char* bits[] = {" ", " ", "\n", "a", "a", "b", "\xd0\xaf", letter, "\xe8\x88\x9e"};
  std::string text;
  for (size_t n = 1 + rng() % 16; n > 0; --n) text += bits[rng() % std::size(bits)];
  return text;
}

}  // namespace

TEST_CASE("PCC-1 texts cut by SentencePiece's BPE have the ids of the whole") {
  check_rows({
      {"Llama 2's kind", text_cuts::words_and_lines},
      {"nothing before the first word", text_cuts::words_and_lines,
       [](model_file& m) { m.prefix = false; }},
      {"unknown characters, which are one with those beside them", text_cuts::before_words,
       without_bytes},
      {"the same with a piece for line ends", text_cuts::words_and_lines,
       [](model_file& m) {
         without_bytes(m);
         add_piece(m, "\n");
       }},
      {"pieces of line ends, and one that ends in one", text_cuts::words_and_lines,
       [](model_file& m) {
         add_piece(m, "\n");
         add_piece(m, "\n\n");
         add_piece(m, "a\n");
       }},
      {"equal scores, of which the leftmost is joined", text_cuts::words_and_lines,
       [](model_file& m) {
         for (auto& piece : m.pieces) piece.score = -1;
       }},
      {"a user's pieces", text_cuts::words_and_lines,
       [](model_file& m) {
         add_piece(m, "the\n", piece_user);
         add_piece(m, std::string(letter) + letter, piece_user);
         m.pieces.erase(m.pieces.begin() + 3 + 256 + 4);  // or it is there twice
       }},
      {"control pieces are no text's", text_cuts::words_and_lines,
       [](model_file& m) { add_piece(m, over_words, piece_control); }},
      {"samples to test itself by, which have a prefix", text_cuts::words_and_lines,
       [](model_file& m) {
         m.behind = wire_bytes(
             4, wire_bytes(1, wire_bytes(1, "the") + wire_bytes(2, std::string(letter) + "the")));
       }},
  });
  const std::filesystem::path fixture = TROUPE_SOURCE_DIR "/tests/io/fixtures/spm.model";
  check_model(*read_file(fixture, 1 << 20), text_cuts::words_and_lines);
}

TEST_CASE("TXC-2 a long text, made to tokens in parts, has the ids of one that is not cut") {
  const auto by = made_of_model(wire_of(words_model()));
  auto uncut = words_model();
  add_piece(uncut, "qqqq", piece_unused);
  const auto whole = made_of_model(wire_of(uncut));
  REQUIRE(by->cuts() == text_cuts::words_and_lines);
  REQUIRE(whole->cuts() == text_cuts::nowhere);
  std::mt19937 rng(31);
  for (const bool has_long_word : {false, true}) {
    CAPTURE(has_long_word);
    std::string text;
    while (text.size() < 100'000) text += words_text(rng);
    if (has_long_word) text += std::string(40'000, 'e') + " the end";
    const auto ids = by->encode(text), wanted = whole->encode(text);
    REQUIRE((ids && wanted));
    CHECK((*ids == *wanted));
    const auto cut = next_cut(text, 7, by->cuts());
    REQUIRE(cut);
    const auto first = by->encode(std::string_view(text).substr(0, *cut));
    const auto rest = by->encode_rest(std::string_view(text).substr(*cut));
    REQUIRE((first && rest));
    auto both = *first;
    both.insert(both.end(), rest->begin(), rest->end());
    CHECK((both == *wanted));
  }
}

TEST_CASE("PCC-1 whatever the pieces, texts cut by them have the ids of the whole") {
  std::mt19937 rng(31);
  std::map<text_cuts, int> models;
  size_t cuts = 0;
  for (int i = 0; i < 600; ++i) {
    CAPTURE(i);
    const auto by = made_of_model(wire_of(chance_model(rng)));
    const auto how = by->cuts();
    ++models[how];
    for (int n = 0; n < 60 && how != text_cuts::nowhere; ++n) {
      const auto text = chance_text(rng);
      CAPTURE(text);
      REQUIRE(ids_of_parts(*by, text, how, cuts) == *by->encode(text));
    }
  }
  CHECK(cuts > 5000);
  for (const auto how : {text_cuts::nowhere, text_cuts::behind_lines, text_cuts::before_words,
                         text_cuts::words_and_lines})
    CHECK(models[how] > 30);
}

TEST_CASE("PCC-1 a model whose pieces go on over words or lines is not cut there") {
  check_rows({
      {"over words", text_cuts::behind_lines, [](model_file& m) { add_piece(m, over_words); }},
      {"over a line end", text_cuts::before_words,
       [](model_file& m) {
         add_piece(m, "\n");
         add_piece(m, "\na");
       }},
      {"over both", text_cuts::nowhere,
       [](model_file& m) {
         add_piece(m, over_words);
         add_piece(m, "\na");
       }},
      {"from a line to a word", text_cuts::nowhere,
       [](model_file& m) { add_piece(m, std::string("\n") + letter); }},
      {"a user's piece over words", text_cuts::behind_lines,
       [](model_file& m) { add_piece(m, over_words + "p", piece_user); }},
      {"a user's piece with a space", text_cuts::nowhere,
       [](model_file& m) { add_piece(m, "e p", piece_user); }},
  });
}

TEST_CASE("PCC-1 models that are not of neighbours alone are cut nowhere") {
  check_rows({
      {"unigram, which weighs whole texts", text_cuts::nowhere, [](model_file& m) { m.type = 1; }},
      {"spaces at the end of words", text_cuts::nowhere, [](model_file& m) { m.suffix = true; }},
      {"spaces that are left out", text_cuts::nowhere, [](model_file& m) { m.trims = true; }},
      {"spaces that stay spaces", text_cuts::nowhere, [](model_file& m) { m.escapes = false; }},
      {"pieces that are undone, by what was joined last in the text", text_cuts::nowhere,
       [](model_file& m) { add_piece(m, "pla", piece_unused); }},
      {"no score", text_cuts::nowhere,
       [](model_file& m) { m.pieces.back().score = std::numeric_limits<float>::quiet_NaN(); }},
  });
  // What the library refuses, or cannot take texts apart by.
  auto ruled = words_model();
  ruled.rules = "rules";
  CHECK(piece_cuts(wire_of(ruled)) == text_cuts::nowhere);
  auto twice = words_model();
  add_piece(twice, "the", piece_control);
  CHECK(piece_cuts(wire_of(twice)) == text_cuts::nowhere);
}

TEST_CASE("PCC-2 a file that says what is not known is cut nowhere") {
  const auto model = wire_of(words_model());
  CHECK(piece_cuts(model) == text_cuts::words_and_lines);
  CHECK(piece_cuts(model + "\x43") == text_cuts::nowhere);              // a group
  CHECK(piece_cuts(model + "\x0a\x7f") == text_cuts::nowhere);          // more than there is
  CHECK(piece_cuts(model + "\x0a\x02\x18\x09") == text_cuts::nowhere);  // a piece of another type
  CHECK(piece_cuts(model + std::string("\x08\x01")) == text_cuts::nowhere);  // a piece is a number
  CHECK(piece_cuts(model + std::string("\x12\x02\x18\x07")) == text_cuts::nowhere);  // its type
  CHECK(piece_cuts("") == text_cuts::nowhere);
  CHECK(without_prefix(model + "\x0a\x7f").empty());
  CHECK(without_prefix(model + wire_bytes(4, "x")) == without_prefix(model));
}
