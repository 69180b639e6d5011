// `troupe generate` through the built program, on a small Qwen3 whose vocabulary is wider than its
// tokenizer's.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/growing_text.hpp"
#include "tests/apps/ended.hpp"

namespace fs = std::filesystem;
using json = nlohmann::json;

namespace {

/// A tokenizer of 40 letters, each an id; `before`: ids that go before a text.
json letters(const std::vector<int>& before) {
  json vocabulary;
  const std::string all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
  for (size_t i = 0; i < all.size(); ++i) vocabulary[std::string(1, all[i])] = i;
  const json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json sequence = {{"Sequence", {{"id", "A"}}}};
  const json special = {{"SpecialToken", {{"id", "first"}}}};
  json out = {{"added_tokens", json::array()},
              {"pre_tokenizer", level},
              {"decoder", level},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
  if (!before.empty())
    out["post_processor"] = {{"type", "TemplateProcessing"},
                             {"single", {special, sequence}},
                             {"special_tokens", {{"first", {{"ids", before}}}}}};
  return out;
}

/// A Hugging Face folder, and a place to run in.
struct model_folder {
  fs::path path;
  model_folder() {
    std::string name = (fs::temp_directory_path() / "troupe-generate-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
    const fs::path from = TROUPE_SOURCE_DIR "/tests/gpu/fixtures/qwen3_tiny";
    for (const char* file : {"config.json", "model.safetensors"})
      fs::copy_file(from / file, path / file);
    write("tokenizer.json", letters({}).dump());
  }
  ~model_folder() { fs::remove_all(path); }
  model_folder(const model_folder&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
  }
  troupe::ended generate(const std::string& options, const std::string& before = "") const {
    return troupe::run_in(
        path, "{ " + before + "'" TROUPE_PROGRAM "' generate --checkpoint . " + options + "; }");
  }
  /// The text after a prompt.
  std::string text(const std::string& prompt, const std::string& options) const {
    const auto ran = generate("--json --prompt " + prompt + " " + options);
    INFO(ran.talk);
    REQUIRE(ran.code == 0);
    return json::parse(ran.out)["text"];
  }
};

}  // namespace

TEST_CASE("generate: only ids that the tokenizer knows, in float32 and bfloat16") {
  const model_folder m;
  for (const char* dtype : {"f32", "bf16"})
    for (int seed = 1; seed <= 4; ++seed) {
      // Hot enough that a third of the picks would be ids 40 to 60, which have no text.
      const auto text = m.text("abc", "--temperature 50 --tokens 30 --seed " +
                                          std::to_string(seed) + " --dtype " + dtype);
      CHECK(text.size() == 30);
    }
}

TEST_CASE("generate: what the tokenizer's files put before a text goes before the prompt") {
  const model_folder m;
  const auto with_it = m.text("xabc", "--temperature 0 --tokens 12");
  const auto without = m.text("abc", "--temperature 0 --tokens 12");
  m.write("tokenizer.json", letters({'x' - 'a'}).dump());
  CHECK(m.text("abc", "--temperature 0 --tokens 12") == with_it);
  CHECK(with_it != without);
}

TEST_CASE("generate: generation_config.json gives defaults and the ids that end a text") {
  const model_folder m;
  const auto greedy = m.text("abc", "--temperature 0 --tokens 12");
  const auto hot = m.text("abc", "--temperature 9 --tokens 12");
  REQUIRE(greedy != hot);
  m.write("generation_config.json", "{}");
  CHECK(m.text("abc", "--tokens 12") == greedy);                         // as in transformers
  CHECK(m.text("abc", "--temperature 9 --top-k 0 --tokens 12") == hot);  // a person's word counts
  m.write("generation_config.json", R"({"do_sample": false, "temperature": 9.0})");
  CHECK(m.text("abc", "--tokens 12") == greedy);
  m.write("generation_config.json", R"({"do_sample": true, "temperature": 9.0, "top_k": 0})");
  CHECK(m.text("abc", "--tokens 12") == hot);
  // The third letter ends the text; so it does when it is config.json that says so.
  const std::string all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
  const auto third = all.find(greedy[2]);
  const auto until = greedy.substr(0, greedy.find(greedy[2]));
  m.write("generation_config.json", json{{"eos_token_id", {third, 55}}}.dump());
  CHECK(m.text("abc", "--temperature 0 --tokens 12") == until);
  fs::remove(m.path / "generation_config.json");
  std::ifstream in(m.path / "config.json");
  auto config = json::parse(in);
  config["eos_token_id"] = third;
  m.write("config.json", config.dump());
  CHECK(m.text("abc", "--temperature 0 --tokens 12") == until);
  m.write("generation_config.json", R"({"temperature": "hot"})");
  CHECK(m.generate("--prompt abc").code == 65);
}

TEST_CASE("generate: a repetition penalty, of the folder or as a person says") {
  const model_folder m;
  const auto plain = m.text("abc", "--temperature 0 --tokens 12 --repetition-penalty 1");
  CHECK(plain == m.text("abc", "--temperature 0 --tokens 12"));
  // As transformers' greedy search goes on with this model.
  const std::string little = "JjMNLuKKKqMK", much = "JjMNLuKHivgB";
  CHECK(m.text("abc", "--temperature 0 --tokens 12 --repetition-penalty 1.3") == little);
  CHECK(m.text("abc", "--temperature 0 --tokens 12 --repetition-penalty 2") == much);
  m.write("generation_config.json", R"({"repetition_penalty": 1.3})");
  CHECK(m.text("abc", "--tokens 12") == little);
  CHECK(m.text("abc", "--tokens 12 --repetition-penalty 2") == much);  // a person's word counts
  CHECK(m.text("abc", "--tokens 12 --repetition-penalty 1") == plain);
  for (const char* wrong : {"0", "-1", "nan"})
    CHECK(m.generate("--prompt abc --repetition-penalty " + std::string(wrong)).code == 64);
  CHECK(m.generate("--prompt abc --top-p nan").code == 64);
  m.write("generation_config.json", R"({"repetition_penalty": 0})");
  const auto refused = m.generate("--prompt abc --tokens 1");
  CHECK(refused.code == 65);
  CHECK(refused.talk.find("\"repetition_penalty\" is 0, expected a number from 1e-06 to") !=
        std::string::npos);
}

TEST_CASE("generate: prompts from a file and from stdin") {
  const model_folder m;
  const auto one = m.text("abc", "--temperature 0 --tokens 5");
  const auto other = m.text("xyz", "--temperature 0 --tokens 5");
  m.write("prompts.txt", "abc\r\n\nxyz");
  const auto file = m.generate("--prompts prompts.txt --temperature 0 --tokens 5");
  CHECK(file.out == "abc" + one + "\nxyz" + other + "\n");
  const auto lines =
      m.generate("--prompts - --json --temperature 0 --tokens 5", "cat prompts.txt | ");
  const auto second = lines.out.find('\n') + 1;
  const auto last = json::parse(lines.out.substr(second));
  CHECK(last["prompt"] == "xyz");
  CHECK(last["text"] == other);
  CHECK(last["tokens"].size() == 5);
  const auto piped = m.generate("--temperature 0 --tokens 5", "printf abc | ");
  CHECK(piped.out == "abc" + one + "\n");
  CHECK(m.generate("--prompt a --prompts prompts.txt").code == 64);
}

TEST_CASE("SH-5: generate: a terminal gets no control character of a model's, a pipe all") {
  const model_folder m;
  // All but one letter become the bytes 1 to 8, 14 to 31 and others, by their byte-level names.
  auto tokenizer = letters({});
  json vocabulary = {{"a", 0}};
  for (int id = 1; id < 40; ++id) {
    const int byte = id < 9 ? id : id < 27 ? id + 5 : 0;
    vocabulary[byte == 0 ? std::string(1, static_cast<char>('a' + id - 26))
                         : std::string("\xc4") + static_cast<char>(0x80 + byte)] = id;
  }
  tokenizer["model"]["vocab"] = vocabulary;
  m.write("tokenizer.json", tokenizer.dump());
  const std::string flags = "--prompt a --temperature 9 --tokens 40";
  const auto acts = [](char c) { return c >= 0 && c < ' ' && c != '\n' && c != '\r'; };
  const auto piped = m.generate(flags);
  REQUIRE_MESSAGE(piped.code == 0, piped.talk);
  CHECK(std::any_of(piped.out.begin(), piped.out.end(), acts));
  if (std::system("script --version >/dev/null 2>&1") != 0) {
    MESSAGE("SKIPPED: script (bsdutils) not found");
    return;
  }
  const auto seen =
      troupe::run_in(m.path, "script -qec \"'" TROUPE_PROGRAM "' generate --checkpoint . " + flags +
                                 "\" /dev/null");
  REQUIRE_MESSAGE(seen.code == 0, seen.out);
  CHECK(std::none_of(seen.out.begin(), seen.out.end(), acts));
  CHECK(seen.out.find("\\u00") != std::string::npos);
}

TEST_CASE("generate: a folder that is not there, or holds no model, is said so") {
  const model_folder m;
  const auto in = [&](const std::string& folder) {
    return troupe::run_in(m.path,
                          "'" TROUPE_PROGRAM "' generate --prompt a --checkpoint " + folder);
  };
  const auto missing = in("nowhere");
  CHECK(missing.code == 66);
  CHECK(missing.talk.find("nowhere: not found") != std::string::npos);
  fs::create_directories(m.path / "empty/checkpoints");
  CHECK(in("empty").code == 66);
  fs::remove(m.path / "tokenizer.json");
  CHECK(in(".").talk.find("no tokenizer") != std::string::npos);
}

TEST_CASE("generate: computes on the device that is named, and says where there is none") {
  const model_folder m;
  CHECK(m.text("abc", "--temperature 0 --tokens 9 --device host") ==
        m.text("abc", "--temperature 0 --tokens 9"));
  const auto wrong = m.generate("--prompt abc --device gpu");
  CHECK(wrong.code == 64);
  CHECK(wrong.out.empty());
  CHECK(wrong.talk.find("devices are host, cuda, cuda:0") != std::string::npos);
  const auto absent = m.generate("--prompt abc --device cuda:4000");
  CHECK(absent.code != 0);
  CHECK(absent.code != 64);
  CHECK(absent.out.empty());
}

TEST_CASE("generate: a file beyond its length is refused") {
  const model_folder m;
  const std::string lines((size_t{64} << 20) / 2 + 1, 'a');
  m.write("prompts.txt", lines + "\n" + lines);  // letters that the tokenizer has
  const auto prompts = m.generate("--prompts prompts.txt --tokens 1");
  CHECK(prompts.code == 65);
  CHECK(prompts.talk.find("67108864") != std::string::npos);
  CHECK(m.generate("--prompts - --tokens 1", "cat prompts.txt | ").talk.find("67108864") !=
        std::string::npos);
  m.write("generation_config.json", "{" + std::string(size_t{1} << 20, ' ') + "}");
  const auto config = m.generate("--prompt a --tokens 1");
  CHECK(config.code == 65);
  CHECK(config.talk.find("1048576") != std::string::npos);
}

TEST_CASE("generate: what of generation_config.json is not done is told, and no more") {
  const model_folder m;
  m.write("generation_config.json",
          R"({"typical_p": 0.9, "repetition_penalty": 1.1, "num_beams": 1, "min_p": null,
              "encoder_repetition_penalty": 1.3, "guidance_scale": 1.0, "max_length": 20})");
  const auto ran = m.generate("--prompt abc --tokens 3");
  CHECK(ran.code == 0);
  CHECK(ran.talk.find("\"typical_p\" = 0.9") != std::string::npos);
  CHECK(ran.talk.find("\"encoder_repetition_penalty\" = 1.3") != std::string::npos);
  for (const char* done : {"\"repetition_penalty", "num_beams", "guidance_scale"})
    CHECK(ran.talk.find(done) == std::string::npos);
  CHECK(ran.talk.find("min_p") == std::string::npos);
}

TEST_CASE("generate: a bad line of prompts is told by its number") {
  const model_folder m;
  m.write("prompts.txt", "abc\n\n\xff\nxyz\n");
  const auto ran = m.generate("--prompts prompts.txt --tokens 2 --json");
  CHECK(ran.code == 65);
  CHECK(ran.talk.find("prompts.txt: line 3") != std::string::npos);
  CHECK(ran.out.find("abc") != std::string::npos);
}

TEST_CASE("a growing text is shown whole once, and not before it is settled") {
  std::string shown;
  const std::function<void(std::string_view)> show = [&](std::string_view piece) {
    shown += piece;
  };
  troupe::apps::growing_text text(show);
  // As SentencePiece decodes byte by byte.
  const std::string replacement = "\xef\xbf\xbd";
  text.is_now("a");
  for (int bytes = 1; bytes <= 3; ++bytes) {
    std::string so_far = "a";
    for (int i = 0; i < bytes; ++i) so_far += replacement;
    text.is_now(so_far);
    CHECK(shown == "a");
  }
  text.is_now("a\xf0\x9f\x98\x80");
  CHECK(shown == "a\xf0\x9f\x98\x80");
  text.is_now("a\xf0\x9f\x98\x80 b\xc3");
  CHECK(shown == "a\xf0\x9f\x98\x80 b");
  // What the last token cut is no character; U+FFFD is one.
  text.is_whole("a\xf0\x9f\x98\x80 b\xc3");
  CHECK(shown == "a\xf0\x9f\x98\x80 b");
  text.is_whole("a\xf0\x9f\x98\x80 b" + replacement);
  CHECK(shown == "a\xf0\x9f\x98\x80 b" + replacement);
}

TEST_CASE("a character that is cut at the end is told from one that is whole") {
  using troupe::apps::cut_character_bytes;
  CHECK(cut_character_bytes("") == 0);
  CHECK(cut_character_bytes("abc") == 0);
  CHECK(cut_character_bytes("\xd0\x91") == 0);
  CHECK(cut_character_bytes("a\xd0") == 1);
  CHECK(cut_character_bytes("\xf0\x9f\x98\x80") == 0);
  CHECK(cut_character_bytes("\xf0\x9f\x98") == 3);
  CHECK(cut_character_bytes("\xe2\x96") == 2);
  CHECK(cut_character_bytes("\x80\x80") == 0);  // no character begins there
}
