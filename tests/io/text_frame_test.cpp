// What goes around a text, against what transformers puts there (fixtures/make_frames.py).
#include "io/tokenizer/text_frame.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/other_tokenizers.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
using json = nlohmann::json;

namespace {

const std::filesystem::path frame_fixtures = TROUPE_SOURCE_DIR "/tests/io/fixtures";

json frame_fixture(const std::string& name) {
  return json::parse(*read_file(frame_fixtures / name, 1 << 22));
}

void put_file(const std::filesystem::path& path, const std::string& text) {
  REQUIRE(write_atomic(path, text));
}

std::vector<int32_t> framed(const tokenizer& by, const std::string& text) {
  auto ids = by.frame().first;
  const auto own = by.encode(text);
  REQUIRE(own);
  ids.insert(ids.end(), own->begin(), own->end());
  ids.insert(ids.end(), by.frame().last.begin(), by.frame().last.end());
  return ids;
}

/// A folder with a fixture's tokenizer and these files.
tokenizer_ptr in_folder(const scratch& dir, json tokenizer, const json& processor,
                        const json& config) {
  tokenizer["post_processor"] = processor;
  put_file(dir / "tokenizer.json", tokenizer.dump());
  if (!config.is_null()) put_file(dir / "tokenizer_config.json", config.dump());
  auto made = make_tokenizer(dir.path.string());
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  return *made;
}

json begin_template(json ids) {
  return {{"type", "TemplateProcessing"},
          {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
          {"special_tokens", {{"<s>", {{"ids", std::move(ids)}}}}}};
}

}  // namespace

TEST_CASE("BOS and EOS go where transformers puts them") {
  const auto cases = frame_fixture("frames.json");
  REQUIRE(cases.size() == 24);
  for (const auto& c : cases) {
    CAPTURE(c["config"].dump());
    scratch dir;
    const auto tok =
        in_folder(dir, frame_fixture(c["tokenizer"]), c["post_processor"], c["config"]);
    CAPTURE(c["text"].dump());
    // LlamaTokenizer puts aside what the file says of spaces at the beginning (docs/models.md).
    CHECK((json(framed(*tok, c["text"])) == c["ids"]) == !c.contains("other"));
    CHECK(json(tok->end_of_text().value_or(-1)) == c["eos"]);
    if (!c["bos"].is_null()) CHECK(json(tok->frame().bos.value_or(-1)) == c["bos"]);
  }
}

TEST_CASE("tokenizer_config.json's flags count where no tokenizer.json says what goes around") {
  scratch dir;
  put_file(dir / "tokenizer.model", *read_file(frame_fixtures / "spm.model", 1 << 20));
  const auto with = [&](const json& config) {
    put_file(dir / "tokenizer_config.json", config.dump());
    auto made = make_tokenizer(dir.path.string());
    REQUIRE(made);
    return *made;
  };
  const auto plain = with({{"bos_token", "<s>"}});
  CHECK(plain->frame().first.empty());
  const auto both = with({{"bos_token", "<s>"},
                          {"eos_token", {{"content", "</s>"}}},
                          {"add_bos_token", true},
                          {"add_eos_token", true}});
  CHECK(both->frame().first == std::vector<int32_t>{1});
  CHECK(both->frame().last == std::vector<int32_t>{2});
  CHECK(ids_after_document(*both) ==
        std::vector<int32_t>{2});  // once, though it ends documents too
  CHECK(both->fingerprint() != plain->fingerprint());
  CHECK(*both->encode("a") == *plain->encode("a"));
  CHECK(both->cuts() == plain->cuts());
}

TEST_CASE("a job puts BOS there or leaves it out, and a vocabulary without one is told of") {
  scratch dir;
  const auto tok =
      in_folder(dir, frame_fixture("llama2.tokenizer.json"), begin_template({1}), json());
  CHECK(ids_before_document(*tok) == std::vector<int32_t>{1});
  const auto without = with_bos(tok, false);
  REQUIRE(without);
  CHECK(ids_before_document(**without).empty());
  CHECK((*without)->fingerprint() != tok->fingerprint());
  CHECK(ids_before_document(**with_bos(*without, true)) == std::vector<int32_t>{1});
  CHECK(*with_bos(tok, true) == tok);  // the very one
  CHECK(is_error(with_bos(make_byte_tokenizer(), true), no_bos));
}

TEST_CASE("the end of text is the file's word, a known name only without one") {
  scratch dir;
  const auto llama3 = frame_fixture("llama3.tokenizer.json");
  const auto guessed = in_folder(dir, llama3, nullptr, json());
  const auto told = in_folder(dir, llama3, nullptr, {{"eos_token", "<|eot_id|>"}});
  CHECK(told->end_of_text() == told->id_of("<|eot_id|>"));
  CHECK(told->end_of_text() != guessed->end_of_text());
  const auto unknown = in_folder(dir, llama3, nullptr, {{"eos_token", "<|nobody|>"}});
  CHECK(unknown->end_of_text() == guessed->end_of_text());
}

TEST_CASE("post-processors and tokenizer_config.json that lie are refused") {
  auto with = [](const json& processor) {
    auto tokenizer = frame_fixture("llama2.tokenizer.json");
    tokenizer["post_processor"] = processor;
    return parse_tokenizer_json(tokenizer.dump());
  };
  CHECK(with(begin_template({1})));
  CHECK(is_error(with(begin_template({-1})), tokenizer_no_id));
  CHECK(is_error(with(begin_template(7)), tokenizer_no_list));
  CHECK(is_error(with({{"type", "Strange"}}), unsupported_tokenizer, "Strange"));
  CHECK(is_error(with({{"type", "TemplateProcessing"}}), tokenizer_no_list));
  CHECK(is_error(with({{"type", "RobertaProcessing"}, {"cls", {"<s>"}}}), tokenizer_no_list));
  const auto roberta =
      with({{"type", "RobertaProcessing"}, {"cls", {"<s>", 1}}, {"sep", {"</s>", 2}}});
  REQUIRE(roberta);
  CHECK(roberta->frame.first == std::vector<int32_t>{1});
  CHECK(roberta->frame.last == std::vector<int32_t>{2});
  scratch dir;
  put_file(dir / "tokenizer.json", frame_fixture("llama2.tokenizer.json").dump());
  put_file(dir / "tokenizer_config.json", "[]");
  CHECK(is_error(make_tokenizer(dir.path.string()), tokenizer_config_no_object));
  put_file(dir / "tokenizer_config.json", "{}");
  put_file(dir / "special_tokens_map.json", "3");
  CHECK(is_error(make_tokenizer(dir.path.string()), tokenizer_config_no_object));
  // An id that the vocabulary has not would be found when documents are written.
  auto beyond = with(begin_template({999999}));
  REQUIRE(beyond);
  CHECK(is_error(hf_tokenizer::make(std::move(*beyond)), token_id_impossible, "999999"));
  put_file(dir / "tokenizer_config.json", "{");
  CHECK_FALSE(make_tokenizer(dir.path.string()));
}

TEST_CASE("the bytes' tokenizer.json makes the ids of bytes") {
  const auto bytes = make_byte_tokenizer();
  scratch dir;
  put_file(dir / "tokenizer.json", byte_tokenizer_json());
  const auto same = make_tokenizer(dir.path.string());
  REQUIRE(same);
  CHECK((*same)->vocab_size() == 256);
  CHECK_FALSE((*same)->end_of_text());
  for (const std::string text : {"", "Tom said\n\n  \"no\"", "Привет 舞台 🎭\x7f\x01"}) {
    CHECK(*(*same)->encode(text) == *bytes->encode(text));
    CHECK(*(*same)->decode(*bytes->encode(text)) == text);
  }
}

TEST_CASE("TKN-4 a frame of more tokens than the limit is refused") {
  const auto with = [](size_t items, size_t ids) {
    auto processor = begin_template(json(std::vector<int>(ids, 1)));
    auto& single = processor["single"];
    const json one = single[0];
    for (size_t i = 1; i < items; ++i) single.insert(single.begin(), one);
    auto tokenizer = frame_fixture("llama2.tokenizer.json");
    tokenizer["post_processor"] = processor;
    return parse_tokenizer_json(tokenizer.dump());
  };
  CHECK(with(8, most_frame_ids / 8)->frame.first.size() == most_frame_ids);
  CHECK(is_error(with(1, most_frame_ids + 1), frame_too_long));
  CHECK(is_error(with(2000, 2000), frame_too_long));
}

TEST_CASE("what a tokenizer puts around texts is part of what caches are known by") {
  scratch dir;
  const auto words = frame_fixture("llama2.tokenizer.json");
  auto processed = words;
  processed["post_processor"] = begin_template({1});
  const auto parts = parse_tokenizer_json(processed.dump());
  REQUIRE(parts);
  auto plain = *parts, framed = *parts;
  plain.frame = {};
  plain.fingerprint = framed.fingerprint = 5;
  CHECK((*hf_tokenizer::make(std::move(plain)))->fingerprint() == 5);
  CHECK((*hf_tokenizer::make(std::move(framed)))->fingerprint() != 5);
}

TEST_CASE("special_tokens_map.json says what tokenizer_config.json does not") {
  scratch dir;
  const auto llama3 = frame_fixture("llama3.tokenizer.json");
  put_file(
      dir / "special_tokens_map.json",
      json{{"bos_token", "<|begin_of_text|>"}, {"eos_token", {{"content", "<|eot_id|>"}}}}.dump());
  const auto alone = in_folder(dir, llama3, nullptr, json());
  CHECK(alone->end_of_text() == alone->id_of("<|eot_id|>"));
  CHECK(alone->frame().bos == alone->id_of("<|begin_of_text|>"));
  const auto over = in_folder(dir, llama3, nullptr, {{"eos_token", "<|end_of_text|>"}});
  CHECK(over->end_of_text() == over->id_of("<|end_of_text|>"));
}

TEST_CASE("GPT-2's two files are GPT-2's: those of another class are refused with the remedy") {
  scratch dir;
  put_file(dir / "vocab.json", R"({"a": 0, "b": 1, "<|endoftext|>": 2})");
  put_file(dir / "merges.txt", "#version: 0.2\n");
  CHECK(make_tokenizer(dir.path.string()));
  put_file(dir / "tokenizer_config.json", R"({"tokenizer_class": "GPT2TokenizerFast"})");
  CHECK(make_tokenizer(dir.path.string()));
  put_file(dir / "tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  CHECK(is_error(make_tokenizer(dir.path.string()), pair_of_other_class, "Qwen2Tokenizer"));
}

TEST_CASE("a frame is written into a tokenizer.json and read back") {
  const auto text = frame_fixture("llama2.tokenizer.json").dump();
  for (const text_frame& frame :
       {text_frame{{1}, {}}, text_frame{{1}, {2}}, text_frame{{}, {2, 2}}, text_frame{}}) {
    const auto written = tokenizer_json_with_frame(text, frame);
    REQUIRE(written);
    const auto back = parse_tokenizer_json(*written);
    REQUIRE(back);
    CHECK(back->frame.first == frame.first);
    CHECK(back->frame.last == frame.last);
    CHECK(back->tokens == parse_tokenizer_json(text)->tokens);
  }
  // What was there before is gone.
  const auto first = tokenizer_json_with_frame(text, {{1}, {2}});
  CHECK(parse_tokenizer_json(*tokenizer_json_with_frame(*first, {}))->frame.first.empty());
}
