// TKN-4: tokenizer files cut short, bent and written to harm give errors, never a crash or a hang.
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/other_tokenizers.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::io;
using json = nlohmann::json;

namespace {

std::string fixture(const char* name) {
  return *read_file(std::filesystem::path(TROUPE_SOURCE_DIR "/tests/io/fixtures") / name, 1 << 20);
}

result<tokenizer_ptr> open_text(std::string_view text) {
  auto parts = parse_tokenizer_json(text);
  if (!parts) return parts.error();
  return hf_tokenizer::make(std::move(*parts));
}

/// Encodes and decodes; ids must stay in the vocabulary.
void use(const tokenizer& tok) {
  auto ids = tok.encode("The prompter's 128 lines — Привет 舞台 🎭\n\n  <s><|endoftext|>cat \t x");
  if (!ids) return;
  for (int32_t id : *ids) REQUIRE((id >= 0 && id < tok.vocab_size()));
  auto text = tok.decode(*ids);
  static_cast<void>(text.has_value());
}

json small() {
  return {
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}},
      {"added_tokens", json::array()}};
}

error json_fault_of(const json& file) {
  auto tok = open_text(file.dump());
  return tok ? error() : tok.error();
}

}  // namespace

TEST_CASE("TKN-4 a tokenizer.json cut at any length is refused") {
  for (const char* name : {"gpt2.tokenizer.json", "llama2.tokenizer.json"}) {
    auto text = fixture(name);
    for (size_t n = 0; n + 1 < text.size(); n += 13) CHECK_FALSE(open_text(text.substr(0, n)));
  }
}

TEST_CASE("TKN-4 a tokenizer.json with bytes bent never crashes") {
  std::mt19937 rng(1);
  for (const char* name : {"gpt2.tokenizer.json", "llama3.tokenizer.json", "neox.tokenizer.json",
                           "llama2.tokenizer.json", "metaspace.tokenizer.json"}) {
    const auto text = fixture(name);
    for (int i = 0; i < 400; ++i) {
      auto bent = text;
      for (unsigned n = 1 + rng() % 3; n > 0; --n)
        bent[rng() % bent.size()] = static_cast<char>(0x20 + rng() % 0x5f);
      auto tok = open_text(bent);
      if (tok) use(**tok);
    }
  }
}

TEST_CASE("TKN-4 a SentencePiece model cut or bent never crashes") {
  std::mt19937 rng(2);
  const auto model = fixture("spm.model");
  for (size_t n = 0; n < model.size(); n += 97) {
    auto tok = make_sentencepiece_tokenizer(std::string_view(model).substr(0, n));
    if (tok) use(**tok);
  }
  for (int i = 0; i < 300; ++i) {
    auto bent = model;
    bent[rng() % bent.size()] = static_cast<char>(rng());
    auto tok = make_sentencepiece_tokenizer(bent);
    if (tok) use(**tok);
  }
}

TEST_CASE("what is not supported or wrong is named") {
  CHECK(json_fault_of(small()) == error());
  auto with = [](std::string_view pointer, json value) {
    auto file = small();
    file[json::json_pointer(std::string(pointer))] = std::move(value);
    return file;
  };
  struct row {
    json file;
    error fault;
  };
  const json regex = {{"type", "Split"}, {"behavior", "Isolated"}};
  auto split = [&](const char* pattern) {
    auto stage = regex;
    stage["pattern"] = {{"Regex", pattern}};
    return stage;
  };
  for (const auto& [file, wanted] : {
           row{with("/model/type", "WordPiece"), unsupported_tokenizer("model", "WordPiece")},
           row{with("/normalizer", {{"type", "Lowercase"}}),
               unsupported_tokenizer("normalizer", "Lowercase")},
           row{with("/pre_tokenizer", {{"type", "BertPreTokenizer"}}),
               unsupported_tokenizer("pre-tokenizer", "BertPreTokenizer")},
           row{with("/decoder", {{"type", "WordPiece"}}),
               unsupported_tokenizer("decoder", "WordPiece")},
           row{with("/model/merges", {"a b c"}), merge_malformed("tokenizer.json", 0)},
           row{with("/model/merges", {"a x"}), merge_unknown(0, "a", "x")},
           row{with("/model/merges", {7}), merge_malformed("tokenizer.json", 0)},
           row{with("/model/vocab", json::array()), tokenizer_no_vocabulary()},
           row{with("/model/vocab/a", -1), tokenizer_no_id()},
           row{with("/model/vocab/a", uint64_t{1} << 40), tokenizer_no_id()},
           row{with("/model/vocab/a", 2000000000), token_id_impossible(2000000000)},
           row{with("/model/continuing_subword_prefix", "##"),
               unsupported_tokenizer("option", "continuing_subword_prefix")},
           row{with("/model/dropout", 0.1), unsupported_tokenizer("option", "dropout")},
           row{with("/added_tokens", {{{"id", 3}}}), tokenizer_no_text("content")},
           row{with("/added_tokens", 5), tokenizer_no_list("added_tokens")},
           row{with("/pre_tokenizer", split("[a&&b]")), unsupported_pattern("&& in a class")},
           row{with("/pre_tokenizer", split("[a[b]]")), unsupported_pattern("a class in a class")},
           row{with("/pre_tokenizer", split("\\h")), unsupported_pattern("\\h")},
           row{with("/pre_tokenizer", split("(*LIMIT_MATCH=1)x")),
               unsupported_pattern("a (*VERB)")},
           row{json::array(), tokenizer_no_object()},
       }) {
    CAPTURE(file.dump());
    CHECK(json_fault_of(file) == wanted);
  }
  CHECK(is_error(json_fault_of(with("/pre_tokenizer", split("("))), pattern_failed, "\"(\""));
}

TEST_CASE("SPL-2 a pattern or a replacement that explodes ends in an error") {
  auto file = small();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a+)+\\d"}}}};
  auto slow = open_text(file.dump());
  REQUIRE(slow);
  CHECK((*slow)->encode(std::string(200, 'a') + "ab").has_value() == false);
  file = small();
  json doubling = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(4000, 'a')}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {doubling, doubling, doubling}}};
  auto big = open_text(file.dump());
  REQUIRE(big);
  CHECK_FALSE((*big)->encode(std::string(100, 'a')));
}

TEST_CASE("a sequence nested in itself is refused") {
  json stage = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i)
    stage = {{"type", "Sequence"}, {"normalizers", json::array({stage})}};
  auto file = small();
  file["normalizer"] = stage;
  CHECK(json_fault_of(file) == tokenizer_no_list("normalizers"));
}

TEST_CASE("a character outside a vocabulary without unk or fallback is an error, not a gap") {
  auto tok = open_text(small().dump());
  REQUIRE(tok);
  CHECK(*(*tok)->encode("abba") == std::vector<int32_t>{2, 1, 0});
  auto got = (*tok)->encode("abc");
  REQUIRE_FALSE(got);
  CHECK(got.error() == character_unknown("c"));
}
