// [[data.source]]: what it fills in, which layer wins against data.path, and what is refused.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"
#include "io/config/properties.hpp"
#include "io/config/show.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::config;

namespace {

const std::string shape = "[model]\nlayers = 4\nheads = 4\nhidden = 64\n";
const std::string two =
    "[[data.source]]\npath = [\"web/\", \"more/\"]\nweight = 3\n"
    "[[data.source]]\npath = \"code.jsonl\"\nname = \"code\"\ntext_field = \"body\"\n";

result<job> with_sources(const std::string& text) {
  return parse(shape + text, "job.toml");
}

}  // namespace

TEST_CASE("J-9: sources: what they leave out is filled in, and data.path is one of them") {
  const auto got = with_sources("[data]\ntext_field = \"t\"\n" + two);
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->data.path.empty());
  CHECK(got->data.source == std::vector<source_spec>{{{"web/", "more/"}, 3, "", ""},
                                                     {{"code.jsonl"}, 1, "code", "body"}});
  CHECK(got->data.sources() == std::vector<source_spec>{{{"web/", "more/"}, 3, "web/, more/", "t"},
                                                        {{"code.jsonl"}, 1, "code", "body"}});
  CHECK(*parse(to_toml(*got), "again") == *got);  // J-4
  const auto one = with_sources("[data]\npath = \"x\"\n");
  REQUIRE(one);
  CHECK(one->data.sources() == std::vector<source_spec>{{{"x"}, 1, "", "text"}});
  CHECK(*parse(to_toml(*one), "again") == *one);
}

TEST_CASE("sources: each member has its key") {
  [[maybe_unused]] auto [path, weight, name, field] = source_spec{};
  CHECK(source_properties().size() == 4);
}

TEST_CASE("J-9: sources: a stronger layer's path takes their place, and the other way round") {
  const auto path = amend(*with_sources(two), "data.path=x");
  REQUIRE(path);
  CHECK(path->data.path == std::vector<std::string>{"x"});
  CHECK(path->data.source.empty());
  const auto sources = amend(*path, R"(data.source=[{path="a", weight=0.5}, {path="b"}])");
  REQUIRE(sources);
  CHECK(sources->data.path.empty());
  CHECK(sources->data.source == std::vector<source_spec>{{{"a"}, 0.5, "", ""}, {{"b"}, 1, "", ""}});
}

TEST_CASE("sources: what is wrong with one is said with its place") {
  struct wrong {
    std::string text, place, what;
  };
  const std::string source = "[[data.source]]\n", path = source + "path = 'a'\n";
  std::string many;
  for (size_t i = 0; i <= most_sources; ++i) many += path;
  for (const auto& w : {
           wrong{"", "job.toml", "data.path: is required"},
           wrong{"[data]\nsource = []\n", "job.toml:6:1", "data.source: is required"},
           wrong{"[data]\npath = 'b'\n" + path, "job.toml:7:1", "are both set"},
           wrong{path + "[data]\npath = 'b'\n", "job.toml:5:1", "are both set"},
           wrong{source + "weight = 2\n", "job.toml:5:1", "needs a path"},
           wrong{source + "path = ['a', '']\n", "job.toml:5:1", "holds an empty path"},
           wrong{source + "path = 3\n", "job.toml:6:8", "expected a string or array"},
           wrong{path + "weight = 0\n", "job.toml:7:10", "expected a number above 0 to 1000000000"},
           wrong{path + "weight = -1.5\n", "job.toml:7:10", "got the number -1.5"},
           wrong{path + "weight = inf\n", "job.toml:7:10", "expected a number above 0"},
           wrong{path + "weight = nan\n", "job.toml:7:10", "expected a number above 0"},
           wrong{path + "weight = 'heavy'\n", "job.toml:7:10", "expected a number above 0"},
           wrong{path + "wieght = 2\n", "job.toml:7:1", "did you mean data.source.weight?"},
           wrong{"[data]\nsource = 'a'\n", "job.toml:6:1", "expected [[data.source]] tables"},
           wrong{many, "job.toml:5:1", "65 sources, at most 64 are mixed"},
       }) {
    CAPTURE(w.text);
    const auto got = with_sources(w.text);
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::bad_config);
    INFO(got.error().message);
    CHECK(got.error().message.starts_with(w.place + ": "));
    const auto said = got.error().message + "\n" + got.error().hint;
    CHECK(said.find(w.what) != std::string::npos);
  }
}
