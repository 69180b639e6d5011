// Cuts by vocabularies of words that begin with "▁": random texts, cut wherever it is offered, have
// the ids that the same vocabulary gives of the whole, by a tokenizer that is cut nowhere.
#include "io/tokenizer/word_cuts.hpp"

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "tests/io/cut_texts.hpp"

using namespace troupe;
using namespace troupe::io;
using json = nlohmann::json;

namespace {

using word_edit = std::function<void(json&)>;

json words_file(const char* name = "mistral.tokenizer.json") {
  const std::filesystem::path folder = TROUPE_SOURCE_DIR "/tests/io/fixtures";
  return json::parse(*read_file(folder / name, 1 << 20));
}

tokenizer_ptr made_of(const json& file) {
  auto parts = parse_tokenizer_json(file.dump());
  REQUIRE_MESSAGE(parts, (parts ? "" : render(parts.error())));
  auto made = hf_tokenizer::make(std::move(*parts));
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  return *made;
}

void add_token(json& file, const char* content, const json& flags) {
  json token = {{"id", 600}, {"content", content}, {"special", true}};
  token.update(flags);
  file["added_tokens"].push_back(std::move(token));
}

/// The same ids, and no cuts: an added token that no text has takes white space along.
tokenizer_ptr without_cuts(json file) {
  add_token(file, "<never>", {{"lstrip", true}});
  auto made = made_of(file);
  REQUIRE(made->cuts() == text_cuts::nowhere);
  return made;
}

/// A new token, made of two.
void add_merge(json& file, const std::string& left, const std::string& right) {
  auto& model = file["model"];
  for (const auto& token : {left, right, left + right})
    if (!model["vocab"].contains(token)) model["vocab"][token] = model["vocab"].size() + 100;
  model["merges"].insert(model["merges"].begin(), json::array({left, right}));
}

json metaspace_step(const char* scheme, bool split) {
  return {{"type", "Metaspace"},
          {"replacement", "\xe2\x96\x81"},
          {"prepend_scheme", scheme},
          {"split", split}};
}

word_edit by_metaspace(const char* scheme, bool split) {
  return [=](json& file) {
    file["normalizer"] = nullptr;
    file["pre_tokenizer"] = metaspace_step(scheme, split);
  };
}

struct word_row {
  std::string what;
  text_cuts cuts;
  word_edit edit;
};

void check_row(const word_row& row, json file) {
  CAPTURE(row.what);
  row.edit(file);
  const auto by = made_of(file), whole = without_cuts(file);
  CHECK(by->cuts() == row.cuts);
  std::mt19937 rng(23);
  size_t cuts = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto text = words_text(rng);
    CAPTURE(text);
    const auto wanted = whole->encode(text);
    REQUIRE(wanted);
    REQUIRE(*by->encode(text) == *wanted);
    REQUIRE(ids_of_parts(*by, text, by->cuts(), cuts) == *wanted);
    REQUIRE(*by->encode_rest(text) == *whole->encode_rest(text));
  }
  CHECK((cuts > 400) == (row.cuts != text_cuts::nowhere));
}

}  // namespace

TEST_CASE("WDC-1 texts cut between words and lines have the ids of the whole") {
  const auto none = [](json&) {};
  const word_row rows[] = {
      {"Llama 2's and Mistral's steps", text_cuts::words_and_lines, none},
      {"the same after NFC", text_cuts::words_and_lines,
       [](json& file) {
         auto& steps = file["normalizer"]["normalizers"];
         steps.insert(steps.begin(), json::object({{"type", "NFC"}}));
       }},
      {"no prefix", text_cuts::words_and_lines,
       [](json& file) { file["normalizer"]["normalizers"].erase(0); }},
      {"a prefix that stays a space", text_cuts::words_and_lines,
       [](json& file) {
         auto& steps = file["normalizer"]["normalizers"];
         std::swap(steps[0], steps[1]);
         steps[1]["prepend"] = " ";
       }},
      {"added tokens of normalized text", text_cuts::words_and_lines,
       [](json& file) {
         for (auto& token : file["added_tokens"]) token["normalized"] = true;
       }},
      {"Metaspace, first", text_cuts::words_and_lines, by_metaspace("first", false)},
      {"Metaspace, always", text_cuts::words_and_lines, by_metaspace("always", false)},
      {"Metaspace, never", text_cuts::words_and_lines, by_metaspace("never", false)},
      {"Metaspace that parts words", text_cuts::words_and_lines, by_metaspace("first", true)},
      {"unknown characters, which are one with those beside them", text_cuts::before_words,
       [](json& file) { file["model"]["byte_fallback"] = false; }},
      {"a token of line ends, and one that ends in one", text_cuts::words_and_lines,
       [](json& file) {
         add_merge(file, "\n", "\n");
         add_merge(file, "a", "\n");
       }},
      {"a token over words that no merge makes", text_cuts::words_and_lines,
       [](json& file) { file["model"]["vocab"]["e\xe2\x96\x81"] = 700; }}};
  for (const auto& row : rows) check_row(row, words_file());
}

