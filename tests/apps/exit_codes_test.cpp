// The table of exit codes, its page, and the codes of errors say the same.
#include "apps/exit_codes.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/base/error.hpp"
#include "tests/apps/ended.hpp"

using troupe::apps::exit_meanings;

TEST_CASE("exit codes: the page has the table's rows, in its order, and no others") {
  std::string rows;
  for (const auto& m : exit_meanings)
    rows += fmt::format("| {} | {} | {} |\n", m.code, m.name, m.meaning);
  const std::filesystem::path here(TROUPE_SOURCE_DIR);
  const auto page = troupe::content(here / "docs/exit-codes.md");
  const auto head = page.find("|---|---|---|\n");
  REQUIRE(head != std::string::npos);
  const auto begin = page.find('\n', head) + 1;
  const auto end = page.find("\n\n", begin);
  CHECK(page.substr(begin, end == std::string::npos ? end : end + 1 - begin) == rows);
}

TEST_CASE("exit codes: every kind of failure ends with a code of the table") {
  for (int c = 0; c <= static_cast<int>(troupe::errc::training); ++c) {
    const int code = troupe::exit_code(static_cast<troupe::errc>(c));
    CAPTURE(code);
    CHECK(std::any_of(exit_meanings.begin(), exit_meanings.end(),
                      [&](const auto& m) { return m.code == code; }));
  }
}
