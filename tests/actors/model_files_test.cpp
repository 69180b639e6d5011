// What a checkpoint holds of a model folder: the folder's own word where the model began from one.
#include "actors/checkpoint/model_files.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/config/load.hpp"
#include "io/file.hpp"
#include "io/formats/hf_config.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/tokenizer.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path model_fixtures = TROUPE_SOURCE_DIR "/tests/gpu/fixtures";
const fs::path word_fixtures = TROUPE_SOURCE_DIR "/tests/io/fixtures";

train::job_plan plan_of(const std::string& sections) {
  const auto job = config::parse(sections, "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  auto plan = train::make_plan(*job);
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  return *plan;
}

std::map<std::string, std::string> files_of(const train::job_plan& plan) {
  const auto files = checkpoint::model_files(plan);
  REQUIRE_MESSAGE(files, (files ? "" : render(files.error())));
  std::map<std::string, std::string> out;
  for (const auto& f : *files) CHECK(out.emplace(f.name, f.content).second);
  return out;
}

std::string small_model(const std::string& data) {
  return "[model]\nlayers = 2\nhidden = 8\nheads = 2\n[data]\npath = \"x.txt\"\n" + data;
}

/// A folder of Qwen2's kind with what its makers put beside the weights.
void make_origin(const fs::path& folder) {
  auto config = json::parse(*io::read_file(model_fixtures / "qwen2_tiny/config.json", 1 << 20));
  config["bos_token_id"] = 3;
  config["eos_token_id"] = {4, 5};
  config["initializer_range"] = 0.125;
  REQUIRE(io::write_atomic(folder / "config.json", config.dump()));
  for (const char* name :
       {"generation_config.json", "chat_template.jinja", "tokenizer_config.json"})
    REQUIRE(io::write_atomic(folder / name, "{}"));
  REQUIRE(io::write_atomic(folder / "tokenizer.json",
                           *io::read_file(word_fixtures / "gpt2.tokenizer.json", 1 << 20)));
}

}  // namespace

TEST_CASE("model files: the bytes' tokenizer is one that transformers loads") {
  const auto files = files_of(plan_of(small_model("")));
  CHECK(files.contains("tokenizer.json"));
  CHECK(json::parse(files.at("tokenizer_config.json"))["tokenizer_class"] ==
        "PreTrainedTokenizerFast");
  const auto config = json::parse(files.at("config.json"));
  CHECK(config["eos_token_id"].is_null());  // bytes have none
  CHECK(config["torch_dtype"] == "float32");
}

TEST_CASE("model files: a model from nothing has its tokenizer's ids, under the usual names") {
  const auto named = (word_fixtures / "gpt2.tokenizer.json").string();
  const auto files = files_of(plan_of(small_model("tokenizer = \"" + named + "\"\n")));
  CHECK(files.at("tokenizer.json") == *io::read_file(named, 1 << 20));
  CHECK(json::parse(files.at("config.json"))["eos_token_id"] == 0);
  // Its size being said changes nothing.
  const auto sized =
      files_of(plan_of("[model]\nlayers = 2\nhidden = 8\nheads = 2\nvocab = 512\n"
                       "[data]\npath = \"x.txt\"\ntokenizer = \"" +
                       named + "\"\n"));
  CHECK(json::parse(sized.at("config.json"))["eos_token_id"] == 0);
}

TEST_CASE("model files: a lone tokenizer.json is given its class, so that no other is guessed") {
  const auto config_of = [&](const std::string& words, const std::string& model = "") {
    const auto files = files_of(plan_of(
        fmt::format("[model]\nlayers = 2\nhidden = 8\nheads = 2\n{}[data]\npath = \"x.txt\"\n"
                    "tokenizer = \"{}\"\n",
                    model, words)));
    REQUIRE(files.contains("tokenizer_config.json"));
    return json::parse(files.at("tokenizer_config.json"));
  };
  const auto gpt2 = config_of((word_fixtures / "gpt2.tokenizer.json").string());
  CHECK(gpt2["tokenizer_class"] == "PreTrainedTokenizerFast");
  CHECK(gpt2["eos_token"] == "<|endoftext|>");
  CHECK_FALSE(gpt2.contains("bos_token"));
  CHECK(config_of((word_fixtures / "llama2.tokenizer.json").string())["eos_token"] == "</s>");
  scratch dir;
  REQUIRE(io::write_atomic(dir / "tokenizer.json",
                           *io::read_file(word_fixtures / "llama2.tokenizer.json", 1 << 20)));
  SUBCASE("what the folder says of it otherwise stays") {
    REQUIRE(io::write_atomic(dir / "tokenizer_config.json", R"({"bos_token": "<s>", "x": 7})"));
    const auto said = config_of(dir.path.string());
    CHECK(said["tokenizer_class"] == "PreTrainedTokenizerFast");
    CHECK(said["bos_token"] == "<s>");
    CHECK(said["eos_token"] == "</s>");
    CHECK(said["x"] == 7);
  }
  SUBCASE("a class of its own stays") {
    const std::string own = R"({"tokenizer_class": "LlamaTokenizerFast"})";
    REQUIRE(io::write_atomic(dir / "tokenizer_config.json", own));
    CHECK(config_of(dir.path.string()) == json::parse(own));
  }
  SUBCASE("ids that the embedding does not have are not named") {
    const auto files = files_of(
        plan_of(fmt::format("[model]\nlayers = 2\nhidden = 8\nheads = 2\nvocab = 2\n[data]\n"
                            "path = \"x.txt\"\ntokenizer = \"{}\"\n",
                            dir.path.string())));
    CHECK(json::parse(files.at("config.json"))["eos_token_id"].is_null());
    CHECK_FALSE(json::parse(files.at("tokenizer_config.json")).contains("eos_token"));
  }
}