TEST_CASE("WDC-1 a vocabulary whose tokens go on over words or lines is not cut there") {
  const word_row rows[] = {
      {"over words", text_cuts::behind_lines,
       [](json& file) { add_merge(file, "e", "\xe2\x96\x81"); }},
      {"over the byte of a line end", text_cuts::before_words,
       [](json& file) { add_merge(file, "<0x0A>", "a"); }},
      {"over a line end", text_cuts::before_words, [](json& file) { add_merge(file, "\n", "a"); }},
      {"from a line to a word", text_cuts::nowhere,
       [](json& file) { add_merge(file, "<0x0A>", "\xe2\x96\x81"); }},
      {"over a byte and a word", text_cuts::behind_lines,
       [](json& file) { add_merge(file, "<0x9E>", "\xe2\x96\x81"); }},
      {"tokens that share an id", text_cuts::nowhere,
       [](json& file) { file["model"]["vocab"]["e"] = file["model"]["vocab"]["\xe2\x96\x81"]; }},
      {"unknown characters are spaces", text_cuts::nowhere,
       [](json& file) {
         file["model"]["byte_fallback"] = false;
         file["model"]["unk_token"] = "\xe2\x96\x81";
       }},
      {"words that are tokens whatever the merges", text_cuts::nowhere,
       [](json& file) { file["model"]["ignore_merges"] = true; }},
      {"NFKC, which makes spaces", text_cuts::nowhere, [](json& file) {
         auto& steps = file["normalizer"]["normalizers"];
         steps.insert(steps.begin(), json::object({{"type", "NFKC"}}));
       }}};
  for (const auto& row : rows) check_row(row, words_file());
  check_row({"trained over words", text_cuts::behind_lines, [](json&) {}},
            words_file("llama2.tokenizer.json"));
}

TEST_CASE("WDC-2 added tokens that look beyond themselves, or may end at a cut, leave no cut") {
  const auto cuts_with = [](const char* content, const json& flags) {
    auto file = words_file();
    add_token(file, content, flags);
    return made_of(file)->cuts();
  };
  CHECK(cuts_with("[INST]", json::object()) == text_cuts::words_and_lines);
  CHECK(cuts_with("[INST]", {{"single_word", true}}) == text_cuts::behind_lines);
  CHECK(cuts_with("[INST]", {{"lstrip", true}}) == text_cuts::nowhere);
  CHECK(cuts_with("[INST]", {{"rstrip", true}}) == text_cuts::nowhere);
  CHECK(cuts_with("a word]", json::object()) == text_cuts::behind_lines);
  CHECK(cuts_with("the", json::object()) == text_cuts::behind_lines);
  CHECK(cuts_with("the", {{"normalized", true}}) == text_cuts::behind_lines);
  CHECK(cuts_with("<\n>", json::object()) == text_cuts::before_words);
}

TEST_CASE("WDC-1 words end before a space's letter and behind a line's end") {
  const std::string text = "a\xe2\x96\x81\xe2\x96\x81 b\n\nc\xe2\x96\x81";
  CHECK(first_word(text, text_cuts::nowhere) == text);
  CHECK(first_word(text, text_cuts::words_and_lines) == "a");
  CHECK(first_word(text, text_cuts::before_words) == "a");
  CHECK(first_word(text, text_cuts::behind_lines) == "a\xe2\x96\x81\xe2\x96\x81 b\n\n");
  CHECK(first_word(std::string_view(text).substr(1), text_cuts::words_and_lines) ==
        "\xe2\x96\x81\xe2\x96\x81 b\n\n");
  CHECK(first_word(std::string_view(text).substr(1), text_cuts::before_words) ==
        "\xe2\x96\x81\xe2\x96\x81 b\n\nc");
}
