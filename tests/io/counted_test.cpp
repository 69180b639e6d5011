// A number and its noun: one of a thing is said otherwise than none or several.
#include "io/base/counted.hpp"

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

using troupe::counted;
using troupe::grouped;
using troupe::plural;

TEST_CASE("counted: one of a thing has no s, none and several have one, or the plural it is told") {
  CHECK(counted(1, "node") == "1 node");
  CHECK(counted(0, "node") == "0 nodes");
  CHECK(counted(uint64_t{1} << 40, "token") == "1099511627776 tokens");
  CHECK(counted(uint8_t{1}, "launch", "launches") == "1 launch");
  CHECK(counted(int64_t{2}, "launch", "launches") == "2 launches");
  CHECK(counted(1, "other waits", "others wait") == "1 other waits");
  CHECK(plural(1, "day") == "day");
  CHECK(plural(2, "day") == "days");
  CHECK(plural(0, "copy", "copies") == "copies");
}

TEST_CASE("counted: integers with separators") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-123) == "-123");
  CHECK(grouped(-123456) == "-123,456");
  CHECK(grouped(std::numeric_limits<int64_t>::max()) == "9,223,372,036,854,775,807");
}