TEST_CASE("model files: of a folder, all that its makers put there, and its type") {
  scratch dir;
  make_origin(dir.path);
  const std::string model =
      fmt::format("[model]\npath = \"{0}\"\ninit = \"random\"\n[train]\nseq_len = 16\n[data]\n",
                  dir.path.string());
  SUBCASE("text by its tokenizer") {
    const auto files = files_of(
        plan_of(model + fmt::format("path = \"x.txt\"\ntokenizer = \"{}\"\n", dir.path.string())));
    for (const char* name : {"generation_config.json", "chat_template.jinja",
                             "tokenizer_config.json", "tokenizer.json"})
      CHECK(files.contains(name));
    const auto config = json::parse(files.at("config.json"));
    CHECK(config["model_type"] == "qwen2");
    CHECK(config["bos_token_id"] == 3);
    CHECK(config["eos_token_id"] == json::array({4, 5}));
    CHECK(config["initializer_range"] == 0.125);
    CHECK(config["torch_dtype"] == "bfloat16");
  }
  SUBCASE("ready tokens: the folder's tokenizer made them") {
    const auto files = files_of(plan_of(model + "path = \"x.bin\"\nformat = \"llmc\"\n"));
    CHECK(files.contains("tokenizer.json"));
  }
  SUBCASE("ready tokens of a tokenizer that is not read here: its files as they are") {
    const std::string unigram = R"({"model": {"type": "Unigram", "vocab": [["a", -1.0]]}})";
    REQUIRE(io::write_atomic(dir / "tokenizer.json", unigram));
    REQUIRE_FALSE(io::make_tokenizer(dir.path.string()));
    const auto ready = model + "path = \"x.bin\"\nformat = \"llmc\"\n";
    const auto named = fmt::format("tokenizer = \"{}\"\n", dir.path.string());
    for (const auto& words : {std::string(), named}) {
      CAPTURE(words);
      REQUIRE(io::write_atomic(dir / "tokenizer_config.json", "{}"));
      const auto files = files_of(plan_of(ready + words));
      CHECK(files.at("tokenizer.json") == unigram);
      CHECK(json::parse(files.at("tokenizer_config.json"))["tokenizer_class"] ==
            "PreTrainedTokenizerFast");
      REQUIRE(io::write_atomic(dir / "tokenizer_config.json", "[]"));
      CHECK(files_of(plan_of(ready + words)).at("tokenizer_config.json") == "[]");
    }
  }
  SUBCASE("text by bytes: neither its tokenizer nor its ids") {
    const auto files = files_of(plan_of(model + "path = \"x.txt\"\n"));
    CHECK(files.at("tokenizer.json") != *io::read_file(dir / "tokenizer.json", 1 << 20));
    CHECK_FALSE(files.contains("generation_config.json"));
    const auto config = json::parse(files.at("config.json"));
    CHECK(config["eos_token_id"].is_null());
    CHECK(config["initializer_range"] == 0.125);
  }
  SUBCASE("text by another tokenizer: its ids") {
    const auto other = (word_fixtures / "llama2.tokenizer.json").string();
    const auto files =
        files_of(plan_of(model + fmt::format("path = \"x.txt\"\ntokenizer = \"{}\"\n", other)));
    CHECK_FALSE(files.contains("generation_config.json"));
    CHECK(json::parse(files.at("config.json"))["eos_token_id"] == 2);
  }
  SUBCASE("text by a file in the folder: its own") {
    const auto own = (dir / "tokenizer.json").string();
    const auto files =
        files_of(plan_of(model + fmt::format("path = \"x.txt\"\ntokenizer = \"{}\"\n", own)));
    CHECK(files.contains("generation_config.json"));
    CHECK(json::parse(files.at("config.json"))["eos_token_id"] == json::array({4, 5}));
  }
}

