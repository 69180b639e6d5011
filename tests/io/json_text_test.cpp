// JSON from outside: what is refused before anything is built of it.
#include "io/formats/json_text.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;

namespace {

std::string nested(int levels) {
  const auto n = static_cast<size_t>(levels);
  return std::string(n, '[') + std::string(n, ']');
}

error json_fault(std::string_view text, int max_depth = 64) {
  const auto made = io::parse_json(text, max_depth);
  return made ? error() : made.error();
}

}  // namespace

TEST_CASE("json text: what is no JSON, too deep, or says a name twice is refused") {
  CHECK(json_fault(R"({"a":[1,-2,3.5,true,null,{"b":"c"}],"b":{"a":1}})") == error());
  CHECK(json_fault(nested(8), 8) == error());
  CHECK(json_fault(nested(9), 8) == io::json_too_deep(8));
  CHECK(json_fault(std::string(1 << 20, '[')) == io::json_too_deep(64));
  CHECK(json_fault(R"({"a":{},"b":1,"a":2})") == io::json_name_twice("a"));
  for (const char* text : {"", "{", "[1,]", "{} x", "1e999", "\"\xff\"", "{\"a\"}"}) {
    CAPTURE(text);
    CHECK(is_error(json_fault(text), io::not_json));
  }
}

TEST_CASE("json text: a list of a million objects is read as fast as it is long") {
  std::string text = "[{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";
  const auto made = io::parse_json(text + "]");
  REQUIRE(made);
  CHECK(made->size() == 1'000'000);
}
