// Texts in parts.
#include "io/base/text.hpp"

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("text: what stands between commas, without blanks around it") {
  using parts = std::vector<std::string_view>;
  CHECK(comma_parts(" a b,\tc\r") == parts{"a b", "c"});
  CHECK(comma_parts("") == parts{""});
  CHECK(comma_parts(",x,") == parts{"", "x", ""});
  CHECK(without_blanks(" \t\r ").empty());
}