TEST_CASE("plan: a folder that asks for dropout is refused until the job says without") {
  scratch dir;
  make_origin(dir.path);
  auto config = json::parse(*io::read_file(dir / "config.json", 1 << 20));
  config["attention_dropout"] = 0.1;
  REQUIRE(io::write_atomic(dir / "config.json", config.dump()));
  const auto with = [&](const std::string& line) {
    const auto job = config::parse(
        fmt::format("[model]\npath = \"{}\"\ninit = \"random\"\n{}[train]\nseq_len = 16\n"
                    "[data]\npath = \"x.txt\"\n",
                    dir.path.string(), line),
        "test");
    REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
    return train::make_plan(*job);
  };
  CHECK(is_error(with(""), io::hf_dropout, "attention_dropout", "0.1"));
  const auto without = with("dropout = 0\n");
  REQUIRE(without);
  // Who trains it on with a program that has dropout finds it still asked for.
  const auto files = files_of(*without);
  CHECK(json::parse(files.at("config.json"))["attention_dropout"] == 0.1);
}

TEST_CASE("plan: what ends a document is settled, so that all who read the data have the same") {
  const auto planned = [](const std::string& data) {
    const auto job = config::parse(small_model(data), "test");
    REQUIRE(job);
    return train::make_plan(*job);
  };
  const auto end_in = [&](const std::string& data) {
    const auto plan = planned(data);
    REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
    return plan->job.data.document_end;
  };
  const auto words =
      fmt::format("tokenizer = \"{}\"\n", (word_fixtures / "gpt2.tokenizer.json").string());
  CHECK(end_in(words) == -1);
  CHECK(end_in(words + "reset_attention = true\n") == 0);
  CHECK(end_in(words + "reset_attention = true\ndocument_end = 7\n") == 7);
  CHECK(end_in("reset_attention = true\ndocument_end = 10\n") == 10);
  CHECK(is_error(planned("reset_attention = true\n"), train::document_end_unknown, "\"bytes\""));
  CHECK(is_error(planned("reset_attention = true\ndocument_end = 256\n"),
                 train::document_end_beyond, int64_t{256}, int64_t{256}));
  const auto gone = planned("reset_attention = true\ntokenizer = \"gone.json\"\n");
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == errc::not_found);
}

TEST_CASE("plan: data.add_bos puts the first token before documents, or takes it away") {
  scratch dir;
  auto tokenizer = json::parse(*io::read_file(word_fixtures / "llama2.tokenizer.json", 1 << 20));
  REQUIRE(io::write_atomic(dir / "tokenizer.json", tokenizer.dump()));
  REQUIRE(io::write_atomic(dir / "tokenizer_config.json", R"({"bos_token": "<s>"})"));
  const auto first_of = [&](const std::string& line) {
    const auto job = config::parse(
        small_model(fmt::format("tokenizer = \"{}\"\n{}", dir.path.string(), line)), "test");
    REQUIRE(job);
    const auto words = train::tokenizer_of(*job);
    REQUIRE(words);
    return io::ids_before_document(**words);
  };
  // What documents began with is what the exported tokenizer puts before a text.
  const auto exported_first = [&](const std::string& line) {
    const auto files = files_of(
        plan_of(small_model(fmt::format("tokenizer = \"{}\"\n{}", dir.path.string(), line))));
    const auto parts = io::parse_tokenizer_json(files.at("tokenizer.json"));
    REQUIRE(parts);
    return parts->frame.first;
  };
  CHECK(exported_first("").empty());
  CHECK(exported_first("add_bos = \"yes\"\n") == std::vector<int32_t>{1});
  CHECK(first_of("").empty());
  CHECK(first_of("add_bos = \"yes\"\n") == std::vector<int32_t>{1});
  CHECK(first_of("add_bos = \"no\"\n").empty());
}

TEST_CASE("plan: data.add_bos is in the flags of a tokenizer that has no file of its own for it") {
  scratch dir;
  REQUIRE(io::write_atomic(dir / "tokenizer.model",
                           *io::read_file(word_fixtures / "spm.model", 1 << 20)));
  const auto flag = [&](const std::string& line) {
    const auto files = files_of(
        plan_of(small_model(fmt::format("tokenizer = \"{}\"\n{}", dir.path.string(), line))));
    CHECK(files.contains("tokenizer.model"));
    if (!files.contains("tokenizer_config.json")) return json();  // no tokenizer.json, no class
    return json::parse(files.at("tokenizer_config.json"))["add_bos_token"];
  };
  CHECK(flag("").is_null());
  CHECK(flag("add_bos = \"yes\"\n") == true);
  CHECK(flag("add_bos = \"no\"\n") == false);
}
