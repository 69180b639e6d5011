// What an editor takes for a choice, by the schema, is what the reader takes.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/config/load.hpp"
#include "io/config/properties.hpp"
#include "io/config/show.hpp"

using namespace troupe;
using namespace troupe::config;

TEST_CASE("schema: each word that it lists for a choice is taken, and so are names of types") {
  const auto schema = nlohmann::json::parse(json_schema());
  int choices = 0;
  for (const auto& p : properties()) {
    if (p.kind != value_kind::choice) continue;
    CAPTURE(p.key);
    ++choices;
    const auto* at = &schema["properties"];
    std::string_view rest = p.key;
    for (size_t dot; (dot = rest.find('.')) != rest.npos; rest.remove_prefix(dot + 1))
      at = &(*at)[std::string(rest.substr(0, dot))]["properties"];
    const auto& words = (*at)[std::string(rest)]["enum"];
    CHECK(words.size() >= p.choices.size());
    for (const auto& word : words) {
      job j;
      CHECK(set(p, j, word.get<std::string>()));
    }
  }
  CHECK(choices > 5);
  const auto& types = schema["properties"]["model"]["properties"]["dtype"]["enum"];
  CHECK(types == nlohmann::json{"f32", "bf16", "float32", "bfloat16"});
}
