// `troupe data inspect` of what a job would read: records, texts and tokens by one verb.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

struct data_folder {
  scratch here;

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((here / name).parent_path());
    std::ofstream(here / name) << text;
  }
  ended inspect(const std::string& words) const {
    return run_in(here.path, "'" TROUPE_PROGRAM "' data inspect " + words);
  }
};

}  // namespace

TEST_CASE("data inspect: a folder of records is what a job reads of it") {
  const data_folder data;
  data.write("d/a.jsonl", "{\"text\": \"to be\"}\n{\"text\": \"or not\"}\n");
  data.write("d/b.json", "[{\"text\": \"that\", \"n\": 1}]");
  data.write("d/README.md", "# a card");
  const auto seen = data.inspect("d --json");
  REQUIRE_MESSAGE(seen.code == 0, seen.talk);
  const auto facts = json::parse(seen.out);
  REQUIRE(facts.size() == 2);  // the card is no document (TXT-1)
  CHECK(facts[0] == json{{"file", "d/a.jsonl"},
                         {"format", "records"},
                         {"text_field", "text"},
                         {"documents", 2},
                         {"text_bytes", 11},
                         {"first_text", "to be"}});
  CHECK(facts[1]["documents"] == 1);
  CHECK(facts[1]["first_text"] == "that");
  CHECK(seen.talk.find("README.md") != std::string::npos);
  CHECK(seen.talk.find("2 files: 3 documents, 15 bytes of text") != std::string::npos);
  const auto shown = data.inspect("d/a.jsonl");
  CHECK(shown.code == 0);
  CHECK(shown.out.find("format           \"records\"\n") != std::string::npos);
  CHECK(shown.out.find("first_text       \"to be\"\n") != std::string::npos);
}

TEST_CASE(
    "data inspect: the field is asked for as a job does, and records without it are refused") {
  const data_folder data;
  data.write("a.jsonl", "{\"content\": \"to be\"}\n");
  CHECK(data.inspect("a.jsonl").code == 65);
  const auto seen = data.inspect("a.jsonl --text-field content --json");
  REQUIRE_MESSAGE(seen.code == 0, seen.talk);
  CHECK(json::parse(seen.out)[0]["text_field"] == "content");
  CHECK(json::parse(seen.out)[0]["text_bytes"] == 5);
  const auto as_text = data.inspect("a.jsonl --any-text --json");
  CHECK(json::parse(as_text.out)[0]["format"] == "text");
}

TEST_CASE("data inspect: a text is one document, of which the beginning is shown") {
  const data_folder data;
  data.write("a.txt",
             "\xef\xbb\xbf"
             "to be\r\n" +
                 std::string(100'000, 'x'));
  const auto seen = data.inspect("a.txt --json");
  REQUIRE_MESSAGE(seen.code == 0, seen.talk);
  const auto facts = json::parse(seen.out)[0];
  CHECK(facts["format"] == "text");
  CHECK_FALSE(facts.contains("text_field"));
  CHECK(facts["documents"] == 1);
  CHECK(facts["text_bytes"] == 100'006);  // as a job reads it (TXT-2)
  CHECK(facts["first_text"].get<std::string>().starts_with("to be\nxxx"));
  CHECK(facts["first_text"].get<std::string>().size() == 400);
}

TEST_CASE("data inspect: what is missing, mixed or not read ends as it would a start") {
  const data_folder data;
  CHECK(data.inspect("none").code == 66);
  data.write("t.parquet", "PAR1....PAR1");
  CHECK(data.inspect("t.parquet").code == 65);
  data.write("d/a.jsonl", "{\"text\": \"to be\"}\n{\"text\":\n");
  CHECK(data.inspect("d").code == 65);
}

TEST_CASE("data inspect: a first text is not cut within a character") {
  const data_folder data;
  std::string text = "a", shown = "a";
  for (int i = 0; i < 300; ++i) text += "\u0436";
  for (int i = 0; i < 199; ++i) shown += "\u0436";
  data.write("a.txt", text);
  const auto seen = data.inspect("a.txt --json");
  REQUIRE_MESSAGE(seen.code == 0, seen.talk);
  CHECK(seen.out.find("\uFFFD") == std::string::npos);
  CHECK(seen.out.find("\"" + shown + "\"") != std::string::npos);
}
