// Regular expressions on lines: the first that fits, what is refused, and that nothing is slow.
#include "io/logs/line_patterns.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::io;

TEST_CASE("line patterns: the first in their order that a line fits, and where it begins") {
  const auto p = line_patterns::make({"Xid .*: 79,", "Xid", "^out of (memory|time)$", "é+"});
  REQUIRE(p);
  using none = std::optional<size_t>;
  CHECK(p->first_fit("NVRM: Xid (PCI:0000:3b:00): 79, pid=1") == 0);
  CHECK(p->first_fit("NVRM: Xid (PCI:0000:3b:00): 13, pid=1") == 1);
  CHECK(p->first_fit("out of time") == 2);
  CHECK(p->first_fit("never out of time") == none());
  CHECK(p->first_fit("caf\xc3\xa9") == 3);
  CHECK(p->first_fit("") == none());
  CHECK(p->begin_of_fit(1, "NVRM: Xid (") == 6);
  CHECK(p->begin_of_fit(1, "NVRM") == none());
  CHECK(p->begin_of_fit(9, "NVRM: Xid (") == none());
  CHECK(line_patterns().first_fit("NVRM: Xid (") == none());
}

TEST_CASE("LPT-1: what is no expression, or too much of one, is refused") {
  for (const char* wrong : {"(", "[a", "a**", "(?P<x", "\\", "(?=a)", "\\1", "\xff", "a{1001}"}) {
    CAPTURE(wrong);
    const auto fault = line_patterns::check(wrong);
    REQUIRE_FALSE(fault);
    CHECK(fault.error().is(bad_pattern));
  }
  const std::string longest(line_patterns::max_pattern_bytes, 'a');
  CHECK(line_patterns::check(longest));
  const auto fault = line_patterns::check(longest + "a");
  REQUIRE_FALSE(fault);
  CHECK(fault.error() == pattern_too_long(longest.size() + 1, longest.size()));
  CHECK(line_patterns::check("((a{100}){100}){100}").error().is(bad_pattern));  // RE2's own bound
  std::vector<std::string> many(20, "[a-z]{300}");
  CHECK(line_patterns::make(many));
  many.resize(30, many[0]);
  CHECK(line_patterns::make(many).error().is(patterns_too_large));
}

TEST_CASE("LPT-2: bytes that are no text fit what they fit, and no line is too hard") {
  const auto p = line_patterns::make({"(a*)*c", "(x+x+)+y", "boom"});
  REQUIRE(p);
  CHECK(p->first_fit(std::string("\xff\xfe\0\x80 boom \xc3", 11)) == 2);
  CHECK(p->first_fit(std::string(4096, 'a')) == std::nullopt);  // exponential for who goes back
  CHECK(p->first_fit(std::string(4096, 'x')) == std::nullopt);
  CHECK(p->first_fit(std::string(4095, 'x') + "y") == 1);
}

TEST_CASE("line patterns: many that are hard are right all the same") {
  std::vector<std::string> many;
  for (int i = 0; i < 50; ++i) many.push_back("[a-z]{150}" + std::to_string(i));
  many.push_back("boom");
  const auto p = line_patterns::make(many);
  REQUIRE(p);
  CHECK(p->first_fit("a boom") == 50);
  CHECK(p->first_fit(std::string(4096, 'q')) == std::nullopt);
  CHECK(p->first_fit(std::string(150, 'q') + "7") == 7);
}
