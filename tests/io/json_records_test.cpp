// JSON records out of a stream: lines, arrays, records over several lines, cut anywhere.
#include "io/data/json_records.hpp"

#include <vector>

#include <doctest/doctest.h>

#include "io/formats/json_text.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

using records = std::vector<std::pair<std::string, uint64_t>>;

/// The records of a stream that is handed in by parts of so many bytes.
result<records> records_of(std::string_view stream, size_t part, uint64_t most = 1 << 20) {
  json_records splitter("x.jsonl", most);
  records out;
  const auto take = [&](std::string_view record, uint64_t line) -> status {
    out.emplace_back(record, line);
    return {};
  };
  for (size_t at = 0; at < stream.size(); at += part)
    TROUPE_CHECK(splitter.feed(stream.substr(at, part), take));
  TROUPE_CHECK(splitter.finish());
  return out;
}

}  // namespace

TEST_CASE("JRC-1 records are the same whatever parts they come in") {
  const std::string one = R"({"text": "a } \" { \\", "b": [{"c": []}]})", two = R"({"x":{}})";
  struct {
    std::string stream;
    records wanted;
  } const rows[] = {
      {"", {}},
      {" \n\t\r\n", {}},
      {one + "\n" + two + "\n", {{one, 1}, {two, 2}}},
      {"\xef\xbb\xbf" + one + "\r\n\r\n" + two, {{one, 1}, {two, 3}}},
      {one + two, {{one, 1}, {two, 1}}},
      {"[" + one + ",\n" + two + "]\n", {{one, 1}, {two, 2}}},
      {"\n[]", {}},
      {"{\n \"a\": 1\n}\n{\n}", {{"{\n \"a\": 1\n}", 1}, {"{\n}", 4}}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.stream);
    for (size_t part = 3; part <= row.stream.size() + 3; ++part) {
      auto got = records_of(row.stream, part);
      REQUIRE(got);
      CHECK(*got == row.wanted);
    }
    if (row.stream.starts_with("\xef")) continue;  // its mark is seen whole
    for (size_t part : {size_t{1}, size_t{2}}) CHECK(*records_of(row.stream, part) == row.wanted);
  }
}

TEST_CASE("JRC-2 what is no record is refused with its line") {
  const std::pair<const char*, uint64_t> rows[] = {
      {"{}\n{}\nnull\n", 3}, {"{} \n\n,{}", 3},   {"[{}\n{}]", 2},         {"[{},\n]", 2},
      {"[{}]\n{}", 2},       {"[{}", 1},          {"{\"a\": 1}\n{\"b", 2}, {"[1, 2]", 1},
      {"[,{}]", 1},          {"\"a string\"", 1}, {"{}\n[{}]", 2},         {"[[{}]]", 1}};
  for (const auto& [stream, line] : rows) {
    CAPTURE(stream);
    for (size_t part = 1; part < 12; ++part)
      CHECK(is_error(records_of(stream, part), no_record, line));
  }
}

TEST_CASE("JRC-3 a record longer than what may be held is refused") {
  const std::string record = "{\"text\": \"" + std::string(100, 'x') + "\"}";
  for (size_t part = 1; part < 130; ++part) {
    CHECK(records_of("{}\n" + record, part, record.size()));
    CHECK(is_error(records_of("{}\n" + record, part, record.size() - 1), json_record_too_long,
                   uint64_t{2}, record.size() - 1));
  }
  // One that does not end is not held for ever.
  CHECK(is_error(records_of("{\"" + std::string(100, 'x'), 1, 50), json_record_too_long));
}

TEST_CASE("records: the text is the named field's, and what is there instead is said") {
  const auto text = [](std::string_view record, const std::string& field = "text") {
    return text_of_record(record, field, "x.jsonl", 7);
  };
  CHECK(*text(R"({"text": "a\u00e9\n"})") == "a\xc3\xa9\n");
  CHECK(*text(R"({"text": "", "content": "b"})") == "");
  CHECK(*text(R"({"text": "a", "content": "b"})", "content") == "b");
  CHECK(is_error(text(R"({"content": "b", "id": 1})"), no_text_field, uint64_t{7}, "text",
                 "content, id"));
  CHECK(is_error(text(R"({"text": null})"), text_is_no_string, "null"));
  CHECK(is_error(text(R"({"text": ["a"]})"), text_is_no_string, "array"));
  for (const char* broken : {R"({"text": 'a'})", R"({"text": "a\ud800b"})", "{\"text\": \"\xff\"}",
                             R"({"text": "a", "text": "b"})"}) {
    CAPTURE(std::string(broken));
    const auto refused = text(broken);
    CHECK(is_error(refused, refused.error().kind, "x.jsonl", uint64_t{7}));
    CHECK(refused.error().code == errc::bad_data);
    CHECK(refused.error().hint == broken_record_hint);
    CHECK(refused.error().message.find("exception") == std::string::npos);
  }
}
